//! Pending batches: sent, and not answered yet.

use fabric::Slice;
use kv_proto::wire::{Answer, BatchHead, ReplyImmediate, Request, SlotBlock, Status};

use crate::client_buffer::Lease;
use crate::handle::Handles;
use crate::next_batch::PendingRequest;
use crate::outcome::{Outcome, ReceivedAnswer, RequestOutcome};
use crate::request_id::RequestId;
use crate::value::Received;

/// Pending batches, by their tags.
#[derive(Default)]
pub(crate) struct PendingBatches {
    rows: Vec<Option<PendingBatch>>,
    free: Vec<u32>,
    /// The answers of one batch, as bytes and parsed.
    bytes: Vec<u8>,
    answers: Vec<Answer>,
    /// Empty, for reuse.
    spare: Vec<Vec<PendingRequest>>,
    /// The store has answered that it is shutting down.
    closing: bool,
    /// Creates the handles of this connection.
    pub(crate) handles: Handles,
}

/// A pending batch: its message is kept until the answers have arrived, in case it must be sent again.
pub(crate) struct PendingBatch {
    lease: Lease,
    message: usize,
    /// How many writes of the answer have arrived.
    writes_received: u32,
    /// The store answered that it is shutting down and did nothing of it: it may be sent to another store.
    pub(crate) refused: bool,
    pub(crate) requests: Vec<PendingRequest>,
}

impl PendingBatch {
    pub(crate) fn new(lease: Lease, message: usize, requests: Vec<PendingRequest>) -> Self {
        PendingBatch { lease, message, writes_received: 0, refused: false, requests }
    }

    /// Offset and length of its message in the client buffer.
    pub(crate) fn position(&self) -> (usize, usize) {
        (self.lease.offset(), self.message)
    }

    /// The message.
    pub(crate) fn message(&self) -> Slice {
        let begin = self.lease.offset();
        self.lease.client_buffer().region().slice(begin..begin + self.message)
    }

    /// Replaces the handles, which belong to a lost connection.
    fn detach_handles(&self) {
        let memory = self.lease.client_buffer().memory();
        let begin = self.lease.offset() + BatchHead::LENGTH;
        let mut requests = vec![0; self.message - BatchHead::LENGTH];
        memory.read(begin, &mut requests);
        // The store refuses the batch if it cannot be parsed.
        if Request::detach_handles(&mut requests).is_ok() {
            memory.write(begin, &requests);
        }
    }

    /// The offset of the answers in a lease with a message of this length.
    pub(crate) fn answers_after(message: usize) -> usize {
        message.next_multiple_of(CACHE_LINE) + SlotBlock::FLAG
    }

    /// The offset of the completion flag, which the store sets when the answers are written.
    pub(crate) fn completion_flag(&self) -> usize {
        self.lease.offset() + self.message.next_multiple_of(CACHE_LINE)
    }

