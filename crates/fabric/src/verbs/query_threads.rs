//! Queries of several devices at the same time, each on its own thread: one that does not answer does not hold up the others.

use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A query of one device.
pub(super) struct Query<T> {
    /// Identifies the device in this process.
    pub(super) device: String,
    pub(super) run: Box<dyn FnOnce() -> T + Send>,
}

/// The results in order; `None` for a device that does not answer within `limit`. While it has not answered, it is not queried
/// again: otherwise every call would leave a thread behind.
pub(super) fn query_all<T: Send + 'static>(
    queries: Vec<Query<T>>,
    limit: Duration,
) -> Vec<Option<T>> {
    let deadline = Instant::now() + limit;
    let mut results: Vec<Option<T>> = queries.iter().map(|_| None).collect();
    let (done, answers) = channel();
    for (index, Query { device, run }) in queries.into_iter().enumerate() {
        let Some(running) = RunningQuery::start(device, deadline) else { continue };
        let done = done.clone();
        let work = move || {
            let result = run();
            drop(running);
            // This fails if the caller no longer waits.
            let _ = done.send((index, result));
        };
        // Without a thread the device counts as one that does not answer.
        let _ = std::thread::Builder::new().name("wirelane-query".to_owned()).spawn(work);
    }
    drop(done);
    while let Ok((index, result)) =
        answers.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        results[index] = Some(result);
    }
    results
}

/// A query that has not finished.
struct RunningQuery {
    device: String,
    /// When its caller stops waiting.
    deadline: Instant,
}

static RUNNING: Mutex<Vec<(String, Instant)>> = Mutex::new(Vec::new());

impl RunningQuery {
    /// `None` if an earlier query of the device has not finished in time.
    fn start(device: String, deadline: Instant) -> Option<Self> {
        let (mut running, now) = (running(), Instant::now());
        if running.iter().any(|(other, deadline)| *other == device && *deadline <= now) {
            return None;
        }
        running.push((device.clone(), deadline));
        Some(RunningQuery { device, deadline })
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        let mut running = running();
        let own = (&self.device, self.deadline);
        if let Some(at) = running.iter().position(|(device, deadline)| (device, *deadline) == own) {
            running.swap_remove(at);
        }
    }
}

fn running() -> MutexGuard<'static, Vec<(String, Instant)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender};

    use super::*;

    /// A device that answers once the sender is dropped.
    fn silent(queries: &Arc<AtomicUsize>) -> (Query<&'static str>, Sender<()>) {
        let (release, released): (_, Receiver<()>) = channel();
        let queries = queries.clone();
        let run = move || {
            queries.fetch_add(1, Ordering::Relaxed);
            let _ = released.recv();
            "silent"
        };
        (Query { device: "test silent".to_owned(), run: Box::new(run) }, release)
    }

    fn healthy(name: &'static str) -> Query<&'static str> {
        Query { device: format!("test {name}"), run: Box::new(move || name) }
    }

    #[test]
    fn a_silent_device_does_not_hold_up_the_others_and_is_queried_once() {
        let limit = Duration::from_secs(2);
        let queries = Arc::new(AtomicUsize::new(0));
        let (query, release) = silent(&queries);
        let results = query_all(vec![healthy("a"), query, healthy("b")], limit);
        assert_eq!(results, [Some("a"), None, Some("b")]);
        let (query, _release) = silent(&queries);
        assert_eq!(query_all(vec![query, healthy("a")], limit), [None, Some("a")]);
        assert_eq!(queries.load(Ordering::Relaxed), 1, "the second query was not started");
        drop(release);
        while running().iter().any(|(device, _)| device == "test silent") {
            std::thread::yield_now();
        }
        let (query, release) = silent(&queries);
        drop(release);
        assert_eq!(query_all(vec![query], limit), [Some("silent")]);
    }
}
