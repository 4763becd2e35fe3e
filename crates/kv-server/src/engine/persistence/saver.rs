//! Saves rounds in a thread of its own, so that the committer can check the next writes while the disk works.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kv_disk::DiskWriter;

use super::round::Round;
use super::{Command, lock};

/// The disk, and the thread that saves large rounds.
pub(super) struct Saver {
    disk: SharedDisk,
    thread: Option<SaverThread>,
    /// Without a thread: the round that is saved when it is waited for, or was saved at once.
    waiting: Option<Round>,
    #[cfg(test)]
    saved: Option<SavedRound>,
    #[cfg(test)]
    pub(super) saves_at_once: bool,
}

type SharedDisk = Arc<Mutex<Box<dyn DiskWriter>>>;

struct SaverThread {
    rounds: Option<Sender<Round>>,
    saved: Receiver<SavedRound>,
    thread: Option<JoinHandle<()>>,
}

/// A round that was saved, or not.
pub(super) struct SavedRound {
    pub(super) round: Round,
    pub(super) result: Result<(), kv_disk::Error>,
    pub(super) took: Duration,
}

impl Saver {
    /// Without a thread: in tests that must be reproducible.
    pub(super) fn new(disk: Box<dyn DiskWriter>) -> Self {
        Saver {
            disk: Arc::new(Mutex::new(disk)),
            thread: None,
            waiting: None,
            #[cfg(test)]
            saved: None,
            #[cfg(test)]
            saves_at_once: false,
        }
    }

    /// Starts the thread; it sends `SaveEnded` for each round that it has saved.
    pub(super) fn start_thread(&mut self, commands: Sender<Command>) -> std::io::Result<()> {
        let (rounds, to_save) = channel::<Round>();
        let (ended, saved) = channel();
        let disk = self.disk.clone();
        let thread = std::thread::Builder::new().name("wirelane-save".to_owned());
        let thread = thread.spawn(move || {
            while let Ok(round) = to_save.recv() {
                let saved = save(&mut lock(&disk), round);
                if ended.send(saved).is_err() {
                    return;
                }
                let _ = commands.send(Command::SaveEnded);
            }
        })?;
        self.thread = Some(SaverThread { rounds: Some(rounds), saved, thread: Some(thread) });
        Ok(())
    }

    /// Begins to save a round; [`Saver::wait`] returns it.
    pub(super) fn begin(&mut self, round: Round) {
        #[cfg(test)]
        if self.saves_at_once {
            self.saved = Some(self.save_now(round));
            return;
        }
        let unsent = match self.thread.as_ref().and_then(|thread| thread.rounds.as_ref()) {
            Some(rounds) => rounds.send(round).err().map(|unsent| unsent.0),
            None => Some(round),
        };
        self.waiting = unsent;
    }

    /// The round that was begun, if it is saved.
    pub(super) fn try_wait(&mut self) -> Option<SavedRound> {
        match self.thread.as_ref().map(|thread| thread.saved.try_recv()) {
            Some(Ok(saved)) => Some(saved),
            Some(Err(TryRecvError::Empty)) => None,
            Some(Err(TryRecvError::Disconnected)) | None => Some(self.wait()),
        }
    }

    /// Waits for the round that was begun.
    pub(super) fn wait(&mut self) -> SavedRound {
        #[cfg(test)]
        if let Some(saved) = self.saved.take() {
            return saved;
        }
        match (self.waiting.take(), &self.thread) {
            (Some(round), _) => self.save_now(round),
            (None, Some(thread)) => {
                thread.saved.recv().expect("the thread that saves has not ended")
            }
            (None, None) => unreachable!("a round was begun"),
        }
    }

    /// Saves a round in this thread. None may have been begun.
    pub(super) fn save_now(&mut self, round: Round) -> SavedRound {
        save(&mut self.disk(), round)
    }

    /// The disk; waits for the round that was begun.
    pub(super) fn disk(&self) -> MutexGuard<'_, Box<dyn DiskWriter>> {
        lock(&self.disk)
    }
}

fn save(disk: &mut Box<dyn DiskWriter>, round: Round) -> SavedRound {
    let started = Instant::now();
    let result = {
        let changes = round.changes();
        if changes.is_empty() { Ok(()) } else { disk.save(&changes) }
    };
    SavedRound { round, result, took: started.elapsed() }
}

impl Drop for Saver {
    fn drop(&mut self) {
        if let Some(thread) = &mut self.thread {
            thread.rounds = None;
            if let Some(thread) = thread.thread.take() {
                let _ = thread.join();
            }
        }
    }
}
