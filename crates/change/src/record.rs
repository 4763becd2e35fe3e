//! The content of the journal: lines as written, entries as read.

use serde::{Deserialize, Serialize};

use super::{Change, Error, Machine, Reader, State, Target, nfsd};

/// A line of the journal. Lines are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalLine {
    /// The journal's version.
    pub(super) v: u32,
    /// The change that it belongs to.
    pub(super) id: u64,
    /// When, in seconds since 1970.
    pub(super) at: u64,
    #[serde(flatten)]
    pub(super) event: Event,
}

/// What happened to a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// It is about to be applied: the line is on the disk before anything is changed.
    Planned(Box<PlannedChange>),
    /// It was applied.
    Done,
    /// It was reverted, or there was nothing left to revert.
    Reverted {
        /// Why.
        why: String,
    },
}

/// A change with all that is needed to revert it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// The first change of the same run; a command is one run.
    pub run: u64,
    /// The command: `tune apply`.
    pub command: String,
    /// The boot ID of the machine.
    pub boot: Option<String>,
    /// The item that it belongs to: `mtu`.
    pub item: String,
    /// The reason.
    pub why: String,
    /// The target and its wanted state.
    #[serde(flatten)]
    pub change: Change,
    /// The old state.
    pub before: State,
    /// Folders that were created for it, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
}

/// A change as recorded in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its number.
    pub id: u64,
    /// When it was started, in seconds since 1970.
    pub at: u64,
    /// The change.
    #[serde(flatten)]
    pub planned: PlannedChange,
    /// Whether it was applied completely.
    pub done: bool,
    /// When and why it was reverted.
    pub reverted: Option<(u64, String)>,
}

/// The current status of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeStatus {
    /// The target is in the wanted state.
    Active,
    /// The target is in its old state again, not by us.
    Undone,
    /// The target was changed since, to this.
    Changed(State),
    /// Lost by a restart of the machine.
    Restarted,
    /// It was interrupted: it may be applied in part.
    Interrupted,
    /// It was reverted.
    Reverted,
    /// It cannot be read.
    Unknown(String),
}

impl Entry {
    /// Its current status; the reader must be a new one.
    pub fn status(&self, machine: &Machine, reader: &Reader<'_>) -> ChangeStatus {
        if self.reverted.is_some() {
            return ChangeStatus::Reverted;
        }
        let now = match reader.read(&self.planned.change.target) {
            Ok(now) => now,
            Err(error) => return ChangeStatus::Unknown(error.to_string()),
        };
        if self.is_lost_by_restart(machine, &now) {
            return ChangeStatus::Restarted;
        }
        self.status_for(now)
    }

    /// What else is served by the same service, if reverting this would restart or stop it.
    pub fn disturbed_exports(&self, reader: &Reader<'_>) -> Vec<String> {
        match &self.planned.change.target {
            Target::Nfsd { dirs, .. } if self.reverted.is_none() => {
                nfsd::others(&reader.tree, dirs)
            }
            _ => Vec::new(),
        }
    }

    /// Its status if its target is in this state.
    pub(super) fn status_for(&self, now: State) -> ChangeStatus {
        let PlannedChange { before, change, .. } = &self.planned;
        let wanted = &change.wanted;
        match now {
            State::Values(parts) if parts.iter().all(Option::is_none) => {
                ChangeStatus::Changed(State::Values(parts))
            }
            now if now.fill_missing_from(before).satisfies(before) => ChangeStatus::Undone,
            now if !self.done
                && now.fill_missing_from(before).is_partial_change(before, wanted) =>
            {
                ChangeStatus::Interrupted
            }
            now if now.fill_missing_from(wanted).satisfies(wanted) => ChangeStatus::Active,
            now => ChangeStatus::Changed(now),
        }
    }

    /// Whether the machine was restarted since, and the target is not in the wanted state any more. What a file of ours has set
    /// again is in force, and can be reverted.
    pub(super) fn is_lost_by_restart(&self, machine: &Machine, now: &State) -> bool {
        let PlannedChange { boot, change, .. } = &self.planned;
        !change.target.survives_restart()
            && *boot != machine.boot()
            && !now.fill_missing_from(&change.wanted).satisfies(&change.wanted)
    }
}

