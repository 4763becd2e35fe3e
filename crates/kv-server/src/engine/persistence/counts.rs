//! The counters of the disk, for metrics.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fabric::Histogram;

use super::lock;

/// The counters of the disk.
#[derive(Debug, Default)]
pub struct PersistenceCounts {
    /// When writes were last saved, in seconds since 1970.
    pub last_save: AtomicU64,
    /// Batches saved.
    pub saves: AtomicU64,
    /// Writes in them.
    pub writes: AtomicU64,
    /// The duration of each, with its sync.
    pub save_times: Histogram,
    /// Batches that failed.
    pub save_failures: AtomicU64,
    /// Values loaded from the disk.
    pub loads: AtomicU64,
    /// Values found damaged.
    pub damaged: AtomicU64,
    waiting: AtomicI64,
    /// When the save began that is not done yet.
    saving_since: Mutex<Option<Instant>>,
    failing: AtomicBool,
    removed: AtomicBool,
}

impl PersistenceCounts {
    /// The number of writes that wait to be saved.
    pub fn queue(&self) -> u64 {
        self.waiting.load(Relaxed).max(0) as u64
    }

    /// How long the current save has run.
    pub fn save_running(&self) -> Duration {
        lock(&self.saving_since).map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// A save begins, until the next call of `saved`.
    pub(super) fn begin_save(&self, now: Instant) {
        *lock(&self.saving_since) = Some(now);
    }

    /// A save ended that is not counted.
    pub(super) fn end_save(&self) {
        *lock(&self.saving_since) = None;
    }

    /// Whether the last save failed, or the next one will.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Relaxed) || self.is_removed()
    }

    /// Whether the files in use were removed, moved or replaced.
    pub fn is_removed(&self) -> bool {
        self.removed.load(Relaxed)
    }

    /// Sets it; returns whether it was otherwise.
    pub(super) fn set_removed(&self, removed: bool) -> bool {
        self.removed.swap(removed, Relaxed) != removed
    }

    pub(super) fn add_waiting(&self, change: i64) {
        self.waiting.fetch_add(change, Relaxed);
    }

    /// Counts a batch; returns whether its outcome differs from the one before. Only the committer calls this.
    pub(super) fn saved(&self, writes: u64, took: Duration, ok: bool, unix_now: u64) -> bool {
        *lock(&self.saving_since) = None;
        match ok {
            true => {
                self.last_save.store(unix_now / 1000, Relaxed);
                self.saves.fetch_add(1, Relaxed);
                self.writes.fetch_add(writes, Relaxed);
                self.save_times.add(took);
            }
            false => _ = self.save_failures.fetch_add(1, Relaxed),
        }
        self.failing.swap(!ok, Relaxed) == ok
    }
}
