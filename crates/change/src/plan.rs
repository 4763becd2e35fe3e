//! What shall be changed, and why.

use serde::Serialize;

use super::{Change, Error, Look, State};

/// Changes with their reasons, and advice for what is better done by a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// In the order in which they are made.
    pub steps: Vec<Step>,
    /// What is not done by itself.
    pub advice: Vec<Advice>,
}

/// One change and its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What it belongs to: `mtu`. A command that applies plans leaves it out by `--skip mtu`.
    pub item: String,
    /// Why.
    pub why: String,
    /// What.
    pub change: Change,
    /// Whether it was ever made and reverted on the hardware that it is for.
    pub proven: bool,
}

/// Something that a person should decide and do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What it belongs to: `acs`.
    pub item: String,
    /// Why it should be done, and why it is not done here.
    pub why: String,
    /// How, word for word.
    pub commands: Vec<String>,
}

/// What a step would do now.
#[derive(Debug)]
pub enum Outlook {
    /// It is so already.
    Already,
    /// It would be changed from this.
    From(State),
    /// Only the running machine has it, and this is a tree.
    LiveOnly,
    /// It cannot be read, and so could not be reverted.
    Unreadable(Error),
}

impl Plan {
    /// Adds a change.
    pub fn step(&mut self, item: &str, why: impl Into<String>, change: Change, proven: bool) {
        self.steps.push(Step { item: item.to_owned(), why: why.into(), change, proven });
    }

    /// Adds advice.
    pub fn advise(&mut self, item: &str, why: impl Into<String>, commands: Vec<String>) {
        self.advice.push(Advice { item: item.to_owned(), why: why.into(), commands });
    }

    /// What each step would do on this machine.
    pub fn outlooks(&self, look: &Look<'_>) -> Vec<(&Step, Outlook)> {
        self.steps.iter().map(|step| (step, step.outlook(look))).collect()
    }
}

impl Step {
    /// What it would do on this machine.
    pub fn outlook(&self, look: &Look<'_>) -> Outlook {
        let target = &self.change.target;
        match look.at(target) {
            Ok(now) if now.satisfies(&self.change.wanted) => Outlook::Already,
            _ if target.is_live_only() && !look.is_live() => Outlook::LiveOnly,
            Ok(now) => Outlook::From(now),
            Err(error) => Outlook::Unreadable(error),
        }
    }
}
