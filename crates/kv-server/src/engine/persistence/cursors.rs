//! Cursors of listings: the last key of a page, under a number that fits into an answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::engine::random;

/// The last keys of the most recent pages. An older cursor is unknown, and its listing must be restarted.
#[derive(Default)]
pub(crate) struct Cursors {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    keys: HashMap<u64, Box<[u8]>>,
    order: VecDeque<u64>,
}

impl Cursors {
    /// Returns a number for a key, not 0.
    pub(super) fn set(&self, key: &[u8]) -> u64 {
        // The high half is 0: in cursors of a store without disk it is the shard.
        let number = u64::from(random() as u32).max(1);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.keys.insert(number, key.into());
        inner.order.push_back(number);
        if inner.order.len() > MAX_CURSORS
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.keys.remove(&oldest);
        }
        number
    }

    /// The key of a number; empty for 0, the start.
    pub(super) fn get(&self, number: u64) -> Option<Box<[u8]>> {
        if number == 0 {
            return Some(Box::default());
        }
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.keys.get(&number).cloned()
    }
}

/// With keys of 4 KiB at most 16 MiB.
const MAX_CURSORS: usize = 4096;
