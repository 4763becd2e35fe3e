//! Where listings go on: the last key of a page, under a number that fits into an answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::engine::random;

/// The last so many pages' ends. Whoever comes back later than that begins again.
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
    /// A number for a key. Not 0.
    pub(super) fn set(&self, key: &[u8]) -> u64 {
        // The high half stays empty: there callers of a store without a disk have something else.
        let number = u64::from(random() as u32).max(1);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.keys.insert(number, key.into());
        inner.order.push_back(number);
        if inner.order.len() > MAX
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.keys.remove(&oldest);
        }
        number
    }

    /// The key of a number; nothing for 0, which is the beginning.
    pub(super) fn get(&self, number: u64) -> Option<Box<[u8]>> {
        if number == 0 {
            return Some(Box::default());
        }
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.keys.get(&number).cloned()
    }
}

/// Keys of 4 KiB: 16 MiB at the most.
const MAX: usize = 4096;
