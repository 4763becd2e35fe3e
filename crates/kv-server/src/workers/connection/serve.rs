//! What requests ask for.

use std::sync::Arc;
use std::time::Instant;

use kv_proto::wire::{Answer, Batch, BatchHead, Entry, Place, Request, Status};
use kv_store::{Cursor, Facts, Key, Moment, Pinned, Ranges};

use super::Connection;
use super::client::{Client, reaches};
use super::draft::{Behind, Draft, Hold};
use super::durable::Submission;
use super::fetch::{Plan, Purpose, Terms};
use crate::engine::journal::{Loaded, WriteKind};
use crate::engine::session::Session;
use crate::engine::{Held, within};
use crate::workers::context::WorkerContext;
use crate::workers::send_buffers::LARGEST;

impl Connection {
    /// Answers a batch, at once or when everything for it is there.
    pub(super) fn serve(
        &mut self,
        batch: Batch<'_>,
        completion_flag: Option<u64>,
        mut found: Vec<Option<Loaded>>,
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        if !self.is_welcome() {
            return Ok(());
        }
        let Some(client) = self.peer.client_mut() else { return Ok(()) };
        let head = batch.head;
        if !reaches(client.receive_buffer(), head.at, head.room) {
            return Err("its answers have no place in its receive buffer");
        }
        if self.waiting.len() + self.replies.deferred() > usize::from(super::BATCHES) * 2 {
            return Err("it has more batches in flight than it may");
        }
        if context.closing && !goes_on(&batch, &client.session) {
            self.reject(head, completion_flag, context);
            return Ok(());
        }
        let in_place = head.in_place
            && completion_flag.is_some()
            && client.may_read_pool()
            && self.may_read_in_place(context);
        let Some(client) = self.peer.client_mut() else { return Ok(()) };
        let mut draft = context.drafts.pop().unwrap_or_else(Draft::new);
        draft.begin(head, completion_flag);
        draft.in_place = in_place;
        let now = context.engine.now();
        let (mut plans, mut submissions) = (Vec::new(), Vec::new());
        for request in batch {
            let served = request.and_then(|request| {
                let mut serving = Serving {
                    client,
                    context,
                    draft: &mut draft,
                    plans: &mut plans,
                    submissions: &mut submissions,
                    found: &mut found,
                    now,
                };
                serving.serve(request)
            });
            match served {
                Ok(answer) => draft.answers.push(answer),
                Err(why) => {
                    context.recycle(draft);
                    plans.drain(..).for_each(|plan| abandon(client, &plan));
                    let abandoned = submissions.into_iter();
                    abandoned.for_each(|write: Submission| client.session.undone(write.sequence));
                    return Err(why);
                }
            }
        }
        draft.missing = plans.len() + submissions.len();
        if draft.missing == 0 {
            self.reply(draft, context);
            return Ok(());
        }
        let row = self.waiting.insert(draft);
        plans.into_iter().for_each(|plan| self.fetch(row, plan, context));
        submissions.into_iter().for_each(|write| self.submit(row, write, context));
        Ok(())
    }
}

/// Whether a batch only goes on with what was begun before, or asks again for a write that was: to say that nothing was
/// done would have it done once more elsewhere.
fn goes_on(batch: &Batch<'_>, session: &Session) -> bool {
    let asks_again = |request: Result<Request<'_>, _>| {
        let sequence = request.ok().and_then(|request| request.sequence());
        sequence.is_some_and(|sequence| session.has(sequence))
    };
    let known = |request: Result<Request<'_>, _>| match request {
        Ok(Request::Get { .. } | Request::Put { .. } | Request::Begin { .. }) => false,
        Ok(Request::Delete { .. } | Request::Stat { .. } | Request::List { .. }) => false,
        Ok(Request::Read { .. } | Request::Close { .. }) => true,
        Ok(Request::Piece { .. } | Request::Commit { .. }) => true,
        // It is found out when it is served.
        Err(_) => true,
    };
    batch.clone().all(known) || batch.clone().any(asks_again)
}

impl Connection {
    /// Answers that nothing of a batch was done, nor will be: the store is shutting down.
    fn reject(
        &mut self,
        head: BatchHead,
        completion_flag: Option<u64>,
        context: &mut WorkerContext,
    ) {
        let mut draft = context.drafts.pop().unwrap_or_else(Draft::new);
        draft.begin(head, completion_flag);
        draft.answers.resize(head.count.into(), Answer::new(Status::Closing));
        crate::engine::add(&context.engine.counts.turned_away, 1);
        self.reply(draft, context);
    }
}

/// A write whose bytes will not be fetched after all may be asked for again.
fn abandon(client: &Client, plan: &Plan) {
    if let Purpose::Value(_, terms) = &plan.purpose {
        client.session.undone(terms.sequence);
    }
}

/// All that serving one request needs. What changes something is in `change.rs`.
pub(super) struct Serving<'s> {
    pub(super) client: &'s mut Client,
    pub(super) context: &'s mut WorkerContext,
    pub(super) draft: &'s mut Draft,
    pub(super) plans: &'s mut Vec<Plan>,
    pub(super) submissions: &'s mut Vec<Submission>,
    /// What was fetched from the disk for it, by request.
    found: &'s mut Vec<Option<Loaded>>,
    now: Moment,
}

