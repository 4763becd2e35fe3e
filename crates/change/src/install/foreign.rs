//! Existing files that we did not write, or that were changed since: they are left unchanged.

use serde::Serialize;

use crate::{Entry, Error, Journal, Machine, Plan, State, Step, StepStatus, diff};

/// A file that is left unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptFile {
    /// Its path.
    pub path: String,
    /// Why it is left.
    pub why: &'static str,
    /// What our file would change in it.
    pub diff: Vec<String>,
}

/// Removes steps that would overwrite a file that we did not write, or that was changed since. Returns these files.
pub fn skip_foreign_files(machine: &Machine, plan: &mut Plan) -> Result<Vec<KeptFile>, Error> {
    let history = Journal::read(machine)?;
    let reader = machine.reader()?;
    let mut kept = Vec::new();
    plan.steps.retain(|step| match step.status(&reader) {
        StepStatus::ChangeFrom(now) if now != State::Absent => {
            match reason_to_keep(step, &now, &history.entries) {
                None => true,
                Some(why) => {
                    let path = step.change.target.name();
                    kept.push(KeptFile { path, why, diff: diff(&step.change, &now) });
                    false
                }
            }
        }
        _ => true,
    });
    Ok(kept)
}

/// Why a file is left; `None`: it is ours and unchanged.
fn reason_to_keep(step: &Step, now: &State, entries: &[Entry]) -> Option<&'static str> {
    let same_file = |entry: &&Entry| {
        entry.reverted.is_none() && entry.planned.change.target == step.change.target
    };
    match entries.iter().rev().find(same_file) {
        None => Some("it existed before"),
        Some(entry) if now.satisfies(&entry.planned.change.wanted) => None,
        Some(_) => Some("it was changed since it was installed"),
    }
}
