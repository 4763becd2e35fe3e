//! A queue of dropped objects, for their owner.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Dropped objects, until their owner handles them. Checking an empty queue costs one load.
#[derive(Debug)]
pub(crate) struct DropQueue<T> {
    any: AtomicBool,
    dropped: Mutex<Vec<T>>,
}

impl<T> Default for DropQueue<T> {
    fn default() -> Self {
        DropQueue { any: AtomicBool::new(false), dropped: Mutex::default() }
    }
}

impl<T> DropQueue<T> {
    #[cold]
    pub(crate) fn push(&self, dropped: T) {
        self.lock().push(dropped);
        self.any.store(true, Ordering::Release);
    }

    /// Whether the queue is not empty.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Empties the queue.
    #[inline]
    pub(crate) fn take(&self) -> Vec<T> {
        match self.any() && self.any.swap(false, Ordering::Acquire) {
            true => std::mem::take(&mut *self.lock()),
            false => Vec::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_taken_once_in_order() {
        let queue = DropQueue::default();
        assert!(!queue.any() && queue.take().is_empty());
        queue.push(1);
        queue.push(2);
        assert!(queue.any());
        assert_eq!(queue.take(), [1, 2]);
        assert!(!queue.any() && queue.take().is_empty());
    }
}
