//! What the journal holds: lines as they are written, entries as they are read.

use serde::{Deserialize, Serialize};

use super::{Change, Error, Look, Machine, State, Target, nfsd};

/// A line of the journal. Lines are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalLine {
    /// The journal's version.
    pub(super) v: u32,
    /// Which change it is about.
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
    /// It is about to be made: the line is on the disk before anything is touched.
    Planned(Box<Planned>),
    /// It was made.
    Done,
    /// It was reverted, or had nothing left to revert.
    Reverted {
        /// Why.
        why: String,
    },
}

/// Everything that taking back needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The first change of the same run: one command, one run.
    pub run: u64,
    /// The command: `tune apply`.
    pub command: String,
    /// Which start of the machine it was.
    pub boot: Option<String>,
    /// What it belongs to: `mtu`.
    pub item: String,
    /// Why.
    pub why: String,
    /// What was to be changed, and to what.
    #[serde(flatten)]
    pub change: Change,
    /// What it was.
    pub before: State,
    /// Folders that were made for it, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
}

/// A change as the journal tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its number.
    pub id: u64,
    /// When it was begun, in seconds since 1970.
    pub at: u64,
    /// What it was.
    #[serde(flatten)]
    pub planned: Planned,
    /// Whether it was made to the end.
    pub done: bool,
    /// When and why it was reverted.
    pub reverted: Option<(u64, String)>,
}

/// How a change stands today.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// As we made it.
    InForce,
    /// As it was before, by somebody else's hand.
    Undone,
    /// Somebody has changed it since, to this.
    Changed(State),
    /// Gone with a restart of the machine.
    Restarted,
    /// It was begun and cut off: it may be made in part.
    CutOff,
    /// We took it back.
    Reverted,
    /// It cannot be read.
    Unknown(String),
}

impl Entry {
    /// How it stands today; the look must be a fresh one.
    pub fn standing(&self, machine: &Machine, look: &Look<'_>) -> Standing {
        if self.reverted.is_some() {
            return Standing::Reverted;
        }
        let now = match look.at(&self.planned.change.target) {
            Ok(now) => now,
            Err(error) => return Standing::Unknown(error.to_string()),
        };
        if self.is_gone_with_restart(machine, &now) {
            return Standing::Restarted;
        }
        self.standing_at(now)
    }

    /// What others are served by the same service, if taking this back would restart or stop it.
    pub fn disturbs(&self, look: &Look<'_>) -> Vec<String> {
        match &self.planned.change.target {
            Target::Nfsd { dirs, .. } if self.reverted.is_none() => nfsd::others(&look.tree, dirs),
            _ => Vec::new(),
        }
    }

    /// How it stands if its target is so.
    pub(super) fn standing_at(&self, now: State) -> Standing {
        let Planned { before, change, .. } = &self.planned;
        let wanted = &change.wanted;
        match now {
            State::Values(parts) if parts.iter().all(Option::is_none) => {
                Standing::Changed(State::Values(parts))
            }
            now if now.without_gone(before).satisfies(before) => Standing::Undone,
            now if !self.done && now.without_gone(before).is_between(before, wanted) => {
                Standing::CutOff
            }
            now if now.without_gone(wanted).satisfies(wanted) => Standing::InForce,
            now => Standing::Changed(now),
        }
    }

    /// Whether the machine was started again since, and what was set is not so any more. What a file of ours has set
    /// again is in force, and can be reverted.
    pub(super) fn is_gone_with_restart(&self, machine: &Machine, now: &State) -> bool {
        let Planned { boot, change, .. } = &self.planned;
        !change.target.survives_restart()
            && *boot != machine.boot()
            && !now.without_gone(&change.wanted).satisfies(&change.wanted)
    }
}

/// What a journal tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct History {
    /// The oldest first.
    pub entries: Vec<Entry>,
    /// Whether a piece of a line is at its end: a run was cut off before the change of that line was begun.
    pub cut_off: bool,
    /// How many of its bytes are whole lines.
    #[serde(skip)]
    pub(super) whole: usize,
}

/// Reads a journal. Its last line may be a piece; every other must be right.
pub(super) fn read(bytes: &[u8]) -> Result<History, Error> {
    let mut history = History::default();
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            history.cut_off = true;
            break;
        }
        let read = serde_json::from_slice::<JournalLine>(line).map_err(|error| {
            Error::refused(format!(
                "line {} of the journal is damaged ({error}): nothing is changed until it is mended or moved away",
                number + 1
            ))
        })?;
        fold(&mut history.entries, read, number + 1)?;
        history.whole += line.len();
    }
    Ok(history)
}

fn fold(entries: &mut Vec<Entry>, line: JournalLine, number: usize) -> Result<(), Error> {
    if line.v != VERSION {
        return Err(Error::refused(format!(
            "line {number} of the journal is of version {}, and this program knows {VERSION}: use a newer one",
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
                "line {number} of the journal tells of change {} out of order: it is damaged",
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
        let planned = Planned {
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
    fn a_piece_of_a_line_at_the_end_is_told_and_left_out() {
        let (first, second) = (planned(1), planned(2));
        let cut = format!("{first}{}", &second[..second.len() - 20]);
        let history = read(cut.as_bytes()).expect("readable");
        assert_eq!((history.entries.len(), history.cut_off, history.whole), (1, true, first.len()));
        // Whole but for its end: it was not on the disk for certain, so its change was not begun.
        let history = read(format!("{first}{}", second.trim_end()).as_bytes()).expect("readable");
        assert_eq!((history.entries.len(), history.cut_off), (1, true));
        let zeros = [first.as_bytes(), &[0; 40]].concat();
        assert!(read(&zeros).expect("readable").cut_off);
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