/// The content of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct History {
    /// The oldest first.
    pub entries: Vec<Entry>,
    /// Whether it ends in a partial line: a run was interrupted before the change of that line was started.
    pub truncated: bool,
    /// Length of its complete lines.
    #[serde(skip)]
    pub(super) complete_bytes: usize,
}

/// Parses a journal. Its last line may be partial; all others must be valid.
pub(super) fn read(bytes: &[u8]) -> Result<History, Error> {
    let mut history = History::default();
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            history.truncated = true;
            break;
        }
        let read = serde_json::from_slice::<JournalLine>(line).map_err(|error| {
            Error::refused(format!(
                "line {} of the journal is damaged ({error}): nothing is changed until it is repaired or moved away",
                number + 1
            ))
        })?;
        add_line(&mut history.entries, read, number + 1)?;
        history.complete_bytes += line.len();
    }
    Ok(history)
}

fn add_line(entries: &mut Vec<Entry>, line: JournalLine, number: usize) -> Result<(), Error> {
    if line.v != VERSION {
        return Err(Error::refused(format!(
            "line {number} of the journal has version {}, this program supports {VERSION}: use a newer program",
            line.v
        )));
    }
    let known = entries.iter_mut().find(|entry| entry.id == line.id);
    match (line.event, known) {
        (Event::Planned(planned), None) => {
            let planned = *planned;
            let (id, at) = (line.id, line.at);
            entries.push(Entry { id, at, planned, done: false, reverted: None });
        }
        (Event::Done, Some(entry)) => entry.done = true,
        (Event::Reverted { why }, Some(entry)) => entry.reverted = Some((line.at, why)),
        (Event::Planned(_), Some(_)) | (_, None) => {
            return Err(Error::refused(format!(
                "line {number} of the journal is damaged: change {} is out of order",
                line.id
            )));
        }
    }
    Ok(())
}

/// The version of the journal that is written.
pub(super) const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(id: u64) -> String {
        let change = Change::value("/sys/class/net/eth0/mtu", "9000");
        let planned = PlannedChange {
            run: id,
            command: "tune apply".into(),
            boot: None,
            item: "mtu".into(),
            why: "it is small".into(),
            change,
            before: State::all("1500", 1),
            folders: Vec::new(),
        };
        let line = JournalLine { v: VERSION, id, at: 7, event: Event::Planned(Box::new(planned)) };
        serde_json::to_string(&line).expect("JSON") + "\n"
    }

    #[test]
    fn a_partial_line_at_the_end_is_reported_and_left_out() {
        let (first, second) = (planned(1), planned(2));
        let cut = format!("{first}{}", &second[..second.len() - 20]);
        let history = read(cut.as_bytes()).expect("readable");
        assert_eq!(
            (history.entries.len(), history.truncated, history.complete_bytes),
            (1, true, first.len())
        );
        // Complete except for the newline: it may not have been on the disk, so its change was not started.
        let history = read(format!("{first}{}", second.trim_end()).as_bytes()).expect("readable");
        assert_eq!((history.entries.len(), history.truncated), (1, true));
        let zeros = [first.as_bytes(), &[0; 40]].concat();
        assert!(read(&zeros).expect("readable").truncated);
    }

    #[test]
    fn a_damaged_line_in_the_middle_and_a_newer_journal_are_refused() {
        let damaged = format!("{}invalid data\n{}", planned(1), planned(2));
        let error = read(damaged.as_bytes()).expect_err("damaged");
        assert!(error.is_refusal() && error.to_string().contains("line 2"), "{error}");
        let newer = planned(1).replace("\"v\":1", "\"v\":2");
        let error = read(newer.as_bytes()).expect_err("newer");
        assert!(error.to_string().contains("version 2"), "{error}");
        let done = "{\"v\":1,\"id\":5,\"at\":1,\"event\":\"done\"}\n";
        assert!(read(done.as_bytes()).expect_err("of nothing").to_string().contains("change 5"));
    }
}
