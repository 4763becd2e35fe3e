//! The journal: what was changed on a machine, one JSON line for each thing that happened.
//!
//! A line is on the disk before what it tells of is done. The file is locked while a run changes the machine,
//! and readable by its owner alone: it holds what files were before.

use std::fs::File;
use std::io::{Read, Write};

use rustix::fs::FlockOperation;

use super::record::{self, Event, History, JournalLine, Planned, VERSION};
use super::{Entry, Error, Machine};

/// A journal that is open for writing, and locked.
#[derive(Debug)]
pub struct Journal {
    file: File,
    entries: Vec<Entry>,
    /// Now, in seconds since 1970.
    at: u64,
}

impl Journal {
    /// Opens and locks the journal of a machine; `at` is now, in seconds since 1970.
    pub fn open(machine: &Machine, at: u64) -> Result<Journal, Error> {
        let mut file = machine.make_log(PATH)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::refused(format!(
                "another wirelane is changing this machine ({PATH} is locked): wait for it"
            ))
        })?;
        let history = load(&mut file)?;
        // A piece of a line at the end would spoil the next one.
        file.set_len(history.whole as u64).map_err(|error| Error::call("repair", PATH, error))?;
        Ok(Journal { file, entries: history.entries, at })
    }

    /// What was changed on a machine; nothing if there is no journal.
    pub fn read(machine: &Machine) -> Result<History, Error> {
        match machine.open_log(PATH)? {
            Some(mut file) => load(&mut file),
            None => Ok(History::default()),
        }
    }

    /// What was changed, the oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The number that the next change will have.
    pub(super) fn next_id(&self) -> u64 {
        self.entries.last().map_or(1, |entry| entry.id.saturating_add(1))
    }

    /// A change is about to be made.
    pub(super) fn begin(&mut self, planned: Planned) -> Result<u64, Error> {
        let id = self.next_id();
        self.add(id, Event::Planned(Box::new(planned.clone())))?;
        self.entries.push(Entry { id, at: self.at, planned, done: false, reverted: None });
        Ok(id)
    }

    /// A change was made.
    pub(super) fn done(&mut self, id: u64) -> Result<(), Error> {
        self.add(id, Event::Done)?;
        self.with(id, |entry| entry.done = true);
        Ok(())
    }

    /// A change was reverted.
    pub(super) fn reverted(&mut self, id: u64, why: &str) -> Result<(), Error> {
        self.add(id, Event::Reverted { why: why.to_owned() })?;
        let at = self.at;
        self.with(id, |entry| entry.reverted = Some((at, why.to_owned())));
        Ok(())
    }

    fn with(&mut self, id: u64, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
            change(entry);
        }
    }

    fn add(&mut self, id: u64, event: Event) -> Result<(), Error> {
        let line = JournalLine { v: VERSION, id, at: self.at, event };
        let failed = |error: std::io::Error| Error::call("write to", PATH, error);
        let mut text = serde_json::to_string(&line).map_err(|error| failed(error.into()))?;
        text.push('\n');
        let length = self.file.metadata().map_err(failed)?.len();
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| {
            // On a full disk half of a line may be there: the next one must not be written behind it.
            let _ = self.file.set_len(length);
            failed(error)
        })
    }
}

fn load(file: &mut File) -> Result<History, Error> {
    let mut bytes = Vec::new();
    let read = file.take(LONGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::call("read", PATH, error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Error::refused(format!("{PATH} is longer than {LONGEST} bytes: move it away")));
    }
    record::read(&bytes)
}

/// Where it is on a machine.
pub(super) const PATH: &str = "/var/lib/wirelane/changes";
/// More than any machine's life of changes; what is longer is not ours.
const LONGEST: u64 = 64 << 20;
