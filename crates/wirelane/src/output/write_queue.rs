//! A queue of output for a reader that may be slow or stuck, such as a full pipe. A background thread writes, so that callers
//! never block.
//!
//! It uses a lock and not a channel: the first wait on a channel calls the dynamic linker, and a library that hangs while it is
//! loaded holds the linker's lock.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A bounded queue of items to write.
pub(crate) struct WriteQueue<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    /// For the writing thread: an item was added.
    filled: Condvar,
    /// For `flush`: an item was written.
    emptied: Condvar,
}

struct State<T> {
    waiting: VecDeque<T>,
    /// An item was removed and is not written yet.
    writing: bool,
}

impl<T: Send + 'static> WriteQueue<T> {
    /// Starts the thread, which runs until the process ends.
    pub(crate) fn open(name: &str, mut write: impl FnMut(T) + Send + 'static) -> io::Result<Self> {
        let queue = WriteQueue::new();
        let shared = queue.0.clone();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            loop {
                shared.write_one(&mut write);
            }
        })?;
        Ok(queue)
    }

    fn new() -> Self {
        let state = State { waiting: VecDeque::new(), writing: false };
        WriteQueue(Arc::new(Shared {
            state: Mutex::new(state),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }))
    }

    /// Adds an item; returns it if the queue is full.
    pub(crate) fn put(&self, item: T) -> Result<(), T> {
        let mut state = self.0.lock();
        if state.waiting.len() >= MAX_ITEMS {
            return Err(item);
        }
        state.waiting.push_back(item);
        self.0.filled.notify_one();
        Ok(())
    }

    /// Waits until everything is written, or for the timeout; returns whether it is written.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        let busy = |state: &mut State<T>| state.writing || !state.waiting.is_empty();
        let waited = self.0.emptied.wait_timeout_while(self.0.lock(), timeout, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an item, and writes it.
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

const MAX_ITEMS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_written_in_order_and_refused_when_full() {
        let queue = WriteQueue::new();
        let refused = (0..MAX_ITEMS + 2).filter_map(|number| queue.put(number).err());
        assert_eq!(refused.collect::<Vec<_>>(), [MAX_ITEMS, MAX_ITEMS + 1]);
        let mut written = Vec::new();
        queue.0.write_one(&mut |number| written.push(number));
        queue.0.write_one(&mut |number| written.push(number));
        assert_eq!(written, [0, 1]);
        assert_eq!(queue.put(7), Ok(()), "there is space again");
    }

    #[test]
    fn flush_waits_until_the_last_item_is_written() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let writer = written.clone();
        let queue =
            WriteQueue::open("test", move |line| writer.lock().unwrap().push(line)).unwrap();
        queue.put("the last").unwrap();
        assert!(queue.flush(Duration::from_secs(60)));
        assert_eq!(*written.lock().unwrap(), ["the last"]);
    }

    #[test]
    fn flush_gives_up_at_the_timeout() {
        let queue = WriteQueue::new();
        queue.put("unread").unwrap();
        assert!(!queue.flush(Duration::from_millis(10)));
    }
}
