//! Fills the index behind the log, and removes the files that nothing refers to any more.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::contents::{Contents, open_readers_lock};
use crate::error::{Error, ErrorKind};
use crate::index::{IndexReader, IndexWriter, LogEnd};
use crate::unindexed::{ChangeSet, NextChanges};

/// The thread that writes to the index.
#[derive(Debug)]
pub(crate) struct Applier {
    contents: Arc<Contents>,
    thread: Option<JoinHandle<()>>,
}

impl Applier {
    /// Until [`Contents::log_was_read`] it removes nothing: the rest of the log may need it.
    pub(crate) fn start(
        contents: Arc<Contents>,
        index: IndexWriter,
        reader: IndexReader,
    ) -> Result<Self, Error> {
        let readers = open_readers_lock(&contents.layout)
            .map_err(|error| Error::of_system("lock the data directory", &error))?;
        let mut work = Work {
            contents: contents.clone(),
            index,
            reader,
            readers,
            unchecked_long_values: Vec::new(),
            unused: Vec::new(),
            unsynced: 0,
        };
        let thread = std::thread::Builder::new().name("wirelane-index".to_owned());
        let thread = thread.spawn(move || work.run()).map_err(|error| {
            let text = format!("start the thread for the index: {error} — raise `ulimit -u`");
            Error::new(ErrorKind::Failed, text)
        })?;
        Ok(Applier { contents, thread: Some(thread) })
    }
}

impl Drop for Applier {
    /// The index has everything afterwards, so that the next start reads no log; unless it cannot be written to.
    fn drop(&mut self) {
        self.contents.unindexed.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Tells the writer that the thread has ended, also by a panic: else it would wait for it.
struct EndGuard(Arc<Contents>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.unindexed.stop();
    }
}

struct Work {
    contents: Arc<Contents>,
    index: IndexWriter,
    reader: IndexReader,
    /// See `Layout::readers_lock`.
    readers: File,
    /// Long values whose files were there at the start, and of which it is not known yet whether a key refers to them.
    unchecked_long_values: Vec<u64>,
    /// Long values that no key refers to, and whose files are there.
    unused: Vec<u64>,
    /// Changes added since the last checkpoint.
    unsynced: usize,
}

impl Work {
    fn run(&mut self) {
        let _ended = EndGuard(self.contents.clone());
        loop {
            match self.contents.unindexed.next_changes(self.is_idle()) {
                NextChanges::Stopped => break,
                NextChanges::Some(changes) => {
                    let applied = self.apply_and_remove(&changes);
                    let has_failed = applied.is_err();
                    self.contents.unindexed.applied(applied);
                    if has_failed {
                        if self.contents.unindexed.is_stopped() {
                            // The log has it.
                            return;
                        }
                        std::thread::sleep(RETRY_PAUSE);
                    } else if self.unsynced > MAX_UNSYNCED {
                        self.checkpoint();
                    }
                }
                NextChanges::None if self.unsynced > 0 => {
                    self.checkpoint();
                    self.remove_unused();
                }
                NextChanges::None => {
                    self.remove_unused();
                    self.check_long_values();
                }
            }
        }
        // The last checkpoint may need space; the next start takes the reserve again.
        self.contents.reserve().release();
        let _ = self.index.checkpoint(true);
        self.remove_unused();
    }

    /// Whether there is nothing to do until the next change.
    fn is_idle(&self) -> bool {
        self.unsynced == 0
            && self.unchecked_long_values.is_empty()
            && self.unused.is_empty()
            && self.dead_segments().is_empty()
    }

    /// Adds changes, and removes what is not needed any more: who waits for the index on a full disk waits for space. If the disk
    /// is full, uses the reserve.
    fn apply_and_remove(&mut self, frozen: &ChangeSet) -> Result<(), Error> {
        let mut applied = self.apply(frozen);
        if matches!(&applied, Err(error) if error.kind() == ErrorKind::Full) {
            let contents = self.contents.clone();
            // Locked to the end, so that the writer does not take the space.
            let mut reserve = contents.reserve();
            if reserve.release() {
                let _ = self.index.checkpoint(true);
                applied = self.apply(frozen);
            }
            self.remove_unused();
            return applied;
        }
        self.remove_unused();
        applied
    }

