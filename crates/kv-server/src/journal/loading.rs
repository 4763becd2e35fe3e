//! Which keys are being fetched, so that what was fetched does not take the place of what was written meanwhile.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys that are being fetched.
pub(crate) struct Loading {
    parts: [Mutex<HashMap<Box<[u8]>, Fetching>>; PARTS],
    hasher: RandomState,
}

#[derive(Default)]
struct Fetching {
    /// By how many.
    by: u32,
    /// How often the key was written since the first of them began.
    written: u32,
}

/// How often a key had been written when fetching it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begun(u32);

impl Default for Loading {
    fn default() -> Self {
        Loading { parts: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl Loading {
    /// Somebody begins to fetch a key.
    pub(super) fn begin(&self, key: &[u8]) -> Begun {
        let mut part = self.part(key);
        let fetching = part.entry(key.into()).or_default();
        fetching.by += 1;
        Begun(fetching.written)
    }

    /// Somebody has fetched it, and does something with it if it was not written meanwhile.
    pub(super) fn end<T>(&self, key: &[u8], begun: Begun, take: impl FnOnce() -> T) -> Option<T> {
        let mut part = self.part(key);
        let fetching = part.get_mut(key)?;
        let current = fetching.written == begun.0;
        fetching.by -= 1;
        if fetching.by == 0 {
            part.remove(key);
        }
        // Under the lock: whoever writes it next comes after.
        current.then(take)
    }

    /// A key is changed: what is being fetched of it is old.
    pub(super) fn change<T>(&self, key: &[u8], change: impl FnOnce() -> T) -> T {
        let mut part = self.part(key);
        if let Some(fetching) = part.get_mut(key) {
            fetching.written = fetching.written.wrapping_add(1);
        }
        change()
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, HashMap<Box<[u8]>, Fetching>> {
        let part = self.hasher.hash_one(key) as usize % PARTS;
        self.parts[part].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const PARTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_meanwhile_wins() {
        let loading = Loading::default();
        let first = loading.begin(b"k");
        assert_eq!(loading.end(b"k", first, || 1), Some(1));
        let [early, other] = [loading.begin(b"k"), loading.begin(b"other")];
        loading.change(b"k", || {});
        let late = loading.begin(b"k");
        assert_eq!(loading.end(b"k", early, || 1), None, "it was read before the write");
        assert_eq!(loading.end(b"k", late, || 1), Some(1), "and this after it");
        assert_eq!(loading.end(b"other", other, || 1), Some(1));
        assert!(loading.parts.iter().all(|part| part.lock().unwrap().is_empty()));
    }
}
