//! Batches in flight, and their outcomes.

use std::sync::Arc;
use std::time::Duration;

use fabric::Slice;
use kv_proto::wire::{Answer, BatchHead, ControlBlock, Parts, Request, Status};

use crate::handle::{Handle, Handles};
use crate::outbox::Call;
use crate::receive_buffer::Lease;
use crate::token::Token;
use crate::value::{Facts, Value};

/// Batches in flight, by their tags.
#[derive(Default)]
pub(crate) struct PendingBatches {
    rows: Vec<Option<PendingBatch>>,
    free: Vec<u32>,
    /// The answers of one batch, as bytes and parsed.
    bytes: Vec<u8>,
    answers: Vec<Answer>,
    /// Emptied, to be used again.
    spare: Vec<Vec<Call>>,
    /// The store has answered that it is shutting down.
    closing: bool,
    /// Makes the handles of this connection.
    pub(crate) handles: Handles,
}

/// One batch: its message stays where it is until the answers are here, in case it must be sent again.
pub(crate) struct PendingBatch {
    lease: Arc<Lease>,
    message: usize,
    /// How many writes of the answer have come.
    parts: u32,
    /// The store answered that nothing of it was done: it may be sent to another one.
    pub(crate) undone: bool,
    pub(crate) calls: Vec<Call>,
}

/// What became of a request.
pub(crate) struct Answered {
    pub(crate) token: Token,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    /// The store has answered.
    Answer(Reply),
    /// A write whose store is gone.
    Unknown,
    /// A read whose store is gone: it may be asked again.
    Lost,
    /// It was never sent, because the receive buffer was full.
    Unsent,
}

/// A store's answer to one request.
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    /// The bytes behind it.
    pub(crate) value: Option<Value>,
    /// What it has opened at the store.
    pub(crate) handle: Option<Handle>,
}

impl PendingBatch {
    pub(crate) fn new(lease: Lease, message: usize, calls: Vec<Call>) -> Self {
        PendingBatch { lease: Arc::new(lease), message, parts: 0, undone: false, calls }
    }

    /// Where its message lies in the receive buffer, and how long it is.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.lease.offset(), self.message)
    }

    /// The message.
    pub(crate) fn message(&self) -> Slice {
        let begin = self.lease.offset();
        self.lease.receive_buffer().region().slice(begin..begin + self.message)
    }

    /// Its handles belong to a connection that is lost.
    fn detach_handles(&self) {
        let memory = self.lease.receive_buffer().memory();
        let begin = self.lease.offset() + BatchHead::LENGTH;
        let mut requests = vec![0; self.message - BatchHead::LENGTH];
        memory.read(begin, &mut requests);
        // What cannot be parsed is refused by the store as a whole.
        if Request::detach_handles(&mut requests).is_ok() {
            memory.write(begin, &requests);
        }
    }

    /// Where the answers begin in a lease with a message of this length.
    pub(crate) fn answers_after(message: usize) -> usize {
        message.next_multiple_of(CACHE_LINE) + ControlBlock::FLAG
    }

    /// Where the store's completion flag is, which it sets when they are placed.
    pub(crate) fn completion_flag(&self) -> usize {
        self.lease.offset() + self.message.next_multiple_of(CACHE_LINE)
    }

    /// Reads the answers, once all of them are here, and where the values behind them end.
    fn read(&self, bytes: &mut Vec<u8>, answers: &mut Vec<Answer>) -> Result<usize, &'static str> {
        let begins = Self::answers_after(self.message);
        bytes.resize(self.calls.len() * Answer::LENGTH, 0);
        // Copied before they are parsed: the store could write to them again.
        self.lease.receive_buffer().memory().read(self.lease.offset() + begins, bytes);
        answers.clear();
        let mut end = begins + bytes.len();
        for (call, bytes) in self.calls.iter().zip(bytes.chunks_exact(Answer::LENGTH)) {
            let answer = Answer::parse(bytes)?;
            if call.packed && !answer.in_place {
                end = self.behind(end, &answer)?;
            }
            answers.push(answer);
        }
        Ok(end)
    }

    /// Where a value ends that begins there.
    fn behind(&self, begin: usize, answer: &Answer) -> Result<usize, &'static str> {
        let length = usize::try_from(answer.written).map_err(|_| TOO_MUCH)?;
        begin.checked_add(length).filter(|end| *end <= self.lease.len()).ok_or(TOO_MUCH)
    }

    /// Fetches values that are read in place, to where they would have been written: behind the others.
    fn fetch(
        &self,
        answers: &[Answer],
        end: usize,
        read_in_place: &mut impl FnMut(u64, &Slice) -> bool,
    ) -> Result<(), NotReceived> {
        let mut at = end.next_multiple_of(CACHE_LINE);
        for (call, answer) in self.calls.iter().zip(answers).filter(|(_, answer)| answer.in_place) {
            if !call.packed {
                return Err(NotReceived::ProtocolError(
                    "it offers a value in place that was not asked for",
                ));
            }
            let next = self.behind(at, answer).map_err(NotReceived::ProtocolError)?;
            let begin = self.lease.offset();
            let into = self.lease.receive_buffer().region().slice(begin + at..begin + next);
            if !read_in_place(answer.handle, &into) {
                return Err(NotReceived::Revoked);
            }
            at = next.next_multiple_of(CACHE_LINE);
        }
        Ok(())
    }

    /// Gives out the answers and the values behind them.
    fn deliver(
        &self,
        answers: &[Answer],
        end: usize,
        handles: &Handles,
        give: &mut impl FnMut(Token, Outcome),
    ) {
        let mut written = Self::answers_after(self.message) + answers.len() * Answer::LENGTH;
        let mut in_place = end.next_multiple_of(CACHE_LINE);
        for (call, answer) in self.calls.iter().zip(answers) {
            let length = answer.written as usize;
            let value = call.packed.then(|| {
                let next = if answer.in_place { &mut in_place } else { &mut written };
                let offset = self.lease.offset() + *next;
                *next += length;
                if answer.in_place {
                    *next = next.next_multiple_of(CACHE_LINE);
                }
                Value::new(self.lease.clone(), offset, length, facts(answer))
            });
            // Of a value that is read in place this is its place in the pool, and of a listing a cursor.
            let opens = call.opens && !answer.in_place;
            let handle = if opens { handles.open(answer.handle) } else { None };
            give(call.token, Outcome::Answer(Reply { answer: *answer, value, handle }));
        }
    }
}