    /// Reads the answers, once all have arrived; returns the end of the values after them.
    fn read(&self, bytes: &mut Vec<u8>, answers: &mut Vec<Answer>) -> Result<usize, &'static str> {
        let begins = Self::answers_after(self.message);
        bytes.resize(self.requests.len() * Answer::LENGTH, 0);
        // Copied before they are parsed: the store could write to them again.
        self.lease.client_buffer().memory().read(self.lease.offset() + begins, bytes);
        answers.clear();
        let mut end = begins + bytes.len();
        for (request, bytes) in self.requests.iter().zip(bytes.chunks_exact(Answer::LENGTH)) {
            let answer = Answer::parse(bytes)?;
            if request.is_inline && !answer.in_place {
                end = self.end_of_value(end, &answer)?;
            }
            answers.push(answer);
        }
        Ok(end)
    }

    /// The end of a value that begins at this offset.
    fn end_of_value(&self, begin: usize, answer: &Answer) -> Result<usize, &'static str> {
        let length = usize::try_from(answer.written).map_err(|_| TOO_LONG)?;
        begin.checked_add(length).filter(|end| *end <= self.lease.len()).ok_or(TOO_LONG)
    }

    /// Reads values in place and copies them to the lease, after the others.
    fn read_in_place_values(
        &self,
        answers: &[Answer],
        end: usize,
        read_in_place: &mut impl FnMut(u64, &Slice) -> bool,
    ) -> Result<(), NotReceived> {
        let mut at = end.next_multiple_of(CACHE_LINE);
        for (request, answer) in
            self.requests.iter().zip(answers).filter(|(_, answer)| answer.in_place)
        {
            if !request.is_inline {
                return Err(NotReceived::ProtocolError("unrequested value to read in place"));
            }
            let next = self.end_of_value(at, answer).map_err(NotReceived::ProtocolError)?;
            let begin = self.lease.offset();
            let into = self.lease.client_buffer().region().slice(begin + at..begin + next);
            if !read_in_place(answer.handle, &into) {
                return Err(NotReceived::Revoked);
            }
            at = next.next_multiple_of(CACHE_LINE);
        }
        Ok(())
    }

    /// Delivers the answers and their values.
    #[inline]
    fn deliver(
        self,
        answers: &[Answer],
        end: usize,
        handles: &Handles,
        complete: &mut impl FnMut(RequestId, Outcome),
    ) -> Vec<PendingRequest> {
        let PendingBatch { lease, message, requests, .. } = self;
        let begin = lease.offset();
        let mut written = Self::answers_after(message) + answers.len() * Answer::LENGTH;
        let mut in_place = end.next_multiple_of(CACHE_LINE);
        let mut leases = lease.share(requests.len());
        for (request, answer) in requests.iter().zip(answers) {
            let (lease, length) = (leases.next(), answer.written as usize);
            let bytes = lease.filter(|_| request.is_inline).map(|lease| {
                let next = if answer.in_place { &mut in_place } else { &mut written };
                let offset = begin + *next;
                *next += length;
                if answer.in_place {
                    *next = next.next_multiple_of(CACHE_LINE);
                }
                Received { lease, offset, length }
            });
            // For a value that is read in place, this is its offset in the pool, and for a listing a cursor.
            let opens_handle = request.opens_handle && !answer.in_place;
            let handle = if opens_handle { handles.open(answer.handle) } else { None };
            complete(
                request.request_id,
                Outcome::Answer(ReceivedAnswer { answer: *answer, bytes, handle }),
            );
        }
        requests
    }
}

/// Why the answers of a batch could not be received.
pub(crate) enum NotReceived {
    ProtocolError(&'static str),
    /// The store released the pinned values: the link has ended.
    Revoked,
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

    /// Inserts a batch under the tag from `next_tag`.
    pub(crate) fn insert(&mut self, tag: u32, batch: PendingBatch) {
        match self.free.pop() {
            Some(_) => self.rows[tag as usize] = Some(batch),
            None => self.rows.push(Some(batch)),
        }
    }

    /// A write of an answer has arrived.
    pub(crate) fn write_received(
        &mut self,
        number: u32,
        complete: &mut impl FnMut(RequestId, Outcome),
    ) -> Result<(), NotReceived> {
        let unknown = || NotReceived::ProtocolError("immediate data of an unknown batch");
        let ReplyImmediate { tag, count } =
            ReplyImmediate::from_immediate(number).ok_or_else(unknown)?;
        let row = self.rows.get_mut(tag as usize).ok_or_else(unknown)?;
        let batch = row.as_mut().ok_or_else(unknown)?;
        batch.writes_received += 1;
        if batch.writes_received < count {
            return Ok(());
        }
        // Values are read in place only for batches with a completion flag.
        self.finish(tag, &mut |_, _| false, complete)
    }

    /// All of an answer has arrived. `read_in_place` copies from an offset in the store's pool
    /// to our memory.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        tag: u32,
        read_in_place: &mut impl FnMut(u64, &Slice) -> bool,
        complete: &mut impl FnMut(RequestId, Outcome),
    ) -> Result<(), NotReceived> {
        let row = self.rows.get_mut(tag as usize);
        let row = row.ok_or(NotReceived::ProtocolError("immediate data of an unknown batch"))?;
        let Some(batch) = row else { return Ok(()) };
        let end =
            batch.read(&mut self.bytes, &mut self.answers).map_err(NotReceived::ProtocolError)?;
        if self.answers.iter().all(|answer| answer.status == Status::Closing) {
            (batch.refused, self.closing) = (true, true);
            return Ok(());
        }
        batch.read_in_place_values(&self.answers, end, read_in_place)?;
        if let Some(batch) = row.take() {
            let mut requests = batch.deliver(&self.answers, end, &self.handles, complete);
            requests.clear();
            self.spare.push(requests);
            self.free.push(tag);
        }
        Ok(())
    }

