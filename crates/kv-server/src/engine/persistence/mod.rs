//! Durability: acknowledged writes are on the disk, and memory is a cache of it.
//!
//! One thread, the **committer**, does all writes: it takes the queued writes, checks their conditions, has them saved with
//! one sync and only then changes the index and answers. So readers see only durable values, and many writes share one
//! sync. While the disk works on one round of writes (`saver.rs`), it prepares the next one (`round.rs`). The index has only the values in memory, which may be evicted at any time: other values are loaded from the
//! disk by a **loader**. `busy_keys.rs` keeps the two consistent: a loaded value does not replace one that was written in
//! the meantime, and a key is not loaded while it is being saved.

mod busy_keys;
mod committer;
mod counts;
mod cursors;
mod loader;
#[cfg(test)]
mod model;
mod round;
mod saver;

use std::path::Path;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use kv_disk::{Disk, DiskWriter};
use kv_proto::wire::{Answer, Status};

use crate::engine::{Engine, PinnedValue, ReservedValue};
use crate::wakeup::Wakeup;
use busy_keys::BusyKeys;
use committer::Committer;
pub use counts::PersistenceCounts;
use cursors::Cursors;
pub(crate) use loader::CachedReader;
use saver::Saver;

/// The threads that write to the disk and load from it, and the queues to them.
pub(crate) struct Persistence {
    disk: Disk,
    commands: Sender<Command>,
    loads: Sender<Option<Load>>,
    state: Arc<PersistenceState>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// State that the threads share.
#[derive(Default)]
struct PersistenceState {
    busy_keys: Arc<BusyKeys>,
    cursors: Cursors,
    counts: PersistenceCounts,
}

/// A command to the committer.
enum Command {
    Write(Write),
    /// The thread that saves has saved a round.
    SaveEnded,
    /// End after the commands before.
    Stop,
}

/// A write to be saved; `done` receives the answer, and returns the wakeup of the thread that waits for it.
pub(crate) struct Write {
    pub(crate) key: Box<[u8]>,
    pub(crate) kind: WriteKind,
    pub(crate) condition: kv_proto::Condition,
    pub(crate) done: Box<dyn FnOnce(Answer) -> Option<Wakeup> + Send>,
}

pub(crate) enum WriteKind {
    Put { reserved: ReservedValue, ttl: Option<u64> },
    Delete,
}

/// A request to load from the disk.
pub(crate) struct Load {
    pub(crate) key: Box<[u8]>,
    pub(crate) kind: LoadKind,
    pub(crate) done: Box<dyn FnOnce(ReadResult) + Send>,
}

pub(crate) enum LoadKind {
    Value,
    Metadata,
    /// Keys with this prefix, from a cursor on.
    Keys {
        cursor: u64,
        max_keys: usize,
        max_bytes: usize,
    },
}

/// What a request reads: found in memory, or loaded from the disk.
pub(crate) enum ReadResult {
    /// The value, in memory and pinned, if the key exists.
    Value(Option<Arc<PinnedValue>>),
    Metadata(Option<kv_store::Metadata>),
    /// Keys, and the cursor of the next page.
    Keys(Vec<(Box<[u8]>, kv_store::Metadata)>, u64),
    Failed(Status),
}

/// An open data directory: what the threads need, before the engine exists.
pub(crate) struct OpenDisk {
    disk: Disk,
    writer: Box<dyn DiskWriter>,
    /// For the committer, and for the loaders.
    committer_reader: kv_disk::Reader,
    readers: Vec<kv_disk::Reader>,
    /// The number of this run, which no earlier run had.
    pub(crate) run: u64,
}

impl OpenDisk {
    /// Opens a directory. Tests inject faults by `wrap`.
    pub(crate) fn new(
        path: &Path,
        min_run: u64,
        wrap: impl FnOnce(Box<dyn DiskWriter>) -> Box<dyn DiskWriter>,
    ) -> Result<Self, kv_disk::Error> {
        let disk = Disk::open(path)?;
        upgrade(&disk)?;
        if disk.has_other_index() {
            let path = disk.path().display();
            tracing::info!(
                "{path}: the index is of another version, making it again from the whole log"
            );
        }
        let mut writer = disk.writer()?;
        let run = writer.begin_run(min_run)?;
        let readers = (0..LOADERS).map(|_| writer.reader()).collect::<Result<_, _>>()?;
        let committer_reader = writer.reader()?;
        Ok(OpenDisk { disk, writer: wrap(Box::new(writer)), committer_reader, readers, run })
    }

