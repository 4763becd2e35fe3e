//! When entries expire.

use super::entries::{Entries, NONE};
use crate::Moment;

/// When entries expire, the earliest first: a binary heap whose entries know their place in it.
/// Only entries with an expiry are here, and only they pay for it.
#[derive(Debug)]
pub(crate) struct Alarms(Vec<(Moment, u32)>);

impl Alarms {
    pub(super) fn new() -> Alarms {
        Alarms(Vec::new())
    }

    /// When this entry expires.
    pub(super) fn of(&self, entries: &Entries, id: u32) -> Option<Moment> {
        match entries[id].alarm {
            NONE => None,
            at => Some(self.0[at as usize].0),
        }
    }

    /// Lets an entry expire then, or never.
    pub(super) fn set(&mut self, entries: &mut Entries, id: u32, when: Option<Moment>) {
        self.clear(entries, id);
        if let Some(when) = when {
            self.0.push((when, id));
            self.rise(entries, self.0.len() - 1);
        }
    }

    pub(super) fn clear(&mut self, entries: &mut Entries, id: u32) {
        let at = std::mem::replace(&mut entries[id].alarm, NONE);
        if at == NONE {
            return;
        }
        self.0.swap_remove(at as usize);
        if (at as usize) < self.0.len() {
            // The one that took its place may belong above or below; only one of these moves it.
            let at = self.rise(entries, at as usize);
            self.sink(entries, at);
        } else if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// The entry that expires first, and when.
    pub(super) fn first(&self) -> Option<(Moment, u32)> {
        self.0.first().copied()
    }

    pub(super) fn heap(&self) -> usize {
        self.0.capacity() * size_of::<(Moment, u32)>()
    }

    fn rise(&mut self, entries: &mut Entries, mut at: usize) -> usize {
        let moving = self.0[at];
        while at > 0 && moving < self.0[(at - 1) / 2] {
            self.settle(entries, at, self.0[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.settle(entries, at, moving);
        at
    }

    fn sink(&mut self, entries: &mut Entries, mut at: usize) {
        let moving = self.0[at];
        while let Some(least) =
            (2 * at + 1..self.0.len().min(2 * at + 3)).min_by_key(|n| self.0[*n])
            && self.0[least] < moving
        {
            self.settle(entries, at, self.0[least]);
            at = least;
        }
        self.settle(entries, at, moving);
    }

    fn settle(&mut self, entries: &mut Entries, at: usize, alarm: (Moment, u32)) {
        self.0[at] = alarm;
        entries[alarm.1].alarm = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::key::KeptKey;
    use crate::pool::Block;
    use crate::shard::entry::Entry;

    #[test]
    fn the_earliest_is_always_first() {
        let (mut alarms, mut entries) = (Alarms::new(), Entries::new());
        let key = || KeptKey::new(Key::new(b"key").unwrap());
        for version in 0..200 {
            entries.insert(Entry::new(key(), Block::Empty, version));
        }
        for round in 0..2000u32 {
            let (id, when) = (round * 7919 % 200, u64::from(round * 104_729 % 1000));
            alarms.set(&mut entries, id, (when % 3 > 0).then_some(Moment(when)));
            let all = (0..200).filter_map(|id| Some((alarms.of(&entries, id)?, id)));
            assert_eq!(alarms.first(), all.min());
        }
        (0..200).for_each(|id| alarms.clear(&mut entries, id));
        assert_eq!((alarms.first(), alarms.heap()), (None, 0));
    }
}