impl Serving<'_> {
    fn serve(&mut self, request: Request<'_>) -> Result<Answer, &'static str> {
        if !self.draft.claim(request.packed()) {
            return Err("it asks for more than it has room for");
        }
        // With a disk it was checked before the disk was asked.
        let checked = match self.found.get(self.draft.answers.len()) {
            Some(Some(Loaded::Failed(status @ (Status::TooOften | Status::Denied)))) => {
                Err(*status)
            }
            Some(_) => Ok(()),
            None => self.client.check(&request),
        };
        if let Err(status) = checked {
            return Ok(Answer::new(status));
        }
        match request {
            Request::Get { key, offset, length, place, keep, checksum } => {
                let in_place = self.draft.in_place;
                let part = Part { offset, length, place, checksum, in_place };
                self.get(valid(key)?, part, keep)
            }
            Request::Read { handle, offset, length, place, checksum } => {
                self.read(handle, Part { offset, length, place, checksum, in_place: false })
            }
            Request::Close { handle } => {
                let known = self.client.handles.close(handle);
                Ok(Answer::new(if known { Status::Ok } else { Status::NoHandle }))
            }
            Request::Put { key, length, source, ttl, condition, sequence } => {
                valid(key)?;
                let key = key.into();
                self.put(length, source, Terms { key, ttl, condition, sequence })
            }
            Request::Begin { length } => Ok(self.begin(length)),
            Request::Piece { handle, offset, length, source } => {
                self.piece(handle, offset, length, source)
            }
            Request::Commit { handle, key, ttl, condition, sequence } => {
                valid(key)?;
                let key = key.into();
                Ok(self.commit(handle, &Terms { key, ttl, condition, sequence }))
            }
            Request::Delete { key, condition, sequence } => {
                let key = valid(key)?;
                if self.is_durable() {
                    let key = key.as_bytes().into();
                    return Ok(self.later(sequence, key, WriteKind::Delete, condition));
                }
                Ok(self.once(sequence, |this| this.context.engine.delete(key, condition, this.now)))
            }
            Request::Stat { key } => {
                let facts = self.context.engine.store.stat(valid(key)?, self.now);
                let facts = match (facts, self.fetched()) {
                    (Some(facts), _) | (None, Some(Loaded::Facts(Some(facts)))) => Some(facts),
                    (None, Some(Loaded::Failed(status))) => return Ok(Answer::new(status)),
                    _ => None,
                };
                Ok(facts.map_or(Answer::new(Status::NotFound), |facts| self.found(&facts)))
            }
            Request::List { prefix, cursor, length } => Ok(self.list(prefix, cursor, length)),
        }
    }

    #[inline]
    fn get(&mut self, key: Key<'_>, part: Part, keep: bool) -> Result<Answer, &'static str> {
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
        self.found.get_mut(self.draft.answers.len()).and_then(Option::take)
    }

    pub(super) fn is_durable(&self) -> bool {
        self.context.engine.journal().is_some()
    }

    fn read(&mut self, handle: u64, part: Part) -> Result<Answer, &'static str> {
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

    fn list(&mut self, prefix: &[u8], cursor: u64, length: u64) -> Answer {
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
struct Part {
    offset: u64,
    length: u64,
    place: Place,
    checksum: bool,
    /// Whether they may stay where they lie.
    in_place: bool,
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

fn valid(key: &[u8]) -> Result<Key<'_>, &'static str> {
    Key::new(key).map_err(|_| "a key has no bytes, or too many")
}

/// Values up to this size may be read in place. Longer ones are better copied by us while the client does something else.
const MAX_IN_PLACE: u64 = 64 << 10;
/// Values up to this size are copied into the answer: cheaper than a piece of their own.
const COPIED: usize = 1024;
/// The most pieces of the pool that answer one batch; who asked for more asks again.
const MAX_PIECES: usize = 32_768;
/// A listing has room for the longest key at least.
const MIN_LISTING: usize = 2 * (Key::MAX + Entry::OVERHEAD);

#[cfg(test)]
mod tests {
    use kv_proto::Condition;
    use kv_proto::wire::Message;

    use super::*;
    use crate::engine::session::{Sessions, Turn};

    #[test]
    fn a_store_that_ends_answers_for_what_it_has_done() {
        let (session, _) = Sessions::default().enter(None, "me").unwrap();
        let delete =
            |sequence| Request::Delete { key: b"k", condition: Condition::Always, sequence };
        let goes_on = |requests: &[Request<'_>]| {
            let count = requests.len() as u16;
            let head = BatchHead { in_place: false, count, tag: 1, at: 0, room: 4096 };
            let mut message = head.to_bytes().to_vec();
            requests.iter().for_each(|request| request.put(&mut message));
            let Ok(Message::Batch(batch)) = Message::parse(&message) else {
                panic!("a batch");
            };
            super::goes_on(&batch, &session)
        };
        assert_eq!(session.turn(5), Turn::Now);
        assert!(goes_on(&[delete(5)]), "it is being done");
        session.done(5, Answer::new(Status::Ok));
        assert!(goes_on(&[delete(5)]) && goes_on(&[delete(6), delete(5)]), "it was done");
        assert!(!goes_on(&[delete(6)]), "it is new");
        assert!(goes_on(&[Request::Close { handle: 1 }]));
        assert!(!goes_on(&[Request::Close { handle: 1 }, delete(6)]));
    }
}