    fn apply(&mut self, frozen: &ChangeSet) -> Result<(), Error> {
        let uses = self.contents.usage().segments.clone();
        let last_run = self.contents.usage().indexed.run.max(frozen.run);
        let applied = self.index.apply(frozen, &uses, last_run)?;
        let mut usage = self.contents.usage();
        usage.segments.extend(applied.segments);
        if frozen.end.is_some() {
            usage.indexed = LogEnd { end: frozen.end, batch: frozen.batch, run: last_run };
        }
        drop(usage);
        self.unused.extend(applied.unused);
        self.unsynced += frozen.changes.len() + 1;
        Ok(())
    }

    fn checkpoint(&mut self) {
        // What cannot be moved now is moved later; the log has it too.
        if matches!(self.index.checkpoint(false), Ok(true)) {
            self.unsynced = 0;
        }
    }

    /// Removes long values and segments that are not needed, unless another process reads.
    fn remove_unused(&mut self) {
        let Some(found) = self.contents.take_found_at_start() else { return };
        self.unchecked_long_values.extend(found);
        let dead = self.dead_segments();
        if self.unused.is_empty() && dead.is_empty() {
            return;
        }
        if flock(&self.readers, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        let contents = &self.contents;
        self.unused.retain(|number| contents.remove_long(*number).is_err());
        if !dead.is_empty() {
            self.remove_segments(&dead);
        }
        let _ = flock(&self.readers, FlockOperation::Unlock);
    }

    /// Segments without a record that is needed.
    fn dead_segments(&self) -> Vec<u32> {
        let segments = self.contents.segments();
        let usage = self.contents.usage();
        let Some(end) = usage.indexed.end else { return Vec::new() };
        let mut oldest = true;
        let mut dead = Vec::new();
        for number in segments.range(..end.segment).map(|(number, _)| *number) {
            let used = usage.segments.get(&number).copied().unwrap_or_default();
            // A removal is needed as long as an older segment may have a value of its key: if the index must be made
            // anew from the log.
            let needs_removals = used.removals > 0 && !oldest && !usage.copied.contains(&number);
            match used.live == 0 && !needs_removals && !usage.damaged.contains(&number) {
                true => dead.push(number),
                false => oldest = false,
            }
        }
        dead
    }

    fn remove_segments(&mut self, dead: &[u32]) {
        // After a power loss the index must not be one that needs them.
        let mut log = self.contents.layout.index().into_os_string();
        log.push("-wal");
        if File::open(log).and_then(|log| log.sync_all()).is_err() {
            return;
        }
        let mut removed = Vec::new();
        for number in dead {
            let Some(segment) = self.contents.segment(*number) else { continue };
            match std::fs::remove_file(&segment.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => break,
                _ => {}
            }
            self.contents.remove_segment(*number);
            let mut usage = self.contents.usage();
            usage.segments.remove(number);
            usage.copied.remove(number);
            removed.push(*number);
        }
        let _ = self.index.forget(&removed);
        self.unsynced += 1;
    }

    /// Finds those long values that no key refers to, since an earlier run ended before they were complete.
    fn check_long_values(&mut self) {
        let from = self.unchecked_long_values.len().saturating_sub(CHECKED_AT_ONCE);
        for number in self.unchecked_long_values.split_off(from) {
            if matches!(self.reader.has_long(number), Ok(false)) {
                self.unused.push(number);
            }
        }
    }
}

/// The use of segments that are in the log.
pub(crate) fn known_uses(
    uses: BTreeMap<u32, crate::index::SegmentUse>,
    segments: &crate::log::Segments,
) -> BTreeMap<u32, crate::index::SegmentUse> {
    uses.into_iter().filter(|(number, _)| segments.contains_key(number)).collect()
}

/// Changes after which the index is synced.
const MAX_UNSYNCED: usize = 100_000;
const RETRY_PAUSE: Duration = Duration::from_millis(200);
const CHECKED_AT_ONCE: usize = 1000;
