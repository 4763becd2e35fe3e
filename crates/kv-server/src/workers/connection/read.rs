//! Requests that read: values, what is known of them, and listings.

use std::sync::Arc;
use std::time::Instant;

use kv_proto::wire::{Answer, Entry, Place, Status};
use kv_store::{Cursor, Facts, Key, Pinned, Ranges};

use super::draft::{Behind, Hold};
use super::serving::Serving;
use crate::engine::journal::Loaded;
use crate::engine::{Held, within};
use crate::workers::send_buffers::LARGEST;

impl Serving<'_> {
    #[inline]
    pub(super) fn get(
        &mut self,
        key: Key<'_>,
        part: Part,
        keep: bool,
    ) -> Result<Answer, &'static str> {
        let Some(pinned) = self.context.engine.store.pin(key, self.now) else {
            return self.get_fetched(part, keep);
        };
        let Pinned { pin, facts, ranges } = pinned;
        let mut answer = self.found(&facts);
        let written = match self.write(&ranges, facts.length, &part, &mut answer) {
            Ok(written) => written,
            Err(why) => {
                self.context.engine.store.unpin(pin);
                return Err(why);
            }
        };
        let more = part.offset.saturating_add(answer.written) < facts.length;
        if keep && more && answer.status == Status::Ok {
            let engine = self.context.engine.clone();
            let held = Arc::new(Held::new(engine, Pinned { pin, facts, ranges }));
            match self.client.handles.keep(held.clone(), Instant::now()) {
                Some(handle) => answer.handle = handle,
                None => answer.status = Status::TooManyHandles,
            }
            self.draft.holds.push(Hold::Cursor(held));
        } else if written == Written::Copied {
            self.context.engine.store.unpin(pin);
        } else if written == Written::ReadByClient {
            self.draft.pinned_reads.push(pin);
        } else {
            self.draft.holds.push(Hold::Pin(pin));
        }
        Ok(answer)
    }

    /// What the disk had, if it was asked.
    #[cold]
    fn get_fetched(&mut self, part: Part, keep: bool) -> Result<Answer, &'static str> {
        let held = match self.fetched() {
            Some(Loaded::Value(Some(held))) => held,
            Some(Loaded::Failed(status)) => return Ok(Answer::new(status)),
            _ => return Ok(Answer::new(Status::NotFound)),
        };
        let facts = held.value().facts;
        let part = Part { in_place: false, ..part };
        let mut answer = self.found(&facts);
        self.write(&held.value().ranges, facts.length, &part, &mut answer)?;
        let more = part.offset.saturating_add(answer.written) < facts.length;
        if keep && more && answer.status == Status::Ok {
            match self.client.handles.keep(held.clone(), Instant::now()) {
                Some(handle) => answer.handle = handle,
                None => answer.status = Status::TooManyHandles,
            }
        }
        self.draft.holds.push(Hold::Cursor(held));
        Ok(answer)
    }

    /// What was fetched for this request.
    fn fetched(&mut self) -> Option<Loaded> {
        let index = self.draft.answers.len();
        self.preloaded.as_mut().and_then(|preloaded| preloaded.take(index))
    }

    pub(super) fn stat(&mut self, key: Key<'_>) -> Answer {
        let facts = match self.context.engine.store.stat(key, self.now) {
            Some(facts) => Some(facts),
            None => match self.fetched() {
                Some(Loaded::Facts(facts)) => facts,
                Some(Loaded::Failed(status)) => return Answer::new(status),
                _ => None,
            },
        };
        facts.map_or(Answer::new(Status::NotFound), |facts| self.found(&facts))
    }

    pub(super) fn read(&mut self, handle: u64, part: Part) -> Result<Answer, &'static str> {
        let Some(held) = self.client.handles.cursor(handle, Instant::now()) else {
            return Ok(Answer::new(Status::NoHandle));
        };
        let value = held.value();
        let mut answer = Answer { handle, ..self.found(&value.facts) };
        self.write(&value.ranges, value.facts.length, &part, &mut answer)?;
        self.draft.holds.push(Hold::Cursor(held));
        Ok(answer)
    }

    /// A part of a pinned value becomes part of the answer.
    fn write(
        &mut self,
        ranges: &Ranges,
        total: u64,
        part: &Part,
        answer: &mut Answer,
    ) -> Result<Written, &'static str> {
        let wanted = part.length.min(total.saturating_sub(part.offset));
        let context = &mut *self.context;
        let draft = &mut *self.draft;
        let apart = matches!(part.place, Place::Apart { .. });
        let wanted = match apart || part.checksum {
            true => draft.allow(wanted, apart, part.checksum),
            false => wanted,
        };
        let copied = draft.answers.len() * Answer::LENGTH + draft.copied.len();
        let short = wanted as usize <= COPIED && copied + COPIED <= LARGEST / 2;
        let in_place = part.in_place
            && !short
            && wanted <= MAX_IN_PLACE
            && part.offset.saturating_add(wanted) == total;
        let whole = within(ranges, part.offset, wanted).next();
        let written = match part.place {
            Place::Packed if in_place && whole.is_some_and(|(_, length)| length == wanted) => {
                answer.handle = whole.map_or(0, |(at, _)| at);
                (answer.written, answer.in_place) = (wanted, true);
                draft.in_place_bytes += wanted;
                context.tally.zero_copy_reads += 1;
                Written::ReadByClient
            }
            Place::Packed if short => {
                let begun = draft.copied.len();
                draft.copied.resize(begun + wanted as usize, 0);
                context.engine.copy_out(ranges, part.offset, &mut draft.copied[begun..]);
                draft.put_copied(wanted as usize);
                answer.written = wanted;
                Written::Copied
            }
            Place::Packed => {
                let places = within(ranges, part.offset, wanted);
                for (at, length) in places.take(MAX_PIECES.saturating_sub(draft.pieces)) {
                    let slice = context.pool.slice(at as usize..(at + length) as usize);
                    draft.behind.push(Behind::Pool(slice));
                    draft.pieces += 1;
                    answer.written += length;
                }
                Written::InPlace
            }
            Place::Apart { region, at } => {
                let Some(window) = self.client.reach(region, at, wanted) else {
                    *answer = Answer::new(Status::NoRegion);
                    return Ok(Written::Copied);
                };
                let mut slices = context.spare.pop().unwrap_or_default();
                let places = within(ranges, part.offset, wanted);
                for (at, length) in places.take(MAX_PIECES.saturating_sub(draft.pieces)) {
                    slices.push(context.pool.slice(at as usize..(at + length) as usize));
                    draft.pieces += 1;
                    answer.written += length;
                }
                draft.apart.push((window.clone(), at, slices));
                Written::InPlace
            }
        };
        if part.checksum {
            answer.checksum = Some(context.engine.checksum(ranges, part.offset, answer.written));
        }
        context.tally.bytes_out += answer.written;
        Ok(written)
    }

    fn found(&self, facts: &Facts) -> Answer {
        let expires_in = facts.expires.map(|at| at.0.saturating_sub(self.now.0));
        let Facts { length, version, .. } = *facts;
        Answer { length, version, expires_in, ..Answer::new(Status::Ok) }
    }

    pub(super) fn list(&mut self, prefix: &[u8], cursor: u64, length: u64) -> Answer {
        let Some((keys, bytes)) = keys_wanted(length) else {
            return Answer { length: MIN_LISTING as u64, ..Answer::new(Status::TooLong) };
        };
        let (keys, next) = match self.fetched() {
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
            let expires_in = facts.expires.map(|at| at.0.saturating_sub(self.now.0));
            let Facts { length, version, .. } = *facts;
            Entry { key, length, version, expires_in }.put(&mut self.draft.copied);
        }
        let written = self.draft.copied.len() - begun;
        self.draft.put_copied(written);
        let length = keys.len() as u64;
        Answer { written: written as u64, length, handle: next, ..Answer::new(Status::Ok) }
    }
}

/// Which bytes of a value, and where they go.
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) place: Place,
    pub(super) checksum: bool,
    /// Whether they may stay where they lie.
    pub(super) in_place: bool,
}

/// Whether bytes were copied, or lie where they lie until they are written.
#[derive(PartialEq, Eq)]
enum Written {
    Copied,
    InPlace,
    /// The client reads them there.
    ReadByClient,
}

/// How many keys a listing of this length may have, and how many bytes of them: half of it is for the keys, half
/// for what stands beside them.
pub(super) fn keys_wanted(length: u64) -> Option<(usize, usize)> {
    let room = (length as usize).min(LARGEST / 4);
    (room >= MIN_LISTING).then_some((room / 2 / Entry::OVERHEAD, room / 2))
}

/// Values up to this size may be read in place. Longer ones are better copied by us while the client does something else.
const MAX_IN_PLACE: u64 = 64 << 10;
/// Values up to this size are copied into the answer: cheaper than a piece of their own.
const COPIED: usize = 1024;
/// The most pieces of the pool that answer one batch; who asked for more asks again.
const MAX_PIECES: usize = 32_768;
/// A listing has room for the longest key at least.
const MIN_LISTING: usize = 2 * (Key::MAX + Entry::OVERHEAD);