    /// Starts the threads.
    pub(crate) fn start(self, engine: &Arc<Engine>) -> std::io::Result<Persistence> {
        let OpenDisk { disk, writer, committer_reader, readers, .. } = self;
        let (commands, queued) = channel();
        let (loads, to_load) = channel();
        let mut threads = Vec::new();
        // At most 15 bytes, which is what Linux shows of a name.
        let spawn = |name: String| std::thread::Builder::new().name(name);
        // Weak references: the threads do not keep the engine alive.
        let (weak, state) = (Arc::downgrade(engine), Arc::new(PersistenceState::default()));
        let mut saver = Saver::new(writer);
        saver.start_thread(commands.clone())?;
        let committer = Committer::new(saver, Box::new(committer_reader), state.clone());
        let thread = spawn("wirelane-commit".to_owned());
        threads.push(thread.spawn(move || committer::run(&weak, &queued, committer))?);
        let to_load = Arc::new(Mutex::new(to_load));
        for (number, reader) in readers.into_iter().enumerate() {
            let (weak, state) = (Arc::downgrade(engine), state.clone());
            let to_load = to_load.clone();
            let thread = spawn(format!("wirelane-load-{number}"));
            threads.push(thread.spawn(move || loader::run(&weak, &state, &to_load, reader))?);
        }
        Ok(Persistence { disk, commands, loads, state, threads: Mutex::new(threads) })
    }
}

/// Upgrades a directory of an earlier format, and says so.
fn upgrade(disk: &Disk) -> Result<(), kv_disk::Error> {
    let Some(from) = disk.earlier_format()? else { return Ok(()) };
    let path = disk.path().display();
    tracing::info!("{path}: upgrading from format {from}; a stop is safe, and begins it again");
    let mut reported = 0;
    let upgraded = disk.upgrade(|done, total| {
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        if percent >= reported + 10 {
            reported = percent;
            tracing::info!("{path}: upgraded {done} of {total} values");
        }
    })?;
    if let Some(kv_disk::Upgraded { values, damaged, backup, .. }) = upgraded {
        let backup = backup.display();
        tracing::info!(
            "{path}: upgraded, {values} values; the old database is {backup}, remove it when you no longer need it"
        );
        for key in damaged {
            tracing::error!(
                "\"{}\" was damaged before the upgrade: put it again, or restore a backup",
                key.escape_ascii()
            );
        }
    }
    Ok(())
}

impl Drop for Persistence {
    /// The committer has a sender of its own queue, by which it could otherwise not notice that nobody else is left.
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
    }
}

impl Persistence {
    /// Queues a write. If the committer has ended, it is answered here.
    pub(crate) fn write(&self, write: Write) {
        self.state.counts.add_waiting(1);
        if let Err(SendError(Command::Write(unsent))) = self.commands.send(Command::Write(write)) {
            Wakeup::wake_all((unsent.done)(Answer::new(Status::DiskFailed)));
        }
    }

    pub(crate) fn load(&self, load: Load) {
        if let Err(SendError(Some(unsent))) = self.loads.send(Some(load)) {
            (unsent.done)(ReadResult::Failed(Status::DiskFailed));
        }
    }

    /// A reader of values that need not be waited for.
    pub(crate) fn cached_reader(&self) -> Option<CachedReader> {
        let reader = self.disk.reader().ok().flatten()?;
        Some(CachedReader::new(reader, self.state.clone()))
    }

    pub(crate) fn counts(&self) -> &PersistenceCounts {
        &self.state.counts
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Ends the threads, after the requests that are queued.
    pub(crate) fn close(&self) {
        let _ = self.commands.send(Command::Stop);
        (0..LOADERS).for_each(|_| _ = self.loads.send(None));
        let threads = std::mem::take(&mut *lock(&self.threads));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next load of a queue that several threads share.
fn next(queue: &Mutex<Receiver<Option<Load>>>) -> Option<Load> {
    lock(queue).recv().ok().flatten()
}

/// The number of concurrent loads: a queue depth that suits a disk.
const LOADERS: usize = 4;
