//! Runs work that may hang in a resolver or a driver, with a timeout.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::output;
use crate::output::Failure;

/// Runs `work` on another thread; `None` if it has not finished in time, and then the thread is left hanging. If it takes
/// long, the text of `waiting` is printed on terminals.
pub(crate) fn with_timeout<T: Send + 'static>(
    limit: Duration,
    waiting: impl FnOnce() -> String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Failure> {
    let answer = Arc::new(Answer { value: Mutex::new(None), signal: Condvar::new() });
    let result = answer.clone();
    let thread = std::thread::Builder::new().name("wirelane-dial".to_owned());
    let thread = thread.spawn(move || result.set(work()));
    thread.map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
    let started = Instant::now();
    let early = answer.wait(PROGRESS_AFTER.min(limit));
    if early.is_some() {
        return Ok(early);
    }
    output::progress(&waiting());
    Ok(answer.wait((limit + SLACK).saturating_sub(started.elapsed())))
}

/// The result, passed between threads. Not a channel: waiting on one calls the dynamic linker, which hangs if the other
/// thread hangs in it.
struct Answer<T> {
    value: Mutex<Option<T>>,
    signal: Condvar,
}

impl<T> Answer<T> {
    fn set(&self, value: T) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.signal.notify_one();
    }

    fn wait(&self, limit: Duration) -> Option<T> {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.signal.wait_timeout_while(value, limit, |value| value.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// When the progress message is printed.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);
/// Time for `work` to return after its own timeout.
const SLACK: Duration = Duration::from_secs(2);
