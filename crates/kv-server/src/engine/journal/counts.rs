//! What the journal has done, for whoever watches.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fabric::Histogram;

/// What the journal has done.
#[derive(Debug, Default)]
pub struct JournalCounts {
    /// How often changes were saved together.
    pub saves: AtomicU64,
    /// How many writes that was.
    pub writes: AtomicU64,
    /// How long each took, with its sync.
    pub save_times: Histogram,
    /// How often saving failed.
    pub faults: AtomicU64,
    /// Values fetched from the disk.
    pub loads: AtomicU64,
    /// Values that were found damaged.
    pub damaged: AtomicU64,
    waiting: AtomicI64,
    failing: AtomicBool,
}

impl JournalCounts {
    /// How many writes wait to be saved.
    pub fn queue(&self) -> u64 {
        self.waiting.load(Relaxed).max(0) as u64
    }

    /// Whether the last save failed.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
    }

    pub(super) fn waiting(&self, more: i64) {
        self.waiting.fetch_add(more, Relaxed);
    }

    /// Counts how saving went; returns whether that has changed. The log writer alone calls this.
    pub(super) fn saved(&self, writes: u64, took: Duration, ok: bool) -> bool {
        match ok {
            true => {
                self.saves.fetch_add(1, Relaxed);
                self.writes.fetch_add(writes, Relaxed);
                self.save_times.add(took);
            }
            false => _ = self.faults.fetch_add(1, Relaxed),
        }
        self.failing.swap(!ok, Relaxed) == ok
    }
}
