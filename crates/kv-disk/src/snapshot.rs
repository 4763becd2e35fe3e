//! The contents of a data directory as another process reads them, also while a store uses it: for checks and backups.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};

use crate::contents::{Layout, changes_of, open_readers_lock, open_value, read_log};
use crate::error::{Error, ErrorKind};
use crate::identity::Identity;
use crate::index::IndexReader;
use crate::log::{Segments, open_segments};
use crate::long_values::LongValues;
use crate::metadata::damaged;
use crate::reader::{Sink, merge};
use crate::row::Row;
use crate::unindexed::Changes;

/// What was durable when it was opened.
pub(crate) struct Snapshot {
    index: IndexReader,
    segments: Segments,
    /// Changes that the index does not have.
    unindexed: Changes,
    long_values: LongValues,
    /// The number of the last run of a store.
    pub(crate) run: u64,
    /// Why the log after a part of it cannot be read.
    pub(crate) damage: Option<Error>,
    identity_damage: Option<Error>,
    /// While it is locked, the store removes no files.
    _lock: Option<File>,
}

impl Snapshot {
    pub(crate) fn open(directory: &Path, call: &str) -> Result<Self, Error> {
        let layout = Layout::new(directory);
        if !layout.has_store() {
            let text = format!("{call} {}: the directory has no store", directory.display());
            return Err(Error::new(ErrorKind::Refused, text));
        }
        // A damaged one does not keep anybody from the values.
        let identity_damage = match Identity::read(directory) {
            Err(error) if error.kind() == ErrorKind::Refused => return Err(error),
            read => read.err(),
        };
        // A directory that cannot be written to has no store that removes files.
        let lock = open_readers_lock(&layout).ok();
        if let Some(lock) = &lock {
            flock(lock, FlockOperation::LockShared).map_err(|error| {
                Error::of_system(&format!("{call} {}", directory.display()), &error.into())
            })?;
        }
        let mut damage = None;
        loop {
            let index = IndexReader::open(&layout.index())?;
            index.begin_read()?;
            let segments = open_segments(&layout.log(), false)?;
            let (mut unindexed, mut last_run) = (Changes::new(), index.log_end()?.run);
            let read = read_log(&layout, &index, &segments, |batch| {
                let (changes, run) = changes_of(batch);
                unindexed.extend(changes);
                last_run = last_run.max(run.unwrap_or(0));
                Ok(())
            });
            let found = match read {
                Ok(_) => None,
                Err(error) if error.kind() == ErrorKind::Damaged => Some(error),
                Err(error) => return Err(error),
            };
            // A batch that a store was writing looks like a damaged one if the next is there: damage stays where it is.
            let is_known = match (&damage, &found) {
                (Some(before), Some(now)) => Error::to_string(before) == Error::to_string(now),
                _ => found.is_none(),
            };
            if is_known {
                let long_values = layout.long_values();
                return Ok(Snapshot {
                    index,
                    segments,
                    unindexed,
                    long_values,
                    run: last_run,
                    damage: found,
                    identity_damage,
                    _lock: lock,
                });
            }
            damage = found;
        }
    }

    /// Errors of the index, and of the headers of segments.
    pub(crate) fn problems(&self) -> Result<Vec<String>, Error> {
        let mut problems = self.index.problems()?;
        problems.extend(self.identity_damage.iter().map(Error::to_string));
        let damaged = self.segments.values().filter(|segment| segment.previous_end.is_none());
        problems
            .extend(damaged.map(|segment| format!("{}: damaged header", segment.path.display())));
        Ok(problems)
    }

    /// About how many values there are.
    pub(crate) fn values(&self) -> u64 {
        self.index.keys().unwrap_or(0) + self.unindexed.len() as u64
    }

    /// Calls `take` with all rows, in order of their keys.
    pub(crate) fn rows(
        &self,
        mut take: impl FnMut(&[u8], Result<Row, Error>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        merge(&self.index, self.unindexed.clone(), b"", b"", |key, row| {
            result = take(key, row);
            result.is_ok()
        })?;
        result
    }

    /// Reads the value of a row.
    pub(crate) fn read(
        &self,
        key: &[u8],
        row: &Row,
        buffer: &mut Vec<u8>,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let segment = |number| self.segments.get(&number).map(Arc::clone);
        match open_value(row, segment, &self.long_values)? {
            Some(value) => value.read(key, row, buffer, sink),
            None => Err(damaged(key)),
        }
    }
}
