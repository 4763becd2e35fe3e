//! What is to be changed, and why.

use serde::Serialize;

use super::{Change, Error, Reader, State};

/// Changes with their reasons, and advice for what an administrator should do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// In the order in which they are applied.
    pub steps: Vec<Step>,
    /// What is not done automatically.
    pub advice: Vec<Advice>,
}

/// One change and its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The item that it belongs to: `mtu`. `--skip mtu` leaves it out.
    pub item: String,
    /// The reason.
    pub why: String,
    /// The change.
    pub change: Change,
    /// Whether it has been applied and reverted on the hardware that it is for.
    pub tested_on_hardware: bool,
}

/// Something that an administrator should decide and do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The item that it belongs to: `acs`.
    pub item: String,
    /// Why it should be done, and why it is not done automatically.
    pub why: String,
    /// The commands to run.
    pub commands: Vec<String>,
}

/// What a step would do now.
#[derive(Debug)]
pub enum StepStatus {
    /// The target is in the wanted state.
    AlreadySet,
    /// It would be changed from this state.
    ChangeFrom(State),
    /// Only a running machine has the target, and this is a folder or a snapshot.
    NeedsRunningMachine,
    /// It cannot be read, and so could not be reverted.
    Unreadable(Error),
}

impl Plan {
    /// Adds a change.
    pub fn step(
        &mut self,
        item: &str,
        why: impl Into<String>,
        change: Change,
        tested_on_hardware: bool,
    ) {
        self.steps.push(Step {
            item: item.to_owned(),
            why: why.into(),
            change,
            tested_on_hardware,
        });
    }

    /// Adds advice.
    pub fn advise(&mut self, item: &str, why: impl Into<String>, commands: Vec<String>) {
        self.advice.push(Advice { item: item.to_owned(), why: why.into(), commands });
    }

    /// The steps, with what each would do on this machine.
    pub fn statuses(&self, reader: &Reader<'_>) -> Vec<(&Step, StepStatus)> {
        self.steps.iter().map(|step| (step, step.status(reader))).collect()
    }
}

impl Step {
    /// What it would do on this machine.
    pub fn status(&self, reader: &Reader<'_>) -> StepStatus {
        let target = &self.change.target;
        match reader.read(target) {
            Ok(now) if now.satisfies(&self.change.wanted) => StepStatus::AlreadySet,
            _ if target.needs_running_machine() && !reader.is_live() => {
                StepStatus::NeedsRunningMachine
            }
            Ok(now) => StepStatus::ChangeFrom(now),
            Err(error) => StepStatus::Unreadable(error),
        }
    }
}
