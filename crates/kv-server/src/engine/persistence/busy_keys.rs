//! The keys that are being loaded or saved, so that the two do not overlap.
//!
//! While a key is saved, disk and memory differ: the disk has the new value first. A value loaded in that time may be
//! the old one or the new one, so it is loaded again when both are the same.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::lock;

/// The keys that are being loaded or saved, by their hashes: a key that has the hash of another only waits or is read again.
pub(crate) struct BusyKeys {
    stripes: [Mutex<Keys>; STRIPES],
    hasher: RandomState,
    saves: Mutex<Saves>,
    /// Notified when a save ended that somebody waits for.
    save_ended: Condvar,
}

type Keys = HashMap<u64, KeyState, BuildHasherDefault<SameHash>>;

#[derive(Default)]
struct KeyState {
    /// The number of loads in progress.
    loading: u32,
    /// The number of saves in progress.
    saving: u32,
    /// The number of saves since the first of these loads started.
    written: u32,
}

/// Saves end in the order in which they began.
#[derive(Default)]
struct Saves {
    begun: u64,
    ended: u64,
    /// The number of threads that wait for the end of one.
    waiting: u32,
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
        BusyKeys {
            stripes: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            saves: Mutex::default(),
            save_ended: Condvar::new(),
        }
    }
}

impl BusyKeys {
    /// Starts to load a key. If it is being saved, waits for the saves in progress, not for later ones: a key may be in each of them, and
    /// what was saved is in memory by then.
    pub(super) fn begin(&self, key: &[u8]) -> SaveCount {
        let hash = self.hasher.hash_one(key);
        let is_saving = self.keys(hash).get(&hash).is_some_and(|busy| busy.saving > 0);
        if is_saving {
            self.wait_for_saves();
        }
        begin(&mut self.keys(hash), hash)
    }

    /// Starts to load a key, unless it is being saved.
    pub(super) fn try_begin(&self, key: &[u8]) -> Option<SaveCount> {
        let hash = self.hasher.hash_one(key);
        let mut keys = self.keys(hash);
        let is_saving = keys.get(&hash).is_some_and(|busy| busy.saving > 0);
        (!is_saving).then(|| begin(&mut keys, hash))
    }

    /// Waits until all that is being saved now is in memory too, or refused.
    pub(super) fn wait_for_saves(&self) {
        let mut saves = lock(&self.saves);
        let begun = saves.begun;
        while saves.ended < begun {
            saves.waiting += 1;
            saves = self.save_ended.wait(saves).unwrap_or_else(PoisonError::into_inner);
            saves.waiting -= 1;
        }
    }

    /// Ends a load; calls `take` if the key was not saved since it started, and is not being saved.
    pub(super) fn end<T>(
        &self,
        key: &[u8],
        saves: SaveCount,
        take: impl FnOnce() -> T,
    ) -> Option<T> {
        let hash = self.hasher.hash_one(key);
        let mut keys = self.keys(hash);
        let busy = keys.get_mut(&hash)?;
        let current = busy.written == saves.0 && busy.saving == 0;
        busy.loading -= 1;
        if busy.is_idle() {
            keys.remove(&hash);
        }
        // Under the lock, so that it happens before the next save.
        current.then(take)
    }

    /// Marks keys as being saved on disk, and then changed in memory: loads in progress become invalid.
    pub(super) fn save<'k>(self: &Arc<Self>, keys: impl Iterator<Item = &'k [u8]>) -> SavingGuard {
        // Before a key is marked: who sees the mark waits for this save.
        lock(&self.saves).begun += 1;
        let hashes: Vec<u64> = keys.map(|key| self.hasher.hash_one(key)).collect();
        for hash in &hashes {
            self.keys(*hash).entry(*hash).or_default().saving += 1;
        }
        SavingGuard { busy_keys: self.clone(), hashes }
    }

    fn keys(&self, hash: u64) -> MutexGuard<'_, Keys> {
        // The map uses other bits of it.
        lock(&self.stripes[(hash >> 32) as usize % STRIPES])
    }
}

fn begin(keys: &mut Keys, hash: u64) -> SaveCount {
    let busy = keys.entry(hash).or_default();
    busy.loading += 1;
    SaveCount(busy.written)
}

impl KeyState {
    fn is_idle(&self) -> bool {
        self.loading == 0 && self.saving == 0
    }
}

impl Drop for SavingGuard {
    fn drop(&mut self) {
        for hash in &self.hashes {
            let mut keys = self.busy_keys.keys(*hash);
            if let Some(busy) = keys.get_mut(hash) {
                busy.saving -= 1;
                busy.written = busy.written.wrapping_add(1);
                if busy.is_idle() {
                    keys.remove(hash);
                }
            }
        }
        let mut saves = lock(&self.busy_keys.saves);
        saves.ended += 1;
        // Each notification is a call of the system.
        let is_awaited = saves.waiting > 0;
        drop(saves);
        if is_awaited {
            self.busy_keys.save_ended.notify_all();
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
        busy_keys.stripes.iter().all(|stripe| lock(stripe).is_empty())
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

    /// A key that is written again and again is in every save.
    #[test]
    fn a_load_waits_only_for_the_saves_in_progress() {
        let busy_keys = Arc::new(BusyKeys::default());
        let mut saving = save(&busy_keys);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let saves = busy_keys.begin(b"k");
                busy_keys.end(b"k", saves, || 1)
            });
            while !load.is_finished() {
                let next = save(&busy_keys);
                drop(std::mem::replace(&mut saving, next));
                std::thread::yield_now();
            }
            assert_eq!(load.join().unwrap(), None, "it is being saved");
        });
        drop(saving);
        assert!(is_empty(&busy_keys));
    }
}
