//! Misbehaving threads or clients, until they are stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use super::super::load::Client;

/// Threads that repeat an action, or client processes.
pub(super) struct AbuseLoad {
    stop: Arc<AtomicBool>,
    repetitions: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    clients: Vec<Client>,
}

impl AbuseLoad {
    /// Running clients.
    pub(super) fn of(clients: Vec<Client>) -> Self {
        let (stop, repetitions, threads) = (Arc::default(), Arc::default(), Vec::new());
        AbuseLoad { stop, repetitions, threads, clients }
    }

    /// Adds a thread that repeats an action; the action returns its count.
    pub(super) fn repeat(mut self, mut action: impl FnMut() -> u64 + Send + 'static) -> Self {
        let (stop, repetitions) = (self.stop.clone(), self.repetitions.clone());
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                repetitions.fetch_add(action(), Relaxed);
            }
        }));
        self
    }

    /// Stops all; returns the total count.
    pub(super) fn end(self) -> u64 {
        self.stop.store(true, Relaxed);
        let done = self.clients.iter().map(|client| client.take().times.count()).sum::<u64>();
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
        self.repetitions.load(Relaxed) + done
    }
}
