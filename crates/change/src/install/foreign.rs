//! What is not ours stays: files that somebody else wrote, or changed since we did.

use serde::Serialize;

use crate::{Entry, Error, Journal, Machine, Outlook, Plan, State, Step, diff};

/// A file that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptFile {
    /// Where it is.
    pub path: String,
    /// Whose it is.
    pub why: &'static str,
    /// What ours would change in it.
    pub diff: Vec<String>,
}

/// Takes out of a plan what would overwrite something that is not as we left it, and says what that is.
pub fn keep(machine: &Machine, plan: &mut Plan) -> Result<Vec<KeptFile>, Error> {
    let history = Journal::read(machine)?;
    let look = machine.look()?;
    let mut kept = Vec::new();
    plan.steps.retain(|step| match step.outlook(&look) {
        Outlook::From(now) if now != State::Absent => match whose(step, &now, &history.entries) {
            None => true,
            Some(why) => {
                let path = step.change.target.name();
                kept.push(KeptFile { path, why, diff: diff(&step.change, &now) });
                false
            }
        },
        _ => true,
    });
    Ok(kept)
}

/// Whose a file is that differs from what is wanted; none: ours, as we left it.
fn whose(step: &Step, now: &State, entries: &[Entry]) -> Option<&'static str> {
    let of_file = |entry: &&Entry| {
        entry.reverted.is_none() && entry.planned.change.target == step.change.target
    };
    match entries.iter().rev().find(of_file) {
        None => Some("it was there before us"),
        Some(entry) if now.satisfies(&entry.planned.change.wanted) => None,
        Some(_) => Some("it was changed since we wrote it"),
    }
}
