//! What is on its way to somebody who may not read, as a pipe that nobody empties. A thread of its own writes: whoever has
//! something to say never waits.
//!
//! It is handed over by a lock and not by a channel: a thread that waits for a channel the first time asks the dynamic linker
//! for something, and a library that hangs while it is loaded holds that one's lock.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Holds what waits to be written, up to a number.
pub(crate) struct WriteQueue<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    /// For the thread that writes: there is something to do.
    filled: Condvar,
    /// For who waits for the end: all is written.
    emptied: Condvar,
}

struct State<T> {
    waiting: VecDeque<T>,
    /// One has been taken out and is not written yet.
    writing: bool,
}

impl<T: Send + 'static> WriteQueue<T> {
    /// Begins to write, for as long as the process lives.
    pub(crate) fn open(name: &str, mut write: impl FnMut(T) + Send + 'static) -> io::Result<Self> {
        let outbox = WriteQueue::new();
        let shared = outbox.0.clone();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            loop {
                shared.write_one(&mut write);
            }
        })?;
        Ok(outbox)
    }

    fn new() -> Self {
        let state = State { waiting: VecDeque::new(), writing: false };
        WriteQueue(Arc::new(Shared {
            state: Mutex::new(state),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }))
    }

    /// Takes it, to be written in its turn; gives it back when too much waits already.
    pub(crate) fn put(&self, what: T) -> Result<(), T> {
        let mut state = self.0.lock();
        if state.waiting.len() >= MAX {
            return Err(what);
        }
        state.waiting.push_back(what);
        self.0.filled.notify_one();
        Ok(())
    }

    /// Waits until everything is written, but not longer; whether it is.
    pub(crate) fn flush(&self, patience: Duration) -> bool {
        let busy = |state: &mut State<T>| state.writing || !state.waiting.is_empty();
        let waited = self.0.emptied.wait_timeout_while(self.0.lock(), patience, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something and writes it.
    fn write_one(&self, write: &mut impl FnMut(T)) {
        let empty = |state: &mut State<T>| state.waiting.is_empty();
        let filled = self.filled.wait_while(self.lock(), empty);
        let mut state = filled.unwrap_or_else(PoisonError::into_inner);
        let Some(next) = state.waiting.pop_front() else { return };
        state.writing = true;
        drop(state);
        write(next);
        self.lock().writing = false;
        self.emptied.notify_all();
    }
}

impl<T> Clone for WriteQueue<T> {
    fn clone(&self) -> Self {
        WriteQueue(self.0.clone())
    }
}

/// How much may wait.
const MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_and_what_fits_is_written_in_order() {
        let outbox = WriteQueue::new();
        let refused = (0..MAX + 2).filter_map(|number| outbox.put(number).err());
        assert_eq!(refused.collect::<Vec<_>>(), [MAX, MAX + 1]);
        let mut written = Vec::new();
        outbox.0.write_one(&mut |number| written.push(number));
        outbox.0.write_one(&mut |number| written.push(number));
        assert_eq!(written, [0, 1]);
        assert_eq!(outbox.put(7), Ok(()), "there is room again");
    }

    #[test]
    fn the_end_waits_until_the_last_is_written() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let kept = written.clone();
        let outbox = WriteQueue::open("test", move |line| kept.lock().unwrap().push(line)).unwrap();
        outbox.put("the last").unwrap();
        assert!(outbox.flush(Duration::from_secs(60)));
        assert_eq!(*written.lock().unwrap(), ["the last"]);
    }

    #[test]
    fn whoever_does_not_read_is_not_waited_for() {
        let outbox = WriteQueue::new();
        outbox.put("unread").unwrap();
        assert!(!outbox.flush(Duration::from_millis(10)));
    }
}
