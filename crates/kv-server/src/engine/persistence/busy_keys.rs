//! The keys that are being loaded or saved, so that the two do not overlap.
//!
//! While a key is saved, disk and memory differ: the disk has the new value first. A value loaded in that time may be
//! the old one or the new one, so it is loaded again when both are the same.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The keys that are being loaded or saved, by their hashes: a key that has the hash of another only waits or is read again.
pub(crate) struct BusyKeys {
    stripes: [Stripe; STRIPES],
    hasher: RandomState,
}

#[derive(Default)]
struct Stripe {
    keys: Mutex<Keys>,
    /// Notified when a key was saved that a load waits for.
    saved: Condvar,
}

#[derive(Default)]
struct Keys {
    states: HashMap<u64, KeyState, BuildHasherDefault<SameHash>>,
    /// The number of loads that wait for a save.
    waiting: u32,
}

#[derive(Default)]
struct KeyState {
    /// The number of loads in progress.
    loading: u32,
    /// The number of saves in progress.
    saving: u32,
    /// The number of saves since the first of these loads started.
    written: u32,
}

/// The number of saves of a key when its load started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SaveCount(u32);

/// Marks keys as being saved, until it is dropped.
pub(super) struct SavingGuard {
    busy_keys: Arc<BusyKeys>,
    hashes: Vec<u64>,
}

impl Default for BusyKeys {
    fn default() -> Self {
        BusyKeys { stripes: std::array::from_fn(|_| Stripe::default()), hasher: RandomState::new() }
    }
}

impl BusyKeys {
    /// Starts to load a key, after waiting until it is not being saved.
    pub(super) fn begin(&self, key: &[u8]) -> SaveCount {
        let (stripe, hash) = self.stripe(key);
        let mut keys = stripe.lock();
        while keys.is_saving(hash) {
            keys.waiting += 1;
            keys = stripe.saved.wait(keys).unwrap_or_else(PoisonError::into_inner);
            keys.waiting -= 1;
        }
        keys.begin(hash)
    }

    /// Starts to load a key, unless it is being saved.
    pub(super) fn try_begin(&self, key: &[u8]) -> Option<SaveCount> {
        let (stripe, hash) = self.stripe(key);
        let mut keys = stripe.lock();
        (!keys.is_saving(hash)).then(|| keys.begin(hash))
    }

    /// Ends a load; calls `take` if the key was not saved since it started, and is not being saved.
    pub(super) fn end<T>(
        &self,
        key: &[u8],
        saves: SaveCount,
        take: impl FnOnce() -> T,
    ) -> Option<T> {
        let (stripe, hash) = self.stripe(key);
        let mut keys = stripe.lock();
        let busy = keys.states.get_mut(&hash)?;
        let current = busy.written == saves.0 && busy.saving == 0;
        busy.loading -= 1;
        if busy.is_idle() {
            keys.states.remove(&hash);
        }
        // Under the lock, so that it happens before the next save.
        current.then(take)
    }

    /// Marks keys as being saved on disk, and then changed in memory: loads in progress become invalid.
    pub(super) fn save<'k>(self: &Arc<Self>, keys: impl Iterator<Item = &'k [u8]>) -> SavingGuard {
        let hashes: Vec<u64> = keys.map(|key| self.hasher.hash_one(key)).collect();
        for hash in &hashes {
            self.stripe_of(*hash).lock().states.entry(*hash).or_default().saving += 1;
        }
        SavingGuard { busy_keys: self.clone(), hashes }
    }

    fn stripe(&self, key: &[u8]) -> (&Stripe, u64) {
        let hash = self.hasher.hash_one(key);
        (self.stripe_of(hash), hash)
    }

    fn stripe_of(&self, hash: u64) -> &Stripe {
        // The map uses other bits of it.
        &self.stripes[(hash >> 32) as usize % STRIPES]
    }
}

impl Stripe {
    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keys {
    fn is_saving(&self, hash: u64) -> bool {
        self.states.get(&hash).is_some_and(|busy| busy.saving > 0)
    }

    fn begin(&mut self, hash: u64) -> SaveCount {
        let busy = self.states.entry(hash).or_default();
        busy.loading += 1;
        SaveCount(busy.written)
    }
}

impl KeyState {
    fn is_idle(&self) -> bool {
        self.loading == 0 && self.saving == 0
    }
}

impl Drop for SavingGuard {
    fn drop(&mut self) {
        for hash in &self.hashes {
            let stripe = self.busy_keys.stripe_of(*hash);
            let mut keys = stripe.lock();
            if let Some(busy) = keys.states.get_mut(hash) {
                busy.saving -= 1;
                busy.written = busy.written.wrapping_add(1);
                if busy.is_idle() {
                    keys.states.remove(hash);
                }
            }
            // Each notification is a call of the system.
            let is_awaited = keys.waiting > 0;
            drop(keys);
            if is_awaited {
                stripe.saved.notify_all();
            }
        }
    }
}

/// The keys of the map are hashes already.
#[derive(Default)]
struct SameHash(u64);

impl Hasher for SameHash {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

const STRIPES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn is_empty(busy_keys: &BusyKeys) -> bool {
        busy_keys.stripes.iter().all(|stripe| stripe.lock().states.is_empty())
    }

    fn save(busy_keys: &Arc<BusyKeys>) -> SavingGuard {
        busy_keys.save([&b"k"[..]].into_iter())
    }

    #[test]
    fn a_load_during_a_save_is_invalid() {
        let busy_keys = Arc::new(BusyKeys::default());
        let first = busy_keys.begin(b"k");
        assert_eq!(busy_keys.end(b"k", first, || 1), Some(1));
        let [early, other] = [busy_keys.begin(b"k"), busy_keys.begin(b"other")];
        drop(save(&busy_keys));
        let late = busy_keys.begin(b"k");
        assert_eq!(busy_keys.end(b"k", early, || 1), None, "read before the write");
        assert_eq!(busy_keys.end(b"k", late, || 1), Some(1), "read after it");
        assert_eq!(busy_keys.end(b"other", other, || 1), Some(1));
        assert!(is_empty(&busy_keys));
    }

    #[test]
    fn a_load_waits_until_its_key_is_saved() {
        let busy_keys = Arc::new(BusyKeys::default());
        let early = busy_keys.begin(b"k");
        let saving = [save(&busy_keys), save(&busy_keys)];
        assert_eq!(busy_keys.end(b"k", early, || 1), None, "the disk may have had either");
        std::thread::scope(|scope| {
            let late = scope.spawn(|| {
                let saves = busy_keys.begin(b"k");
                busy_keys.end(b"k", saves, || 1)
            });
            drop(saving);
            assert_eq!(late.join().unwrap(), Some(1));
        });
        assert!(is_empty(&busy_keys));
    }
}
