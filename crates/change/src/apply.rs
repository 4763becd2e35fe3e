//! Applies a plan, all or nothing.

use super::record::PlannedChange;
use super::{Error, Journal, Machine, Plan, State, Step, StepStatus};

/// What was applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplyOutcome {
    /// Numbers of the applied changes.
    pub changes: Vec<u64>,
    /// Number of steps whose target was in the wanted state.
    pub unchanged: usize,
    /// Targets that only a running machine has, left out in a folder.
    pub left_out: Vec<String>,
}

/// Applies the steps of a plan whose target is not in the wanted state. All targets are read first, and an unreadable one is
/// refused, since it could not be reverted; each change is in the journal before it is applied; if one fails, those before it
/// are reverted. `now` is in seconds since 1970.
pub fn apply(
    machine: &Machine,
    plan: &Plan,
    command: &str,
    now: u64,
) -> Result<ApplyOutcome, Error> {
    let (applied, to_do) = sort(machine, plan)?;
    if to_do.is_empty() {
        return Ok(applied);
    }
    needs_root(machine, &to_do)?;
    let mut journal = Journal::open(machine, now)?;
    // Another run may have made changes until it released the lock.
    let (mut applied, to_do) = sort(machine, plan)?;
    let run = journal.next_id();
    for (step, before) in to_do {
        let folders = step.change.target.missing_folders(machine);
        let planned = PlannedChange {
            run,
            command: command.to_owned(),
            boot: machine.boot(),
            item: step.item.clone(),
            why: step.why.clone(),
            change: step.change.clone(),
            before,
            folders,
        };
        match apply_change(machine, &mut journal, planned) {
            Ok(id) => applied.changes.push(id),
            Err(error) => return Err(revert_run(machine, &mut journal, run, &step.item, error)),
        }
    }
    Ok(applied)
}

/// Steps to apply, with the current states of their targets.
type ToDo<'p> = Vec<(&'p Step, State)>;

/// Splits the steps into those to apply and those that are not.
fn sort<'p>(machine: &Machine, plan: &'p Plan) -> Result<(ApplyOutcome, ToDo<'p>), Error> {
    let mut applied = ApplyOutcome::default();
    let mut to_do = Vec::new();
    for (step, status) in plan.statuses(&machine.reader()?) {
        match status {
            StepStatus::AlreadySet => applied.unchanged += 1,
            StepStatus::NeedsRunningMachine => applied.left_out.push(step.change.target.name()),
            StepStatus::ChangeFrom(before) => to_do.push((step, before)),
            StepStatus::Unreadable(error) => {
                let refused = Error::refused(format!("nothing was changed: {error}"));
                return Err(refused.caused_by(error).of_item(&step.item));
            }
        }
    }
    Ok((applied, to_do))
}

/// Only root may change the running machine. Checked for all steps before anything is changed.
fn needs_root(machine: &Machine, to_do: &[(&Step, State)]) -> Result<(), Error> {
    if !machine.is_live() || rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let names: Vec<String> = to_do.iter().map(|(step, _)| step.change.target.name()).collect();
    Err(Error::refused(format!(
        "nothing was changed: only root may change {}; run it again with sudo",
        names.join(", ")
    )))
}

/// Records a change, applies it, and reads it back: a kernel may accept a value and set another.
fn apply_change(
    machine: &Machine,
    journal: &mut Journal,
    planned: PlannedChange,
) -> Result<u64, Error> {
    let (change, folders) = (planned.change.clone(), planned.folders.clone());
    let id = journal.begin(planned)?;
    machine.create_folders(&folders)?;
    change.target.set(machine, &change.wanted)?;
    let now = machine.reader()?.read(&change.target)?;
    if !now.satisfies(&change.wanted) {
        let shown = super::before_and_after(&change.wanted, &now);
        return Err(Error::failed(format!(
            "{}: read back another value after setting it: {shown}",
            change.target.name()
        )));
    }
    journal.done(id)?;
    Ok(id)
}

/// Reverts a run whose step failed, and returns the error with the result of that.
fn revert_run(
    machine: &Machine,
    journal: &mut Journal,
    run: u64,
    item: &str,
    error: Error,
) -> Error {
    let entries: Vec<_> =
        journal.entries().iter().filter(|entry| entry.planned.run == run).cloned().collect();
    let mut stuck = Vec::new();
    for entry in entries.iter().rev() {
        let back = super::revert::restore(machine, entry)
            .and_then(|()| journal.reverted(entry.id, &format!("a later step failed: {error}")));
        if let Err(error) = back {
            stuck.push(error.to_string());
        }
    }
    if stuck.is_empty() {
        let failed = Error::failed(format!("{error}. Everything was reverted"));
        return failed.caused_by(error).of_item(item);
    }
    let failed = Error::failed(format!(
        "{error}. Reverting failed too: {}. `wirelane revert --last` tries again",
        stuck.join("; ")
    ));
    failed.caused_by(error)
}
