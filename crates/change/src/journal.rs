//! The journal: what was changed on a machine, one JSON line for each event.
//!
//! A line is on the disk before its change is applied. The file is locked while a run changes the machine,
//! and readable only by its owner: it contains the old content of files.

use std::fs::File;
use std::io::{Read, Write};

use rustix::fs::FlockOperation;

use super::record::{self, Event, History, JournalLine, PlannedChange, VERSION};
use super::{Entry, Error, Machine};

/// The journal, opened for writing and locked.
#[derive(Debug)]
pub struct Journal {
    file: File,
    entries: Vec<Entry>,
    /// Now, in seconds since 1970.
    at: u64,
}

impl Journal {
    /// Opens and locks the journal of a machine; `at` is the current time, in seconds since 1970.
    pub fn open(machine: &Machine, at: u64) -> Result<Journal, Error> {
        let mut file = machine.create_log(PATH)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::refused(format!(
                "another wirelane is changing this machine ({PATH} is locked): wait for it"
            ))
        })?;
        let history = load(&mut file)?;
        // A partial line at the end would corrupt the next one.
        file.set_len(history.complete_bytes as u64)
            .map_err(|error| Error::call("repair", PATH, error))?;
        Ok(Journal { file, entries: history.entries, at })
    }

    /// The changes of a machine; empty if there is no journal.
    pub fn read(machine: &Machine) -> Result<History, Error> {
        match machine.open_log(PATH)? {
            Some(mut file) => load(&mut file),
            None => Ok(History::default()),
        }
    }

    /// The changes, the oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The number that the next change will have.
    pub(super) fn next_id(&self) -> u64 {
        self.entries.last().map_or(1, |entry| entry.id.saturating_add(1))
    }

    /// Records a change that is about to be applied.
    pub(super) fn begin(&mut self, planned: PlannedChange) -> Result<u64, Error> {
        let id = self.next_id();
        self.add(id, Event::Planned(Box::new(planned.clone())))?;
        self.entries.push(Entry { id, at: self.at, planned, done: false, reverted: None });
        Ok(id)
    }

    /// Records that a change was applied.
    pub(super) fn done(&mut self, id: u64) -> Result<(), Error> {
        self.add(id, Event::Done)?;
        self.update(id, |entry| entry.done = true);
        Ok(())
    }

    /// Records that a change was reverted.
    pub(super) fn reverted(&mut self, id: u64, why: &str) -> Result<(), Error> {
        self.add(id, Event::Reverted { why: why.to_owned() })?;
        let at = self.at;
        self.update(id, |entry| entry.reverted = Some((at, why.to_owned())));
        Ok(())
    }

    fn update(&mut self, id: u64, change: impl FnOnce(&mut Entry)) {
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
            // On a full disk a part of the line may be written: the next one must not follow it.
            let _ = self.file.set_len(length);
            failed(error)
        })
    }
}

fn load(file: &mut File) -> Result<History, Error> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_JOURNAL_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::call("read", PATH, error))?;
    if bytes.len() as u64 > MAX_JOURNAL_BYTES {
        return Err(Error::refused(format!(
            "{PATH} is longer than {MAX_JOURNAL_BYTES} bytes: move it away"
        )));
    }
    record::read(&bytes)
}

/// Where it is on a machine.
pub(super) const PATH: &str = "/var/lib/wirelane/changes";
/// More than any real journal; a longer file is refused.
const MAX_JOURNAL_BYTES: u64 = 64 << 20;
