//! One who collects, on a thread of its own, when asked.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use doctor::watch::Run;

use crate::output::Failure;

/// A thread that looks at one kind of thing. Nobody asks: it sleeps. It hangs: who asks waits for it once, until it comes
/// back is told at once that it does not, and no second one is started.
#[derive(Debug)]
pub(super) struct Collector<T> {
    name: &'static str,
    every: Duration,
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// For the collector: somebody asks.
    asked: Condvar,
    /// For who asks: there is something new.
    told: Condvar,
}

#[derive(Debug)]
struct State<T> {
    wanted: bool,
    over: bool,
    /// When what is in flight was begun.
    begun: Option<Instant>,
    /// Whether somebody has waited for it in vain.
    late: bool,
    latest: Option<Latest<T>>,
}

#[derive(Debug)]
struct Latest<T> {
    at: Instant,
    took: Duration,
    told: Result<Arc<T>, String>,
}

/// What a collector was asked for, to be waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked(Instant);

impl<T: Send + Sync + 'static> Collector<T> {
    /// Starts the thread. What is younger than `every` is told again.
    pub(super) fn start(
        name: &'static str,
        every: Duration,
        work: impl FnMut() -> Result<T, String> + Send + 'static,
    ) -> Result<Self, Failure> {
        let state = State { wanted: false, over: false, begun: None, late: false, latest: None };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            asked: Condvar::new(),
            told: Condvar::new(),
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name(format!("collect-{name}"));
        thread
            .spawn(move || of_thread.work(work))
            .map_err(|error| Failure::failed(format!("start a thread for {name}: {error}")))?;
        Ok(Collector { name, every, shared })
    }

    /// Whether it has looked before.
    pub(super) fn is_used(&self) -> bool {
        self.shared.lock().latest.is_some()
    }

    /// Asks for what is not too old.
    pub(super) fn ask(&self, now: Instant) -> Asked {
        let mut state = self.shared.lock();
        let fresh = state.latest.as_ref().filter(|latest| {
            let age = now.saturating_duration_since(latest.at);
            age < self.every
        });
        if let Some(fresh) = fresh {
            return Asked(fresh.at);
        }
        // One that is in flight will do: it is not told yet.
        if state.begun.is_none() {
            state.wanted = true;
            self.shared.asked.notify_one();
        }
        Asked(now)
    }

    /// What was asked for, if it comes in time, and how it went.
    pub(super) fn wait(&self, asked: Asked, deadline: Instant) -> (Option<Arc<T>>, Run) {
        let mut state = self.shared.lock();
        loop {
            let now = Instant::now();
            if let Some(latest) = state.latest.as_ref().filter(|latest| latest.at >= asked.0) {
                return (latest.told.as_ref().ok().cloned(), self.run(latest, now));
            }
            let left = deadline.saturating_duration_since(now);
            if state.late || left.is_zero() {
                state.late = true;
                let begun = state.begun.unwrap_or(asked.0);
                return (None, self.no_answer(now.saturating_duration_since(begun)));
            }
            let woken = self.shared.told.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn run(&self, latest: &Latest<T>, now: Instant) -> Run {
        Run {
            collector: self.name.to_owned(),
            success: latest.told.is_ok(),
            seconds: latest.took.as_secs_f64(),
            age_seconds: now.saturating_duration_since(latest.at).as_secs_f64(),
            why: latest.told.as_ref().err().cloned(),
        }
    }

    fn no_answer(&self, since: Duration) -> Run {
        Run {
            collector: self.name.to_owned(),
            success: false,
            seconds: since.as_secs_f64(),
            age_seconds: since.as_secs_f64(),
            why: Some("it does not answer: a driver or library hangs".to_owned()),
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
            while !state.wanted && !state.over {
                state = self.asked.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.over {
                return;
            }
            state.wanted = false;
            let begun = Instant::now();
            state.begun = Some(begun);
            drop(state);
            let told = work().map(Arc::new);
            let at = Instant::now();
            let mut state = self.lock();
            state.begun = None;
            state.late = false;
            state.latest = Some(Latest { at, took: at - begun, told });
            self.told.notify_all();
        }
    }
}

impl<T> Drop for Collector<T> {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.asked.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn asks(collector: &Collector<u32>, patience: Duration) -> (Option<u32>, Run) {
        let now = Instant::now();
        let asked = collector.ask(now);
        let (told, run) = collector.wait(asked, now + patience);
        (told.map(|number| *number), run)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_young_is_told_again_and_nothing_is_done_unasked() {
        let mut looks = 0;
        let count = move || {
            looks += 1;
            Ok(looks)
        };
        let collector = Collector::start("test", LONG, count).expect("a thread");
        assert_eq!(asks(&collector, LONG).0, Some(1));
        let (told, run) = asks(&collector, LONG);
        assert_eq!((told, run.success), (Some(1), true), "no second look within the interval");
    }

    #[test]
    fn one_that_hangs_is_waited_for_once_and_heard_again_when_it_comes_back() {
        let (go, gate) = mpsc::channel::<()>();
        let mut looks = 0;
        let hang = move || {
            looks += 1;
            gate.recv().map_err(|_| "over".to_owned())?;
            Ok(looks)
        };
        let collector = Collector::start("test", Duration::ZERO, hang).expect("a thread");
        let (told, run) = asks(&collector, Duration::from_millis(1));
        assert_eq!((told, run.success), (None, false));
        assert!(run.why.is_some_and(|why| why.contains("does not answer")));
        // Another would wait for ever if it waited for the deadline.
        assert_eq!(asks(&collector, LONG * 1000).0, None, "told at once");
        go.send(()).expect("it waits");
        go.send(()).expect("it will wait");
        while asks(&collector, LONG).0.is_none() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_failure_is_told_with_its_reason() {
        let fail = || Err("no such thing".to_owned());
        let collector = Collector::<u32>::start("test", LONG, fail).expect("a thread");
        let (told, run) = asks(&collector, LONG);
        assert_eq!((told, run.why.as_deref()), (None, Some("no such thing")));
    }
}
