//! Durability: what was acknowledged is on the disk, and memory is the hot part of it.
//!
//! One thread, the **log writer**, does all writes: it takes what has come, checks conditions, saves everything together and only
//! then changes the index and answers. So nobody reads what is not durable, and many writes cost one sync. The index holds
//! what is in memory, which may be evicted at any time: what a reader does not find there, a **loader** fetches from the
//! disk. `busy_keys.rs` keeps the two apart: what was fetched does not take the place of what was written meanwhile, and
//! nothing is fetched of a key that is just being saved.

mod busy_keys;
mod counts;
mod cursors;
mod loader;
mod log_writer;
#[cfg(test)]
mod model;

use std::path::Path;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use kv_disk::{Disk, DiskWriter};
use kv_proto::wire::{Answer, Status};

use crate::engine::{Engine, Held, Staged};
use crate::wakeup::Wakeup;
use busy_keys::Loading;
pub use counts::JournalCounts;
use cursors::Cursors;

/// The threads that write to the disk and load from it, and the queues to them.
pub(crate) struct Journal {
    disk: Disk,
    orders: Sender<Order>,
    loads: Sender<Option<Load>>,
    state: Arc<JournalState>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads have in common.
#[derive(Default)]
struct JournalState {
    loading: Loading,
    cursors: Cursors,
    counts: JournalCounts,
}

/// What the log writer is told.
enum Order {
    Write(Write),
    /// To end, when everything before is done.
    Stop,
}

/// A write to be done; whoever asked is told by `done` what came of it, and woken by what that returns.
pub(crate) struct Write {
    pub(crate) key: Box<[u8]>,
    pub(crate) what: WriteKind,
    pub(crate) condition: kv_proto::Condition,
    pub(crate) done: Box<dyn FnOnce(Answer) -> Option<Wakeup> + Send>,
}

pub(crate) enum WriteKind {
    Put { staged: Staged, ttl: Option<u64> },
    Delete,
}

/// Something to be fetched.
pub(crate) struct Load {
    pub(crate) key: Box<[u8]>,
    pub(crate) wanted: Wanted,
    pub(crate) done: Box<dyn FnOnce(Loaded) + Send>,
}

pub(crate) enum Wanted {
    Value,
    Facts,
    /// Keys with this prefix: so many, and so many bytes of them, from a cursor on.
    Keys {
        cursor: u64,
        most: usize,
        bytes: usize,
    },
}

/// What was fetched.
pub(crate) enum Loaded {
    /// The value, in memory and held there, if there is one.
    Value(Option<Arc<Held>>),
    Facts(Option<kv_store::Facts>),
    /// Keys, and where to go on.
    Keys(Vec<(Box<[u8]>, kv_store::Facts)>, u64),
    Failed(Status),
}

/// What threads are made of, before there is an engine.
pub(crate) struct Opened {
    disk: Disk,
    disk: Box<dyn DiskWriter>,
    readers: Vec<kv_disk::Reader>,
    /// No earlier run had it.
    pub(crate) epoch: u64,
}

impl Opened {
    /// Takes a directory. `wrap` is for tests, which let disks fail.
    pub(crate) fn new(
        path: &Path,
        least: u64,
        wrap: impl FnOnce(Box<dyn DiskWriter>) -> Box<dyn DiskWriter>,
    ) -> Result<Self, kv_disk::Error> {
        let disk = Disk::open(path)?;
        let mut writer = disk.writer()?;
        let epoch = writer.begin_run(least)?;
        let readers = (0..LOADERS).map(|_| disk.reader()).collect::<Result<_, _>>()?;
        Ok(Opened { disk, disk: wrap(Box::new(writer)), readers, epoch })
    }

    /// Starts the threads.
    pub(crate) fn start(self, engine: &Arc<Engine>) -> std::io::Result<Journal> {
        let Opened { disk, disk, readers, .. } = self;
        let (orders, ordered) = channel();
        let (loads, to_load) = channel();
        let mut threads = Vec::new();
        let spawn = |name: String| std::thread::Builder::new().name(name);
        // Not as owners of the engine: it ends when nobody else has it.
        let (weak, state) = (Arc::downgrade(engine), Arc::new(JournalState::default()));
        let noted = state.clone();
        let log_writer = spawn("wirelane-writer".to_owned());
        threads.push(log_writer.spawn(move || log_writer::run(&weak, &noted, &ordered, disk))?);
        let to_load = Arc::new(Mutex::new(to_load));
        for (number, reader) in readers.into_iter().enumerate() {
            let (weak, state) = (Arc::downgrade(engine), state.clone());
            let to_load = to_load.clone();
            let thread = spawn(format!("wirelane-disk-{number}"));
            threads.push(thread.spawn(move || loader::run(&weak, &state, &to_load, reader))?);
        }
        Ok(Journal { disk, orders, loads, state, threads: Mutex::new(threads) })
    }
}

impl Journal {
    /// Has a write done. If nobody is left to do it, it is answered here.
    pub(crate) fn write(&self, write: Write) {
        self.state.counts.waiting(1);
        if let Err(SendError(Order::Write(unsent))) = self.orders.send(Order::Write(write)) {
            Wakeup::wake_all((unsent.done)(Answer::new(Status::DiskFailed)));
        }
    }

    pub(crate) fn load(&self, load: Load) {
        if let Err(SendError(Some(unsent))) = self.loads.send(Some(load)) {
            (unsent.done)(Loaded::Failed(Status::DiskFailed));
        }
    }

    pub(crate) fn counts(&self) -> &JournalCounts {
        &self.state.counts
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Ends: what was asked for before is done first.
    pub(crate) fn close(&self) {
        let _ = self.orders.send(Order::Stop);
        (0..LOADERS).for_each(|_| _ = self.loads.send(None));
        let threads = std::mem::take(&mut *lock(&self.threads));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next of a queue that several threads take from.
fn next(queue: &Mutex<Receiver<Option<Load>>>) -> Option<Load> {
    lock(queue).recv().ok().flatten()
}

/// How many values are fetched at a time: so many reads a disk likes to have in flight.
const LOADERS: usize = 4;
