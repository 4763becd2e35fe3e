//! Somebody who misbehaves, until told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use super::super::load::Client;

/// Threads that do something again and again, or processes.
pub(super) struct Offender {
    stop: Arc<AtomicBool>,
    acts: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    clients: Vec<Client>,
}

impl Offender {
    /// Clients that are there, and do what they do.
    pub(super) fn of(clients: Vec<Client>) -> Self {
        let (stop, acts, threads) = (Arc::default(), Arc::default(), Vec::new());
        Offender { stop, acts, threads, clients }
    }

    /// Does something again and again; it says how often it counts each time.
    pub(super) fn again(mut self, mut act: impl FnMut() -> u64 + Send + 'static) -> Self {
        let (stop, acts) = (self.stop.clone(), self.acts.clone());
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                acts.fetch_add(act(), Relaxed);
            }
        }));
        self
    }

    /// Ends it; says how often it did what it did.
    pub(super) fn end(self) -> u64 {
        self.stop.store(true, Relaxed);
        let done = self.clients.iter().map(|client| client.take().times.count()).sum::<u64>();
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
        self.acts.load(Relaxed) + done
    }
}