/// Why the answers of a batch could not be received.
pub(crate) enum NotReceived {
    ProtocolError(&'static str),
    /// The store released what it had pinned for us: the link has ended.
    Revoked,
}

/// What an answer contains about the value.
pub(crate) fn facts(answer: &Answer) -> Facts {
    Facts {
        length: answer.length,
        version: answer.version,
        expires_in: answer.expires_in.map(Duration::from_millis),
    }
}

impl PendingBatches {
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn next_tag(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.rows.len() as u32)
    }

    /// Under the tag that was next.
    pub(crate) fn insert(&mut self, tag: u32, batch: PendingBatch) {
        match self.free.pop() {
            Some(_) => self.rows[tag as usize] = Some(batch),
            None => self.rows.push(Some(batch)),
        }
    }

    /// A write of an answer has come.
    pub(crate) fn part(
        &mut self,
        number: u32,
        give: &mut impl FnMut(Token, Outcome),
    ) -> Result<(), NotReceived> {
        let wrong = || NotReceived::ProtocolError("immediate data that names no batch");
        let Parts { tag, count } = Parts::from_immediate(number).ok_or_else(wrong)?;
        let row = self.rows.get_mut(tag as usize).ok_or_else(wrong)?;
        let batch = row.as_mut().ok_or_else(wrong)?;
        batch.parts += 1;
        if batch.parts < count {
            return Ok(());
        }
        // Values are read in place where completion flags are set.
        self.finish(tag, &mut |_, _| false, give)
    }

