//! Work that may hang in a resolver or a driver, done within a time limit all the same.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::output;
use crate::output::Failure;

/// Does it on another thread, which may hang there: `None`, it has not come back in time. What takes long is
/// said by `waiting` to who waits at a terminal.
pub(crate) fn with_timeout<T: Send + 'static>(
    limit: Duration,
    waiting: impl FnOnce() -> String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Failure> {
    let answer = Arc::new(Answer { given: Mutex::new(None), signal: Condvar::new() });
    let said = answer.clone();
    let thread = std::thread::Builder::new().name("wirelane-dial".to_owned());
    let thread = thread.spawn(move || said.give(work()));
    thread.map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
    let begun = Instant::now();
    let soon = answer.wait(SOON.min(limit));
    if soon.is_some() {
        return Ok(soon);
    }
    output::progress(&waiting());
    Ok(answer.wait((limit + SLACK).saturating_sub(begun.elapsed())))
}

/// What comes of it, told by one thread to another. A channel would not do: waiting for one asks the dynamic
/// linker for something, which hangs if the other thread hangs there.
struct Answer<T> {
    given: Mutex<Option<T>>,
    signal: Condvar,
}

impl<T> Answer<T> {
    fn give(&self, given: T) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(given);
        self.signal.notify_one();
    }

    fn wait(&self, limit: Duration) -> Option<T> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.signal.wait_timeout_while(given, limit, |given| given.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// How long to wait before saying so.
const SOON: Duration = Duration::from_secs(1);
/// What the parts may take beyond their limit.
const SLACK: Duration = Duration::from_secs(2);
