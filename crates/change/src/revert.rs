//! Reverting changes, the newest first.

use serde::{Deserialize, Serialize};

use super::{Entry, Error, Journal, Machine, Standing, State, Target, before_and_after};

/// Which changes to revert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// All that were not reverted yet.
    All,
    /// Those of the last command that still has some.
    Last,
    /// Those of these numbers.
    Numbers(Vec<u64>),
}

/// What became of one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Its number.
    pub id: u64,
    /// What it changed.
    pub target: String,
    /// What became of it.
    #[serde(flatten)]
    pub fate: RevertOutcome,
}

/// What became of a change that should be reverted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fate", content = "why", rename_all = "snake_case")]
pub enum RevertOutcome {
    /// It was reverted; in a rehearsal, it would be.
    Reverted(String),
    /// There was nothing to revert.
    Nothing(String),
    /// It was left alone: somebody has changed it since.
    Left(String),
    /// It could not be reverted.
    Failed(String),
}

/// How to revert; start from the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Manner {
    /// Also what somebody has changed since.
    pub force: bool,
    /// Say only what would be done.
    pub rehearse: bool,
}

impl Manner {
    /// Also what somebody has changed since.
    pub fn force(mut self, force: bool) -> Manner {
        self.force = force;
        self
    }

    /// Say only what would be done.
    pub fn rehearse(mut self, rehearse: bool) -> Manner {
        self.rehearse = rehearse;
        self
    }
}

/// Reverts changes. `now` is in seconds since 1970.
pub fn revert(
    machine: &Machine,
    pick: &Pick,
    manner: Manner,
    now: u64,
) -> Result<Vec<Outcome>, Error> {
    let picked = pick.from(&Journal::read(machine)?.entries)?;
    if picked.is_empty() {
        return Ok(Vec::new());
    }
    if machine.is_live() && !manner.rehearse && !rustix::process::geteuid().is_root() {
        return Err(Error::refused(
            "nothing was changed: only root may revert changes; run it again with sudo",
        ));
    }
    let mut journal = if manner.rehearse { None } else { Some(Journal::open(machine, now)?) };
    // Another run may have reverted changes while it held the lock.
    let picked = match &journal {
        Some(journal) => pick.from(journal.entries())?,
        None => picked,
    };
    let mut rehearsed = Rehearsed::default();
    let mut outcomes = Vec::new();
    for entry in picked.iter().rev() {
        let fate = match plan(machine, entry, manner.force, &rehearsed)? {
            Action::Nothing(why) => {
                if let Some(journal) = &mut journal {
                    clear(machine, entry);
                    journal.reverted(entry.id, &why)?;
                }
                RevertOutcome::Nothing(why)
            }
            Action::Leave(why) => RevertOutcome::Left(why),
            Action::SetBack(now) => match &mut journal {
                Some(journal) => revert_one(machine, journal, entry, &now)?,
                None => {
                    rehearsed.set(entry);
                    RevertOutcome::Reverted(before_and_after(&now, &entry.planned.before))
                }
            },
        };
        outcomes.push(Outcome { id: entry.id, target: entry.planned.change.target.name(), fate });
    }
    Ok(outcomes)
}

impl Pick {
    /// The changes that are meant and not reverted yet, the oldest first.
    fn from(&self, entries: &[Entry]) -> Result<Vec<Entry>, Error> {
        let standing = entries.iter().filter(|entry| entry.reverted.is_none());
        let picked: Vec<Entry> = match self {
            Pick::All => standing.cloned().collect(),
            Pick::Last => {
                let run = standing.clone().next_back().map(|entry| entry.planned.run);
                standing.filter(|entry| Some(entry.planned.run) == run).cloned().collect()
            }
            Pick::Numbers(ids) => {
                if let Some(id) = ids.iter().find(|id| entries.iter().all(|e| e.id != **id)) {
                    return Err(Error::refused(format!(
                        "there is no change {id}: `wirelane changes` lists them"
                    )));
                }
                standing.filter(|entry| ids.contains(&entry.id)).cloned().collect()
            }
        };
        Ok(picked)
    }
}

/// What is to be done with a change.
enum Action {
    Nothing(String),
    Leave(String),
    /// Set it back; it is this now.
    SetBack(State),
}

fn plan(
    machine: &Machine,
    entry: &Entry,
    force: bool,
    rehearsed: &Rehearsed,
) -> Result<Action, Error> {
    let target = &entry.planned.change.target;
    let now = match rehearsed.get(target) {
        Some(state) => state.clone(),
        None => match machine.look()?.at(target) {
            Ok(state) => state,
            Err(error) => return Ok(Action::Leave(error.to_string())),
        },
    };
    if entry.is_gone_with_restart(machine, &now) {
        return Ok(Action::Nothing("the machine was started again since".to_owned()));
    }
    Ok(match entry.standing_at(now.clone()) {
        Standing::Undone => Action::Nothing("it is as it was".to_owned()),
        // A net device that went, a CPU that was taken out.
        Standing::Changed(State::Values(values)) if values.iter().all(Option::is_none) => {
            Action::Nothing("it is not there any more".to_owned())
        }
        Standing::Changed(_) if !force => Action::Leave(format!(
            "somebody has changed it since: {}; --force sets it to what it was before us",
            before_and_after(&entry.planned.change.wanted, &now)
        )),
        _ => Action::SetBack(now),
    })
}

/// Failing here stops no other change from being reverted; a journal that cannot be written does.
fn revert_one(
    machine: &Machine,
    journal: &mut Journal,
    entry: &Entry,
    now: &State,
) -> Result<RevertOutcome, Error> {
    match set_back(machine, entry) {
        Ok(()) => {
            journal.reverted(entry.id, "revert")?;
            Ok(RevertOutcome::Reverted(before_and_after(now, &entry.planned.before)))
        }
        Err(error) => Ok(RevertOutcome::Failed(error.to_string())),
    }
}

/// Makes a change's target what it was before, and looks whether it is so.
pub(super) fn set_back(machine: &Machine, entry: &Entry) -> Result<(), Error> {
    let planned = &entry.planned;
    let target = &planned.change.target;
    if let Target::File { path } = target {
        let missing = machine.missing_folders(path);
        // Cut off before its folders were made, or removed with them: nothing is there to remove.
        if planned.before == State::Absent && !missing.is_empty() {
            clear(machine, entry);
            return Ok(());
        }
        machine.make_folders(&missing)?;
    }
    let is_back = |now: State| now.without_gone(&planned.before).satisfies(&planned.before);
    if !is_back(machine.look()?.at(target)?) {
        target.set(machine, &planned.before)?;
    }
    clear(machine, entry);
    let now = machine.look()?.at(target)?;
    if is_back(now.clone()) {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{}: it was set back, and is not so: {}",
        target.name(),
        before_and_after(&planned.before, &now)
    )))
}

/// Removes what a change had around its file: one that it was cut off in the middle of writing, and folders. They were
/// ours, no matter who undid it.
fn clear(machine: &Machine, entry: &Entry) {
    if let Target::File { path } = &entry.planned.change.target {
        machine.remove_beside(path);
    }
    machine.remove_folders(&entry.planned.folders);
}

/// What would have been set back so far.
#[derive(Default)]
struct Rehearsed(Vec<(Target, State)>);

impl Rehearsed {
    fn get(&self, target: &Target) -> Option<&State> {
        self.0.iter().rev().find(|(known, _)| known == target).map(|(_, state)| state)
    }

    fn set(&mut self, entry: &Entry) {
        let planned = &entry.planned;
        self.0.push((planned.change.target.clone(), planned.before.clone()));
    }
}
