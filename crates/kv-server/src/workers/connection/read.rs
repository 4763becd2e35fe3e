//! Requests that read: values, what is known of them, and listings.

use std::sync::Arc;
use std::time::Instant;

use kv_proto::wire::{Answer, Entry, Status};
use kv_store::{Cursor, Facts, Key, Pinned};

use super::answer_handle::AnswerHandle;
use super::draft::Hold;
use super::placement::{Part, Placed};
use super::serving::Serving;
use crate::engine::journal::Loaded;
use crate::engine::{Engine, Held};
use crate::workers::send_buffers::LARGEST;

/// A value that stays where it is while it is read.
enum Found {
    /// It was in memory.
    Pinned(Pinned),
    /// It was loaded from the disk, and others may hold it too.
    Loaded(Arc<Held>),
}

impl Found {
    #[inline]
    fn value(&self) -> &Pinned {
        match self {
            Found::Pinned(pinned) => pinned,
            Found::Loaded(held) => held.value(),
        }
    }

    fn hold(self, engine: &Arc<Engine>) -> Arc<Held> {
        match self {
            Found::Pinned(pinned) => Arc::new(Held::new(engine.clone(), pinned)),
            Found::Loaded(held) => held,
        }
    }
}

impl Serving<'_> {
    #[inline]
    pub(super) fn get(&mut self, key: Key<'_>, mut part: Part, keep: bool) -> Answer {
        let found = match self.context.engine.store.pin(key, self.now) {
            Some(pinned) => Found::Pinned(pinned),
            None => match self.loaded_value() {
                Ok(held) => {
                    part.in_place = false;
                    Found::Loaded(held)
                }
                Err(status) => return Answer::new(status),
            },
        };
        let value = found.value();
        let (mut answer, length) = (self.describe(&value.facts), value.facts.length);
        let placed = self.place(value, &part, &mut answer);
        let more = part.offset.saturating_add(answer.written) < length;
        if keep && more && answer.status == Status::Ok {
            let held = found.hold(&self.context.engine);
            match self.client.handles.keep(held.clone(), Instant::now()) {
                Some(handle) => AnswerHandle::Cursor(handle).put(&mut answer),
                None => answer.status = Status::TooManyHandles,
            }
            self.draft.holds.push(Hold::Held(held));
            return answer;
        }
        match (found, placed) {
            (Found::Loaded(held), _) => self.draft.holds.push(Hold::Held(held)),
            (Found::Pinned(value), Placed::Copied) => self.context.engine.store.unpin(value.pin),
            (Found::Pinned(value), Placed::InPlace) => self.draft.in_place.pins.push(value.pin),
            (Found::Pinned(value), Placed::Written) => self.draft.holds.push(Hold::Pin(value.pin)),
        }
        answer
    }

    /// The value that was loaded from the disk, if it was asked.
    #[cold]
    fn loaded_value(&mut self) -> Result<Arc<Held>, Status> {
        match self.loaded() {
            Some(Loaded::Value(Some(held))) => Ok(held),
            Some(Loaded::Failed(status)) => Err(status),
            _ => Err(Status::NotFound),
        }
    }

    /// What was loaded for this request.
    fn loaded(&mut self) -> Option<Loaded> {
        let index = self.draft.answers.len();
        self.preloaded.as_mut().and_then(|preloaded| preloaded.take(index))
    }

    /// Reads on in a version that is kept under a cursor.
    pub(super) fn read(&mut self, handle: u64, part: &Part) -> Answer {
        let Some(held) = self.client.handles.cursor(handle, Instant::now()) else {
            return Answer::new(Status::NoHandle);
        };
        let mut answer = self.describe(&held.value().facts);
        AnswerHandle::Cursor(handle).put(&mut answer);
        self.place(held.value(), part, &mut answer);
        self.draft.holds.push(Hold::Held(held));
        answer
    }

    pub(super) fn stat(&mut self, key: Key<'_>) -> Answer {
        let facts = match self.context.engine.store.stat(key, self.now) {
            Some(facts) => Some(facts),
            None => match self.loaded() {
                Some(Loaded::Facts(facts)) => facts,
                Some(Loaded::Failed(status)) => return Answer::new(status),
                _ => None,
            },
        };
        facts.map_or(Answer::new(Status::NotFound), |facts| self.describe(&facts))
    }

    pub(super) fn list(&mut self, prefix: &[u8], cursor: u64, length: u64) -> Answer {
        let Some((keys, bytes)) = keys_wanted(length) else {
            return Answer { length: MIN_LISTING as u64, ..Answer::new(Status::TooLong) };
        };
        let (keys, next) = match self.loaded() {
            Some(Loaded::Keys(keys, next)) => (keys, next),
            Some(Loaded::Failed(status)) => return Answer::new(status),
            _ => {
                let from = Cursor::from(cursor);
                // What is beyond its scope was refused before.
                let prefix = self.client.narrow(prefix);
                let page = self.context.engine.store.list(prefix, from, keys, bytes, self.now);
                (page.keys, page.next.map_or(0, u64::from))
            }
        };
        let begun = self.draft.copied.len();
        for (key, facts) in &keys {
            let Answer { length, version, expires_in, .. } = self.describe(facts);
            Entry { key, length, version, expires_in }.put(&mut self.draft.copied);
        }
        let written = self.draft.copied.len() - begun;
        self.draft.put_copied(written);
        let (written, length) = (written as u64, keys.len() as u64);
        let mut answer = Answer { written, length, ..Answer::new(Status::Ok) };
        AnswerHandle::NextPage(next).put(&mut answer);
        answer
    }

    /// What is known of a value, as an answer.
    #[inline]
    fn describe(&self, facts: &Facts) -> Answer {
        let expires_in = facts.expires.map(|at| at.0.saturating_sub(self.now.0));
        let Facts { length, version, .. } = *facts;
        Answer { length, version, expires_in, ..Answer::new(Status::Ok) }
    }
}

/// How many keys a listing of this length may have, and how many bytes of them: half of it is for the keys, half
/// for what stands beside them.
pub(super) fn keys_wanted(length: u64) -> Option<(usize, usize)> {
    let room = (length as usize).min(LARGEST / 4);
    (room >= MIN_LISTING).then_some((room / 2 / Entry::OVERHEAD, room / 2))
}

/// A listing has room for the longest key at least.
const MIN_LISTING: usize = 2 * (Key::MAX_BYTES + Entry::OVERHEAD);
