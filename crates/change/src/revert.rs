//! Reverts changes, the newest first.

use serde::{Deserialize, Serialize};

use super::{ChangeStatus, Entry, Error, Journal, Machine, State, Target, before_and_after};

/// Which changes to revert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All that are not reverted yet.
    All,
    /// Those of the last command that has unreverted changes.
    Last,
    /// Those with these numbers.
    Numbers(Vec<u64>),
}

/// The result for one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertReport {
    /// Its number.
    pub id: u64,
    /// Its target.
    pub target: String,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: RevertOutcome,
}

/// The outcome of reverting a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "why", rename_all = "snake_case")]
pub enum RevertOutcome {
    /// It was reverted; in a dry run, it would be.
    Reverted(String),
    /// There was nothing to revert.
    Nothing(String),
    /// It was skipped: the target was changed again since.
    Left(String),
    /// It could not be reverted.
    Failed(String),
}

/// How to revert; start from the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RevertMode {
    /// Also what was changed again since.
    pub force: bool,
    /// Only report what would be done.
    pub dry_run: bool,
}

impl RevertMode {
    /// Also what was changed again since.
    pub fn force(mut self, force: bool) -> RevertMode {
        self.force = force;
        self
    }

    /// Only report what would be done.
    pub fn dry_run(mut self, dry_run: bool) -> RevertMode {
        self.dry_run = dry_run;
        self
    }
}

/// Reverts changes. `now` is in seconds since 1970.
pub fn revert(
    machine: &Machine,
    selection: &Selection,
    mode: RevertMode,
    now: u64,
) -> Result<Vec<RevertReport>, Error> {
    let selected = selection.from(&Journal::read(machine)?.entries)?;
    if selected.is_empty() {
        return Ok(Vec::new());
    }
    if machine.is_live() && !mode.dry_run && !rustix::process::geteuid().is_root() {
        return Err(Error::refused(
            "nothing was changed: only root may revert changes; run it again with sudo",
        ));
    }
    let mut journal = if mode.dry_run { None } else { Some(Journal::open(machine, now)?) };
    // Another run may have reverted changes while it held the lock.
    let selected = match &journal {
        Some(journal) => selection.from(journal.entries())?,
        None => selected,
    };
    let mut dry_run = DryRun::default();
    let mut outcomes = Vec::new();
    for entry in selected.iter().rev() {
        let outcome = match plan(machine, entry, mode.force, &dry_run)? {
            Action::Nothing(why) => {
                if let Some(journal) = &mut journal {
                    remove_leftovers(machine, entry);
                    journal.reverted(entry.id, &why)?;
                }
                RevertOutcome::Nothing(why)
            }
            Action::Leave(why) => RevertOutcome::Left(why),
            Action::Restore(now) => match &mut journal {
                Some(journal) => revert_one(machine, journal, entry, &now)?,
                None => {
                    dry_run.set(entry);
                    RevertOutcome::Reverted(before_and_after(&now, &entry.planned.before))
                }
            },
        };
        outcomes.push(RevertReport {
            id: entry.id,
            target: entry.planned.change.target.name(),
            outcome,
        });
    }
    Ok(outcomes)
}

impl Selection {
    /// The selected changes that are not reverted yet, the oldest first.
    fn from(&self, entries: &[Entry]) -> Result<Vec<Entry>, Error> {
        let unreverted = entries.iter().filter(|entry| entry.reverted.is_none());
        let selected: Vec<Entry> = match self {
            Selection::All => unreverted.cloned().collect(),
            Selection::Last => {
                let run = unreverted.clone().next_back().map(|entry| entry.planned.run);
                unreverted.filter(|entry| Some(entry.planned.run) == run).cloned().collect()
            }
            Selection::Numbers(ids) => {
                if let Some(id) = ids.iter().find(|id| entries.iter().all(|e| e.id != **id)) {
                    return Err(Error::refused(format!(
                        "there is no change {id}: `wirelane changes` lists them"
                    )));
                }
                unreverted.filter(|entry| ids.contains(&entry.id)).cloned().collect()
            }
        };
        Ok(selected)
    }
}

/// What to do with a change.
enum Action {
    Nothing(String),
    Leave(String),
    /// Restore it from this current state.
    Restore(State),
}

fn plan(machine: &Machine, entry: &Entry, force: bool, dry_run: &DryRun) -> Result<Action, Error> {
    let target = &entry.planned.change.target;
    let now = match dry_run.get(target) {
        Some(state) => state.clone(),
        None => match machine.reader()?.read(target) {
            Ok(state) => state,
            Err(error) => return Ok(Action::Leave(error.to_string())),
        },
    };
    if entry.is_lost_by_restart(machine, &now) {
        return Ok(Action::Nothing("the machine was restarted since".to_owned()));
    }
    Ok(match entry.status_for(now.clone()) {
        ChangeStatus::Undone => Action::Nothing("it is in its old state".to_owned()),
        // A removed net device, an unplugged CPU.
        ChangeStatus::Changed(State::Values(values)) if values.iter().all(Option::is_none) => {
            Action::Nothing("it no longer exists".to_owned())
        }
        ChangeStatus::Changed(_) if !force => Action::Leave(format!(
            "it was changed since: {}; --force restores it anyway",
            before_and_after(&entry.planned.change.wanted, &now)
        )),
        _ => Action::Restore(now),
    })
}

/// A failed restore does not stop other changes from being reverted; a journal that cannot be written does.
fn revert_one(
    machine: &Machine,
    journal: &mut Journal,
    entry: &Entry,
    now: &State,
) -> Result<RevertOutcome, Error> {
    match restore(machine, entry) {
        Ok(()) => {
            journal.reverted(entry.id, "revert")?;
            Ok(RevertOutcome::Reverted(before_and_after(now, &entry.planned.before)))
        }
        Err(error) => Ok(RevertOutcome::Failed(error.to_string())),
    }
}

/// Restores the old state of a change's target, and reads it back.
pub(super) fn restore(machine: &Machine, entry: &Entry) -> Result<(), Error> {
    let planned = &entry.planned;
    let target = &planned.change.target;
    if let Target::File { path } = target {
        let missing = machine.missing_folders(path);
        // Interrupted before its folders were created, or removed with them: there is nothing to remove.
        if planned.before == State::Absent && !missing.is_empty() {
            remove_leftovers(machine, entry);
            return Ok(());
        }
        machine.create_folders(&missing)?;
    }
    let is_back = |now: State| now.fill_missing_from(&planned.before).satisfies(&planned.before);
    if !is_back(machine.reader()?.read(target)?) {
        target.set(machine, &planned.before)?;
    }
    remove_leftovers(machine, entry);
    let now = machine.reader()?.read(target)?;
    if is_back(now.clone()) {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{}: read back another value after restoring it: {}",
        target.name(),
        before_and_after(&planned.before, &now)
    )))
}

/// Removes the temporary file and the folders of a change. They are ours, whoever reverted the change.
fn remove_leftovers(machine: &Machine, entry: &Entry) {
    if let Target::File { path } = &entry.planned.change.target {
        machine.remove_temporary(path);
    }
    machine.remove_folders(&entry.planned.folders);
}

/// The states that a dry run would have restored so far.
#[derive(Default)]
struct DryRun(Vec<(Target, State)>);

impl DryRun {
    fn get(&self, target: &Target) -> Option<&State> {
        self.0.iter().rev().find(|(known, _)| known == target).map(|(_, state)| state)
    }

    fn set(&mut self, entry: &Entry) {
        let planned = &entry.planned;
        self.0.push((planned.change.target.clone(), planned.before.clone()));
    }
}