    /// All of an answer has come. Values that are read in place are fetched by `read_in_place`: from that place of the store's pool,
    /// into that memory of ours.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        tag: u32,
        read_in_place: &mut impl FnMut(u64, &Slice) -> bool,
        give: &mut impl FnMut(Token, Outcome),
    ) -> Result<(), NotReceived> {
        let row = self.rows.get_mut(tag as usize);
        let row = row.ok_or(NotReceived::ProtocolError("immediate data that names no batch"))?;
        let Some(batch) = row else { return Ok(()) };
        let end =
            batch.read(&mut self.bytes, &mut self.answers).map_err(NotReceived::ProtocolError)?;
        if self.answers.iter().all(|answer| answer.status == Status::Closing) {
            (batch.undone, self.closing) = (true, true);
            return Ok(());
        }
        batch.fetch(&self.answers, end, read_in_place)?;
        batch.deliver(&self.answers, end, &self.handles, give);
        if let Some(PendingBatch { mut calls, .. }) = row.take() {
            calls.clear();
            self.spare.push(calls);
            self.free.push(tag);
        }
        Ok(())
    }

    /// Room for the calls of another batch.
    pub(crate) fn spare_calls(&mut self) -> Vec<Call> {
        self.spare.pop().unwrap_or_default()
    }

    /// Gives up the batches that `gives_up` selects.
    pub(crate) fn give_up(
        &mut self,
        gives_up: impl Fn(&PendingBatch) -> bool,
        answered: &mut Vec<Answered>,
    ) {
        for (tag, row) in self.rows.iter_mut().enumerate() {
            let Some(batch) = row.take_if(|batch| gives_up(batch)) else { continue };
            self.free.push(tag as u32);
            answered.extend(batch.calls.iter().map(|call| Answered {
                token: call.token,
                outcome: if call.writes { Outcome::Unknown } else { Outcome::Lost },
            }));
        }
    }

    /// Those that are left, as if nothing of their answers had come.
    pub(crate) fn begin_again(&mut self) -> impl Iterator<Item = &PendingBatch> {
        self.closing = false;
        self.rows.iter_mut().flatten().map(|batch| {
            (batch.parts, batch.undone) = (0, false);
            batch.detach_handles();
            &*batch
        })
    }

    /// Whether the store is shutting down.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether it is, and will answer nothing more of what it was asked.
    #[inline]
    pub(crate) fn is_left(&self) -> bool {
        self.closing && self.rows.iter().flatten().all(|batch| batch.undone)
    }
}

/// Values that are read in place begin at a cache line, as they do in the pool.
pub(crate) const CACHE_LINE: usize = 64;
const TOO_MUCH: &str = "it claims to have written more than there was room for";

#[cfg(test)]
mod tests {
    use kv_proto::wire::{Message, Place};

    use super::*;
    use crate::outbox::Outbox;
    use crate::receive_buffer::tests::receive_buffer;

    /// A batch with these requests, as if it had been sent.
    fn sent(requests: &[Request<'_>]) -> PendingBatches {
        let mut outbox = Outbox::default();
        requests.iter().for_each(|request| outbox.push(Token::NOBODY, request, None));
        let count = requests.len() as u16;
        let head = BatchHead { in_place: false, count, tag: 0, at: 0, capacity: 1 << 12 };
        let message = [&head.to_bytes()[..], &outbox.bytes].concat();
        let lease = receive_buffer(1 << 16).lease(1 << 13).unwrap();
        lease.receive_buffer().memory().write(lease.offset(), &message);
        let mut batches = PendingBatches::default();
        batches.insert(0, PendingBatch::new(lease, message.len(), outbox.empty(Vec::new())));
        batches
    }

    fn read(handle: u64) -> Request<'static> {
        Request::Read { handle, offset: 0, length: 9, place: Place::Inline, checksum: false }
    }

    /// On the next connection the same number may be another value: it would be read, or written to, by mistake.
    #[test]
    fn handles_of_a_lost_connection_are_not_sent_again() {
        let stat = Request::Stat { key: b"k" };
        let mut batches = sent(&[read(1), stat, Request::Close { handle: 1 }]);
        let messages: Vec<_> =
            batches.begin_again().map(|batch| batch.message().to_vec()).collect();
        let Ok(Message::Batch(batch)) = Message::parse(&messages[0]) else { panic!("a batch") };
        let again: Vec<_> = batch.map(Result::unwrap).collect();
        let none = Request::NO_HANDLE;
        assert_eq!(again, [read(none), stat, Request::Close { handle: none }]);
    }

    #[test]
    fn of_a_batch_that_is_given_up_writes_are_unknown_and_reads_are_lost() {
        let delete =
            Request::Delete { key: b"k", condition: kv_proto::Condition::Always, sequence: 1 };
        let (mut batches, mut answered) =
            (sent(&[Request::Stat { key: b"k" }, delete]), Vec::new());
        batches.give_up(|_| true, &mut answered);
        assert!(matches!(answered[0].outcome, Outcome::Lost));
        assert!(matches!(answered[1].outcome, Outcome::Unknown));
        assert!(batches.is_empty());
    }
}
