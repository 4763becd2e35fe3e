//! The simulated world: time, wires and faults.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fabric::Sim;
use super::faults::Faults;
use super::state::State;

/// The state of a simulation. Clones share it.
#[derive(Clone)]
pub struct World {
    state: Arc<Mutex<State>>,
}

/// Settings of the lanes of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The maximum number of operations of a lane, without receives. Small, to test what callers do when it is full.
    pub depth: usize,
    /// The maximum number of receives of a lane.
    pub receives: usize,
    /// How many messages an end keeps for later receives, like a lane on a shared receive queue; 0: their sender waits.
    pub max_unexpected: usize,
    /// Whether lanes keep the order of operations whatever the wire does, like a reliable connection.
    /// `false`: [`Faults::reorder`] reorders operations.
    pub ordered: bool,
    /// Whether lanes have packets. They keep the order only if operations do.
    pub packets: bool,
    /// The time without an answer after which an operation is sent again.
    pub retransmit: Duration,
    /// How often it is sent again. After the last timeout the lane is dead: with the defaults
    /// 400 ms after the operation was posted.
    pub retries: u32,
    /// How long an operation waits for one of the peer's receives.
    pub receive_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            depth: 1024,
            receives: 1024,
            max_unexpected: 0,
            ordered: true,
            packets: false,
            retransmit: Duration::from_millis(50),
            retries: 7,
            receive_timeout: Duration::from_millis(500),
        }
    }
}

impl World {
    /// A world at time zero, without faults.
    pub fn new(seed: u64) -> Self {
        Self::with_config(seed, Config::default())
    }

    /// As [`World::new`], with other settings.
    pub fn with_config(seed: u64, config: Config) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Unique among processes, since offers contain it.
        let process = u64::from(std::process::id()) << 32;
        let id = process | NEXT.fetch_add(1, Ordering::Relaxed) & u64::from(u32::MAX);
        World { state: Arc::new(Mutex::new(State::new(id, seed, config))) }
    }

    /// A host's end of a wire. Both are created when first used; lanes connect one host to
    /// another, or to itself, on one wire.
    pub fn fabric(&self, host: &str, wire: &str) -> Sim {
        Sim::new(self.clone(), host, wire)
    }

    /// The simulated time since the start.
    pub fn now(&self) -> Duration {
        self.lock().now
    }

    /// Advances the time.
    pub fn advance(&self, time: Duration) {
        let mut state = self.lock();
        let end = state.now.saturating_add(time);
        state.run_until(end);
    }

    /// Advances the time to the next event: a packet arrives, or a timer expires. Often it has no visible
    /// effect yet. `false`: there are no more events.
    pub fn step(&self) -> bool {
        let mut state = self.lock();
        let next = state.next_event();
        next.inspect(|at| state.run_until(*at)).is_some()
    }

    /// The faults of a wire.
    pub fn faults(&self, wire: &str) -> Faults {
        self.lock().wires.get(wire).map(|wire| wire.faults).unwrap_or_default()
    }

    /// Changes the faults of a wire.
    pub fn change(&self, wire: &str, change: impl FnOnce(&mut Faults)) {
        // Not under the lock, so that `change` may call the world.
        let mut faults = self.faults(wire);
        change(&mut faults);
        self.lock().wires.entry(wire.to_owned()).or_default().faults = faults;
    }

    /// Ends a host as if its process were killed: nothing it posted completes, its memory is not changed
    /// any more, and its peers notice by timeouts. Packets that it sent still arrive. Its lanes return nothing;
    /// those opened with its name from now on belong to its successor.
    pub fn kill(&self, host: &str) {
        self.lock().kill(host);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in one test thread is reported there; others continue.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now()).finish_non_exhaustive()
    }
}
