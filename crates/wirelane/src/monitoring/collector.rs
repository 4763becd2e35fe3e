//! A collector: reads on request, on its own thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use doctor::monitoring::CollectorRun;

use crate::output::Failure;

/// A thread that reads one kind of metrics. It sleeps until a reading is requested. If it hangs, only the first caller waits
/// until its deadline; later callers fail immediately until it returns, and no second thread is started.
#[derive(Debug)]
pub(super) struct Collector<T> {
    name: &'static str,
    every: Duration,
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// For the thread: a reading is requested.
    requested: Condvar,
    /// For callers: a reading is finished.
    finished: Condvar,
}

#[derive(Debug)]
struct State<T> {
    is_requested: bool,
    is_stopping: bool,
    /// When the running reading was started.
    started: Option<Instant>,
    /// Whether a caller has waited for it until its deadline.
    late: bool,
    latest: Option<Latest<T>>,
}

#[derive(Debug)]
struct Latest<T> {
    at: Instant,
    took: Duration,
    reading: Result<Arc<T>, String>,
}

/// A requested reading: it must not be older than this.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request(Instant);

impl<T: Send + Sync + 'static> Collector<T> {
    /// Starts the thread. A reading younger than `every` is reused.
    pub(super) fn start(
        name: &'static str,
        every: Duration,
        work: impl FnMut() -> Result<T, String> + Send + 'static,
    ) -> Result<Self, Failure> {
        let state = State {
            is_requested: false,
            is_stopping: false,
            started: None,
            late: false,
            latest: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            requested: Condvar::new(),
            finished: Condvar::new(),
        });
        let thread_shared = shared.clone();
        let thread = std::thread::Builder::new().name(format!("collect-{name}"));
        thread
            .spawn(move || thread_shared.work(work))
            .map_err(|error| Failure::failed(format!("start a thread for {name}: {error}")))?;
        Ok(Collector { name, every, shared })
    }

    /// Whether it has finished a reading.
    pub(super) fn is_used(&self) -> bool {
        self.shared.lock().latest.is_some()
    }

    /// Requests a reading that is not too old.
    pub(super) fn request(&self, now: Instant) -> Request {
        let mut state = self.shared.lock();
        let fresh = state.latest.as_ref().filter(|latest| {
            let age = now.saturating_duration_since(latest.at);
            age < self.every
        });
        if let Some(fresh) = fresh {
            return Request(fresh.at);
        }
        // A running reading is new enough.
        if state.started.is_none() {
            state.is_requested = true;
            self.shared.requested.notify_one();
        }
        Request(now)
    }

    /// Waits for the reading until the deadline, and reports how it went.
    pub(super) fn wait(
        &self,
        request: Request,
        deadline: Instant,
    ) -> (Option<Arc<T>>, CollectorRun) {
        let mut state = self.shared.lock();
        loop {
            let now = Instant::now();
            if let Some(latest) = state.latest.as_ref().filter(|latest| latest.at >= request.0) {
                return (latest.reading.as_ref().ok().cloned(), self.run(latest, now));
            }
            let left = deadline.saturating_duration_since(now);
            if state.late || left.is_zero() {
                state.late = true;
                let started = state.started.unwrap_or(request.0);
                return (None, self.no_answer(now.saturating_duration_since(started)));
            }
            let woken = self.shared.finished.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn run(&self, latest: &Latest<T>, now: Instant) -> CollectorRun {
        CollectorRun {
            collector: self.name.to_owned(),
            success: latest.reading.is_ok(),
            seconds: latest.took.as_secs_f64(),
            age_seconds: now.saturating_duration_since(latest.at).as_secs_f64(),
            why: latest.reading.as_ref().err().cloned(),
        }
    }

    fn no_answer(&self, since: Duration) -> CollectorRun {
        CollectorRun {
            collector: self.name.to_owned(),
            success: false,
            seconds: since.as_secs_f64(),
            age_seconds: since.as_secs_f64(),
            why: Some("does not answer: a driver or library hangs".to_owned()),
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, mut work: impl FnMut() -> Result<T, String>) {
        loop {
            let mut state = self.lock();
            while !state.is_requested && !state.is_stopping {
                state = self.requested.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_stopping {
                return;
            }
            state.is_requested = false;
            let started = Instant::now();
            state.started = Some(started);
            drop(state);
            let reading = work().map(Arc::new);
            let at = Instant::now();
            let mut state = self.lock();
            state.started = None;
            state.late = false;
            state.latest = Some(Latest { at, took: at - started, reading });
            self.finished.notify_all();
        }
    }
}

impl<T> Drop for Collector<T> {
    fn drop(&mut self) {
        self.shared.lock().is_stopping = true;
        self.shared.requested.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn read(collector: &Collector<u32>, timeout: Duration) -> (Option<u32>, CollectorRun) {
        let now = Instant::now();
        let request = collector.request(now);
        let (reading, run) = collector.wait(request, now + timeout);
        (reading.map(|number| *number), run)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_recent_reading_is_reused() {
        let mut readings = 0;
        let count = move || {
            readings += 1;
            Ok(readings)
        };
        let collector = Collector::start("test", LONG, count).expect("a thread");
        assert_eq!(read(&collector, LONG).0, Some(1));
        let (reading, run) = read(&collector, LONG);
        assert_eq!(
            (reading, run.success),
            (Some(1), true),
            "no second reading within the interval"
        );
    }

    #[test]
    fn a_hanging_collector_is_waited_for_once_and_used_again_when_it_returns() {
        let (go, gate) = mpsc::channel::<()>();
        let mut readings = 0;
        let hang = move || {
            readings += 1;
            gate.recv().map_err(|_| "closed".to_owned())?;
            Ok(readings)
        };
        let collector = Collector::start("test", Duration::ZERO, hang).expect("a thread");
        let (reading, run) = read(&collector, Duration::from_millis(1));
        assert_eq!((reading, run.success), (None, false));
        assert!(run.why.is_some_and(|why| why.contains("does not answer")));
        // This would take hours if it waited for the deadline.
        assert_eq!(read(&collector, LONG * 1000).0, None, "fails immediately");
        go.send(()).expect("the first reading waits");
        go.send(()).expect("the second reading will wait");
        while read(&collector, LONG).0.is_none() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_failure_has_its_reason() {
        let fail = || Err("no such thing".to_owned());
        let collector = Collector::<u32>::start("test", LONG, fail).expect("a thread");
        let (reading, run) = read(&collector, LONG);
        assert_eq!((reading, run.why.as_deref()), (None, Some("no such thing")));
    }
}