    /// An empty list for the requests of another batch.
    pub(crate) fn spare_requests(&mut self) -> Vec<PendingRequest> {
        self.spare.pop().unwrap_or_default()
    }

    /// Discards the batches that `selected` selects, with an outcome for each request.
    pub(crate) fn give_up(
        &mut self,
        selected: impl Fn(&PendingBatch) -> bool,
        outcomes: &mut Vec<RequestOutcome>,
    ) {
        for (tag, row) in self.rows.iter_mut().enumerate() {
            let Some(batch) = row.take_if(|batch| selected(batch)) else { continue };
            self.free.push(tag as u32);
            outcomes.extend(batch.requests.iter().map(|request| RequestOutcome {
                request_id: request.request_id,
                outcome: if request.writes { Outcome::Unknown } else { Outcome::Lost },
            }));
        }
    }

    /// The remaining batches, reset to be sent again.
    pub(crate) fn resend(&mut self) -> impl Iterator<Item = &PendingBatch> {
        self.closing = false;
        self.rows.iter_mut().flatten().map(|batch| {
            (batch.writes_received, batch.refused) = (0, false);
            batch.detach_handles();
            &*batch
        })
    }

    /// Whether the store is shutting down.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether the store is shutting down and will answer no more batches.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.closing && self.rows.iter().flatten().all(|batch| batch.refused)
    }
}

/// Values that are read in place begin at a cache line, as they do in the pool.
pub(crate) const CACHE_LINE: usize = 64;
const TOO_LONG: &str = "it reports more bytes than fit into the client buffer";

#[cfg(test)]
mod tests {
    use kv_proto::wire::{Destination, Message};

    use super::*;
    use crate::client_buffer::tests::client_buffer;
    use crate::next_batch::NextBatch;

    /// A batch with these requests, as if it had been sent.
    fn sent(requests: &[Request<'_>]) -> PendingBatches {
        let mut next_batch = NextBatch::default();
        requests.iter().for_each(|request| next_batch.push(RequestId::NONE, request, None));
        let count = requests.len() as u16;
        let head = BatchHead { in_place: false, count, tag: 0, at: 0, capacity: 1 << 12 };
        let message = [&head.to_bytes()[..], &next_batch.bytes].concat();
        let lease = client_buffer(1 << 16).lease(1 << 13).unwrap();
        lease.client_buffer().memory().write(lease.offset(), &message);
        let mut batches = PendingBatches::default();
        batches.insert(0, PendingBatch::new(lease, message.len(), next_batch.empty(Vec::new())));
        batches
    }

    fn read(handle: u64) -> Request<'static> {
        Request::Read {
            handle,
            offset: 0,
            length: 9,
            destination: Destination::Inline,
            checksum: false,
        }
    }

    /// On the next connection the same number may be another value: it would be read, or written to, by mistake.
    #[test]
    fn handles_of_a_lost_connection_are_not_sent_again() {
        let stat = Request::Stat { key: b"k" };
        let mut batches = sent(&[read(1), stat, Request::Close { handle: 1 }]);
        let messages: Vec<_> = batches.resend().map(|batch| batch.message().to_vec()).collect();
        let Ok(Message::Batch(batch)) = Message::parse(&messages[0]) else { panic!("a batch") };
        let again: Vec<_> = batch.map(Result::unwrap).collect();
        let none = Request::NO_HANDLE;
        assert_eq!(again, [read(none), stat, Request::Close { handle: none }]);
    }

    #[test]
    fn discarded_writes_are_unknown_and_discarded_reads_are_lost() {
        let delete =
            Request::Delete { key: b"k", condition: kv_proto::Condition::Always, sequence: 1 };
        let (mut batches, mut outcomes) =
            (sent(&[Request::Stat { key: b"k" }, delete]), Vec::new());
        batches.give_up(|_| true, &mut outcomes);
        assert!(matches!(outcomes[0].outcome, Outcome::Lost));
        assert!(matches!(outcomes[1].outcome, Outcome::Unknown));
        assert!(batches.is_empty());
    }
}
