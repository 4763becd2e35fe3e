//! Listing keys, page by page.

use crate::shard_slot::ShardGuard;
use crate::{Facts, Moment, Store};

/// Where a list goes on. It may be sent to a caller as a number and come back as any number: one
/// that was made up skips keys, and nothing worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor(u64);

/// Some keys, and where the next are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Keys with what is known of their values, in no order.
    pub keys: Vec<(Box<[u8]>, Facts)>,
    /// Where the list goes on; `None` at its end.
    pub next: Option<Cursor>,
}

impl Cursor {
    /// Where every list begins.
    pub const START: Cursor = Cursor(0);

    fn new(slot: usize, id: u32) -> Cursor {
        Cursor((slot as u64) << 32 | u64::from(id))
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
    /// Some keys that begin with `prefix`, in no order. A key that exists from the first page to
    /// the last is listed exactly once, however often it is overwritten; one that comes or goes
    /// meanwhile may or may not be.
    ///
    /// A page ends at `max_keys` keys, or before the keys have more than `max_bytes` bytes; but
    /// one key it may always have, so that the list goes on. It also ends after so much work, and
    /// may then have few keys or none.
    pub fn list(
        &self,
        prefix: &[u8],
        from: Cursor,
        max_keys: usize,
        max_bytes: usize,
        now: Moment,
    ) -> Page {
        let mut draft = Draft { prefix, now, keys: Vec::new(), max_keys, max_bytes };
        let (mut slot, mut id) = from.parts();
        let mut visits = 0..VISITS;
        while slot < self.slots.len() && visits.next().is_some() {
            match draft.fill(self.slots[slot].enter(), id) {
                Stop::End => (slot, id) = (slot + 1, 0),
                Stop::Pause(next) => id = next,
                Stop::Full(next) => {
                    return Page { keys: draft.keys, next: Some(Cursor::new(slot, next)) };
                }
            }
        }
        let next = (slot < self.slots.len()).then(|| Cursor::new(slot, id));
        Page { keys: draft.keys, next }
    }
}

/// A page in the making.
struct Draft<'p> {
    prefix: &'p [u8],
    now: Moment,
    keys: Vec<(Box<[u8]>, Facts)>,
    max_keys: usize,
    max_bytes: usize,
}

/// Why no more was taken from a shard, and where it goes on.
enum Stop {
    End,
    Pause(u32),
    Full(u32),
}

impl Draft<'_> {
    /// Looks at the places of a shard from `first` on, and lets others have it now and then.
    fn fill(&mut self, shard: ShardGuard<'_>, first: u32) -> Stop {
        let pause = first.saturating_add(STRETCH).min(shard.end());
        for id in first..pause {
            if let Some((key, facts)) = shard.show(id, self.now)
                && key.starts_with(self.prefix)
            {
                if !self.has_room(key.len()) {
                    return Stop::Full(id);
                }
                self.max_bytes = self.max_bytes.saturating_sub(key.len());
                self.keys.push((key.into(), facts));
            }
        }
        if pause < shard.end() { Stop::Pause(pause) } else { Stop::End }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.keys.is_empty() || (self.keys.len() < self.max_keys && bytes <= self.max_bytes)
    }
}

/// Places looked at before a lock is let go.
const STRETCH: u32 = 256;

/// Locks taken for one page.
const VISITS: u32 = 64;
