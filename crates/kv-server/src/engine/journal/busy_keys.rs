//! Which keys are being fetched and which are being saved, so that the two do not overlap.
//!
//! While a key is saved, disk and memory differ: the disk has the new value first. Whatever was fetched in that time may be
//! the old value or the new one, so it is fetched again when both have the same.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Keys that are being fetched or saved.
pub(crate) struct Loading {
    parts: [Part; PARTS],
    hasher: RandomState,
}

#[derive(Default)]
struct Part {
    keys: Mutex<HashMap<Box<[u8]>, Busy>>,
    /// Some of them are saved.
    saved: Condvar,
}

#[derive(Default)]
struct Busy {
    /// How many fetch it.
    fetching: u32,
    /// How many changes of it are being saved.
    saving: u32,
    /// How often it was saved since the first of those who fetch it began.
    written: u32,
}

/// How often a key had been written when fetching it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begun(u32);

/// Keys that are being saved, until this is dropped.
pub(super) struct Saving<'l> {
    loading: &'l Loading,
    keys: Vec<Box<[u8]>>,
}

impl Default for Loading {
    fn default() -> Self {
        Loading { parts: std::array::from_fn(|_| Part::default()), hasher: RandomState::new() }
    }
}

impl Loading {
    /// Somebody begins to fetch a key, once it is not being saved.
    pub(super) fn begin(&self, key: &[u8]) -> Begun {
        let part = self.part(key);
        let is_saved = |keys: &mut Keys| keys.get(key).is_some_and(|busy| busy.saving > 0);
        let keys = part.saved.wait_while(part.lock(), is_saved);
        let mut keys = keys.unwrap_or_else(PoisonError::into_inner);
        let busy = keys.entry(key.into()).or_default();
        busy.fetching += 1;
        Begun(busy.written)
    }

    /// Somebody has fetched it, and does something with it if it was not written meanwhile, nor is.
    pub(super) fn end<T>(&self, key: &[u8], begun: Begun, take: impl FnOnce() -> T) -> Option<T> {
        let mut keys = self.part(key).lock();
        let busy = keys.get_mut(key)?;
        let current = busy.written == begun.0 && busy.saving == 0;
        busy.fetching -= 1;
        if busy.is_over() {
            keys.remove(key);
        }
        // Under the lock: whoever saves it next comes after.
        current.then(take)
    }

    /// Keys are about to be saved, and then to be changed in memory: what is being fetched of them is old.
    pub(super) fn save<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Saving<'_> {
        let keys: Vec<Box<[u8]>> = keys.map(Box::from).collect();
        for key in &keys {
            self.part(key).lock().entry(key.clone()).or_default().saving += 1;
        }
        Saving { loading: self, keys }
    }

    fn part(&self, key: &[u8]) -> &Part {
        &self.parts[self.hasher.hash_one(key) as usize % PARTS]
    }
}

type Keys = HashMap<Box<[u8]>, Busy>;

impl Part {
    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Busy {
    fn is_over(&self) -> bool {
        self.fetching == 0 && self.saving == 0
    }
}

impl Drop for Saving<'_> {
    fn drop(&mut self) {
        for key in &self.keys {
            let part = self.loading.part(key);
            let mut keys = part.lock();
            if let Some(busy) = keys.get_mut(key) {
                busy.saving -= 1;
                busy.written = busy.written.wrapping_add(1);
                if busy.is_over() {
                    keys.remove(key);
                }
            }
            drop(keys);
            part.saved.notify_all();
        }
    }
}

const PARTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn is_empty(loading: &Loading) -> bool {
        loading.parts.iter().all(|part| part.lock().is_empty())
    }

    fn save(loading: &Loading) -> Saving<'_> {
        loading.save([&b"k"[..]].into_iter())
    }

    #[test]
    fn what_was_written_meanwhile_wins() {
        let loading = Loading::default();
        let first = loading.begin(b"k");
        assert_eq!(loading.end(b"k", first, || 1), Some(1));
        let [early, other] = [loading.begin(b"k"), loading.begin(b"other")];
        drop(save(&loading));
        let late = loading.begin(b"k");
        assert_eq!(loading.end(b"k", early, || 1), None, "it was read before the write");
        assert_eq!(loading.end(b"k", late, || 1), Some(1), "and this after it");
        assert_eq!(loading.end(b"other", other, || 1), Some(1));
        assert!(is_empty(&loading));
    }

    #[test]
    fn nothing_is_fetched_while_it_is_saved() {
        let loading = Loading::default();
        let early = loading.begin(b"k");
        let saving = [save(&loading), save(&loading)];
        assert_eq!(loading.end(b"k", early, || 1), None, "the disk may have had either");
        std::thread::scope(|scope| {
            let late = scope.spawn(|| {
                let begun = loading.begin(b"k");
                loading.end(b"k", begun, || 1)
            });
            drop(saving);
            assert_eq!(late.join().unwrap(), Some(1));
        });
        assert!(is_empty(&loading));
    }
}
