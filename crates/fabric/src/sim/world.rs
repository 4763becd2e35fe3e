//! The world: its time, its rails, its faults.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fabric::Sim;
use super::faults::Faults;
use super::state::State;

/// Holds everything simulated. Clones are the same world.
#[derive(Clone)]
pub struct World {
    state: Arc<Mutex<State>>,
}

/// How lanes of a world behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How many operations a lane holds, receives apart. Small, to see what callers do when it is full.
    pub depth: usize,
    /// How many receives a lane holds.
    pub receives: usize,
    /// Whether lanes keep the order of operations whatever the rail does, as a reliable connection does.
    /// `false`: where [`Faults::reorder`] says so, they do not.
    pub ordered: bool,
    /// How long without an answer until an operation is sent again.
    pub retransmit: Duration,
    /// How many times it is sent again. One silence more, and the lane is dead: with the defaults
    /// 400 ms after the operation was posted.
    pub retries: u32,
    /// How long a peer may be without a receive.
    pub patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            depth: 1024,
            receives: 1024,
            ordered: true,
            retransmit: Duration::from_millis(50),
            retries: 7,
            patience: Duration::from_millis(500),
        }
    }
}

impl World {
    /// A world at time zero, without faults.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, Config::default())
    }

    /// As [`World::new`], with lanes that behave differently.
    pub fn with(seed: u64, config: Config) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Offers of other processes are of other worlds.
        let process = u64::from(std::process::id()) << 32;
        let id = process | NEXT.fetch_add(1, Ordering::Relaxed) & u64::from(u32::MAX);
        World { state: Arc::new(Mutex::new(State::new(id, seed, config))) }
    }

    /// A host's end of a rail. Either begins to exist when first named; lanes lead from one host to
    /// another, or to itself, on one rail.
    pub fn fabric(&self, host: &str, rail: &str) -> Sim {
        Sim::new(self.clone(), host, rail)
    }

    /// The time since the beginning.
    pub fn now(&self) -> Duration {
        self.lock().now
    }

    /// Lets so much time pass.
    pub fn advance(&self, time: Duration) {
        let mut state = self.lock();
        let end = state.now.saturating_add(time);
        state.run_until(end);
    }

    /// Lets time pass until something happens: a packet arrives, or a timer runs out. Often nobody
    /// sees it yet. `false`: nothing will ever happen by itself.
    pub fn step(&self) -> bool {
        let mut state = self.lock();
        let next = state.next_event();
        next.inspect(|at| state.run_until(*at)).is_some()
    }

    /// What is wrong with a rail.
    pub fn faults(&self, rail: &str) -> Faults {
        self.lock().rails.get(rail).map(|rail| rail.faults).unwrap_or_default()
    }

    /// Makes something wrong with a rail, or right again.
    pub fn change(&self, rail: &str, change: impl FnOnce(&mut Faults)) {
        // Not under the lock, so that `change` may ask the world.
        let mut faults = self.faults(rail);
        change(&mut faults);
        self.lock().rails.entry(rail.to_owned()).or_default().faults = faults;
    }

    /// Ends a host as if its process were killed: nothing it posted completes, nothing reaches its
    /// memory, and its peers find out by silence. What it had in the air lands. Its lanes stay mute;
    /// those opened under its name from now on are of its successor.
    pub fn kill(&self, host: &str) {
        self.lock().kill(host);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in one test thread is reported there; others should not die of it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now()).finish_non_exhaustive()
    }
}
