//! Making a plan, all or nothing.

use super::record::Planned;
use super::{Error, Journal, Machine, Outlook, Plan, State, Step};

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Numbers of the changes that were made.
    pub made: Vec<u64>,
    /// How many were so already.
    pub already: usize,
    /// What only a running machine has, left out in a tree.
    pub left_out: Vec<String>,
}

/// Makes the steps of a plan that are not so already. Everything is read first, and refused if something could
/// not be reverted; each change is in the journal before it is made; if one fails, those made before it are
/// reverted. `now` is in seconds since 1970.
pub fn apply(machine: &Machine, plan: &Plan, command: &str, now: u64) -> Result<Applied, Error> {
    let (applied, to_do) = sort(machine, plan)?;
    if to_do.is_empty() {
        return Ok(applied);
    }
    needs_root(machine, &to_do)?;
    let mut journal = Journal::open(machine, now)?;
    // Another run may have made changes until it gave the lock back.
    let (mut applied, to_do) = sort(machine, plan)?;
    let run = journal.next_id();
    for (step, before) in to_do {
        let folders = step.change.target.missing_folders(machine);
        let planned = Planned {
            run,
            command: command.to_owned(),
            boot: machine.boot(),
            item: step.item.clone(),
            why: step.why.clone(),
            change: step.change.clone(),
            before,
            folders,
        };
        match make(machine, &mut journal, planned) {
            Ok(id) => applied.made.push(id),
            Err(error) => return Err(revert_run(machine, &mut journal, run, &step.item, error)),
        }
    }
    Ok(applied)
}

/// Steps, with what is there now.
type ToDo<'p> = Vec<(&'p Step, State)>;

/// What is to be done, and what is not.
fn sort<'p>(machine: &Machine, plan: &'p Plan) -> Result<(Applied, ToDo<'p>), Error> {
    let mut applied = Applied::default();
    let mut to_do = Vec::new();
    for (step, outlook) in plan.outlooks(&machine.look()?) {
        match outlook {
            Outlook::Already => applied.already += 1,
            Outlook::LiveOnly => applied.left_out.push(step.change.target.name()),
            Outlook::From(before) => to_do.push((step, before)),
            Outlook::Unreadable(error) => {
                let refused = Error::refused(format!("nothing was changed: {error}"));
                return Err(refused.caused_by(error).of_item(&step.item));
            }
        }
    }
    Ok((applied, to_do))
}

/// Only root may change the running machine: said for everything at once, before anything is touched.
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

/// Writes down, makes, and looks whether it is so: a kernel may take a value and do otherwise.
fn make(machine: &Machine, journal: &mut Journal, planned: Planned) -> Result<u64, Error> {
    let (change, folders) = (planned.change.clone(), planned.folders.clone());
    let id = journal.begin(planned)?;
    machine.make_folders(&folders)?;
    change.target.set(machine, &change.wanted)?;
    let now = machine.look()?.at(&change.target)?;
    if !now.satisfies(&change.wanted) {
        let shown = super::before_and_after(&change.wanted, &now);
        return Err(Error::failed(format!(
            "{}: it was set, and is not so: {shown}",
            change.target.name()
        )));
    }
    journal.done(id)?;
    Ok(id)
}

/// Reverts a run whose step failed, and says what became of it.
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
        let back = super::revert::set_back(machine, entry)
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
