//! When requests are due, for `--rate`. Latency counts from that time, so that a store that stalls cannot delay the requests that would
//! show it (coordinated omission).

use std::time::{Duration, Instant};

/// The schedule of one client. All clients together have a fixed rate, and take turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    start: Instant,
    /// Requests a second of all clients.
    rate: f64,
    clients: u64,
    client: u64,
}

impl Schedule {
    pub(super) fn new(start: Instant, rate: f64, clients: usize, client: usize) -> Self {
        Schedule { start, rate, clients: clients as u64, client: client as u64 }
    }

    /// When this client's n-th request is due, from 0.
    #[inline]
    pub(super) fn due(&self, n: u64) -> Instant {
        let turn = n * self.clients + self.client;
        self.start + Duration::from_secs_f64(turn as f64 / self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns_at_the_rate_of_all() {
        let start = Instant::now();
        let [first, second] = [0, 1].map(|client| Schedule::new(start, 1000.0, 2, client));
        let after = |schedule: Schedule, n| (schedule.due(n) - start).as_micros();
        assert_eq!([0, 1, 2].map(|n| after(first, n)), [0, 2000, 4000]);
        assert_eq!([0, 1, 2].map(|n| after(second, n)), [1000, 3000, 5000]);
        assert_eq!(after(second, 499_999_999), 999_999_999_000);
    }
}
