//! Listing keys, page by page.

use crate::locked_shard::ShardGuard;
use crate::{Metadata, Store, Timestamp};

/// Where a listing continues. It may be sent to clients as a number: an invalid number
/// only skips keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor(u64);

/// Some keys, and where the listing continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Keys with the metadata of their values, unordered.
    pub keys: Vec<(Box<[u8]>, Metadata)>,
    /// Where the listing continues; `None` at its end.
    pub next: Option<Cursor>,
}

impl Cursor {
    /// The start of every listing.
    pub const START: Cursor = Cursor(0);

    fn new(shard: usize, id: u32) -> Cursor {
        Cursor((shard as u64) << 32 | u64::from(id))
    }

    fn parts(self) -> (usize, u32) {
        ((self.0 >> 32) as usize, self.0 as u32)
    }
}

impl From<u64> for Cursor {
    fn from(number: u64) -> Cursor {
        Cursor(number)
    }
}

impl From<Cursor> for u64 {
    fn from(cursor: Cursor) -> u64 {
        cursor.0
    }
}

impl Store {
    /// Some keys that start with `prefix`, unordered. A key that exists from the first page to
    /// the last is listed exactly once, however often it is overwritten; one that is added or removed
    /// during the listing may or may not be listed.
    ///
    /// A page ends at `max_keys` keys, or before its keys exceed `max_bytes` bytes, but
    /// may always have one key, so that the listing makes progress. It also ends after a fixed amount of
    /// work, and may then have few keys or none.
    pub fn list(
        &self,
        prefix: &[u8],
        from: Cursor,
        max_keys: usize,
        max_bytes: usize,
        now: Timestamp,
    ) -> Page {
        let mut builder = PageBuilder { prefix, now, keys: Vec::new(), max_keys, max_bytes };
        let (mut shard, mut id) = from.parts();
        let mut locks = 0..MAX_LOCKS;
        while shard < self.shards.len() && locks.next().is_some() {
            match builder.fill(self.shards[shard].lock(), id) {
                Stop::End => (shard, id) = (shard + 1, 0),
                Stop::Pause(next) => id = next,
                Stop::Full(next) => {
                    return Page { keys: builder.keys, next: Some(Cursor::new(shard, next)) };
                }
            }
        }
        let next = (shard < self.shards.len()).then(|| Cursor::new(shard, id));
        Page { keys: builder.keys, next }
    }
}

/// A page that is being filled.
struct PageBuilder<'p> {
    prefix: &'p [u8],
    now: Timestamp,
    keys: Vec<(Box<[u8]>, Metadata)>,
    max_keys: usize,
    max_bytes: usize,
}

/// Why reading a shard stopped, and where it continues.
enum Stop {
    End,
    Pause(u32),
    Full(u32),
}

impl PageBuilder<'_> {
    /// Reads the entries of a shard from `first` on, at most as many as one lock may cover.
    fn fill(&mut self, shard: ShardGuard<'_>, first: u32) -> Stop {
        let pause = first.saturating_add(ENTRIES_PER_LOCK).min(shard.end());
        for id in first..pause {
            if let Some((key, metadata)) = shard.live_entry(id, self.now)
                && key.starts_with(self.prefix)
            {
                if !self.fits(key.len()) {
                    return Stop::Full(id);
                }
                self.max_bytes = self.max_bytes.saturating_sub(key.len());
                self.keys.push((key.into(), metadata));
            }
        }
        if pause < shard.end() { Stop::Pause(pause) } else { Stop::End }
    }

    fn fits(&self, bytes: usize) -> bool {
        self.keys.is_empty() || (self.keys.len() < self.max_keys && bytes <= self.max_bytes)
    }
}

/// Entries read before a lock is released.
const ENTRIES_PER_LOCK: u32 = 256;

/// Locks taken for one page.
const MAX_LOCKS: u32 = 64;
