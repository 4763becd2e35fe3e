//! The send side of a lane: operations in flight, in the order in which they were posted.
//!
//! A transfer completes when the provider reports it; a message or a request to the peer
//! when the peer reports it.

mod submit;

pub(super) use submit::MAX_COPIED_BYTES;

use std::collections::VecDeque;
use std::time::Instant;

use rdma_sys::Errno;

use super::endpoint::{Direction, Endpoint};
use super::fetches::Fetch;
use super::frame::{Frame, Progress};
use super::inbox::scatter;
use super::outgoing::{ContextUse, Outgoing};
use super::rendezvous::RendezvousBuffers;
use crate::completion_sink::CompletionSink;
use crate::memory::Memory;
use crate::op::{Done, Failure, Op, Work};
use crate::region::Slice;
use crate::remote::{AccessMethod, Target};
use crate::slab::Slab;
use crate::splitter::{Splitter, WorkRequestLimits};
use crate::stats::OPS_PER_LATENCY_SAMPLE;

pub(super) struct Sends {
    limits: LaneLimits,
    out: Outgoing,
    rendezvous: RendezvousBuffers,
    pending: Slab<Pending>,
    /// Not completely submitted yet, the oldest first.
    waiting: VecDeque<u32>,
    /// Placed writes whose immediate data is to be sent.
    placed: VecDeque<u32>,
    /// Messages that the peer has not received yet: id and operation, in the order of ids.
    announced: VecDeque<(u64, u32)>,
    /// Outstanding requests to the peer.
    requests: Vec<PeerRequest>,
    next_message: u64,
    next_request: u64,
    /// The number of frames sent that occupy a buffer, and of buffers that the peer has freed.
    sent: u64,
    freed: u64,
    /// The number of these frames that have arrived at the peer.
    arrived: u64,
    /// The number of operations started; some are timed.
    count: u64,
}

/// The limits of a lane's frames and transfers.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneLimits {
    /// The id of the domain.
    pub(super) domain: u32,
    /// The maximum bytes of one transfer, and of a frame's payload.
    pub(super) transfer: u32,
    pub(super) payload: u32,
    /// The maximum number of `iovec`s of either, including the header.
    pub(super) iov_limit: usize,
    /// The number of the peer's buffers.
    pub(super) buffers: u64,
    /// Whether the peer executes writes and reads on request, since the provider lacks memory protection; then
    /// all frames are copied, not only short ones.
    pub(super) emulates_rma: bool,
}

/// An operation in flight.
struct Pending {
    op: Op,
    splitter: Splitter,
    /// The number of ranges submitted to the provider, and of outstanding requests to the peer.
    ranges: u32,
    requests: u32,
    /// The number of frames sent when all its ranges were submitted; `None` before.
    submitted_at: Option<u64>,
    /// Whether the peer must still receive it, and its message id.
    needs_receive: bool,
    message: Option<u64>,
    /// Whether a write is placed, and only its immediate data remains.
    placed: bool,
    started: Option<Instant>,
}

/// Something that the peer must still do.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerWait {
    /// Does not change while the peer makes no progress.
    pub(super) progress: u64,
    /// The operation that waits for it.
    pub(super) at: Option<u32>,
}

/// A request to the peer: its operation, and the range of it that the reply is for.
#[derive(Debug, Clone, Copy)]
struct PeerRequest {
    id: u64,
    /// The number of frames sent, including this one.
    frame: u64,
    at: u32,
    offset: usize,
    length: usize,
}

/// The result of submitting an operation to the provider.
#[derive(PartialEq, Eq)]
enum Submission {
    Complete,
    Partial,
    /// The provider's queue or the peer's buffers are full.
    Blocked,
}

impl Sends {
    pub(super) fn new(limits: LaneLimits, out: Outgoing, rendezvous: RendezvousBuffers) -> Self {
        Sends {
            limits,
            out,
            rendezvous,
            pending: Slab::new(),
            waiting: VecDeque::new(),
            placed: VecDeque::new(),
            announced: VecDeque::new(),
            requests: Vec::new(),
            next_message: 0,
            next_request: 0,
            sent: 0,
            freed: 0,
            arrived: 0,
            count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn out(&self) -> &Outgoing {
        &self.out
    }

    /// The provider's progress, while it has something to do.
    pub(super) fn transfer_progress(&self) -> Option<u64> {
        let busy = !self.out.is_empty() || self.out.is_blocked();
        busy.then_some(self.out.activity())
    }

    /// The peer's progress with the oldest message, or else with its buffers, and with the oldest request. Progress with
    /// later ones does not count: frames lost with a broken connection are not reported.
    pub(super) fn peer_waits(&self) -> [Option<PeerWait>; 2] {
        let message = self.announced.front().map(|(id, at)| {
            let last =
                self.pending.get(*at).and_then(|pending| pending.submitted_at).unwrap_or(u64::MAX);
            PeerWait { progress: id + self.freed.min(last), at: Some(*at) }
        });
        let buffers = (!self.has_credit()).then_some(PeerWait { progress: !self.freed, at: None });
        let request = self.requests.first().map(|request| PeerWait {
            progress: request.id + self.freed.min(request.frame),
            at: Some(request.at),
        });
        [message.or(buffers), request]
    }

    /// Whether all frames sent have arrived in the peer's buffers.
    pub(super) fn all_arrived(&self) -> bool {
        self.arrived == self.sent
    }

    /// The oldest operation that waits for the peer, or else the oldest operation.
    pub(super) fn oldest(&self) -> Option<u32> {
        let announced = self.announced.front().map(|(_, at)| *at);
        let requested = self.requests.first().map(|request| request.at);
        let with_provider = || {
            self.out.find(|used| match used {
                ContextUse::Transfer { at, .. } | ContextUse::Frame(at) => Some(*at),
                ContextUse::Free | ContextUse::Fetch { .. } | ContextUse::Control => None,
            })
        };
        announced.or(requested).or_else(with_provider).or_else(|| self.waiting.front().copied())
    }

    /// Takes an operation, which the next [`Sends::push`] submits.
    #[inline]
    pub(super) fn start(&mut self, op: Op) {
        let started = self.count.is_multiple_of(OPS_PER_LATENCY_SAMPLE).then(Instant::now);
        self.count += 1;
        let pending = Pending {
            needs_receive: op.work.consumes_receive(),
            op,
            splitter: Splitter::default(),
            ranges: 0,
            requests: 0,
            submitted_at: None,
            message: None,
            placed: false,
            started,
        };
        self.waiting.push_back(self.pending.insert(pending));
    }

    /// Sends a frame that belongs to no operation and occupies no buffer; `false` if it cannot be sent now.
    pub(super) fn send_control(
        &mut self,
        frame: Frame,
        endpoint: &Endpoint,
    ) -> Result<bool, Errno> {
        self.out.send(frame, 0, ContextUse::Control, endpoint)
    }

    /// Like [`Sends::send_control`], with a payload, which must fit.
    pub(super) fn send_control_with(
        &mut self,
        frame: Frame,
        bytes: &Slice,
        endpoint: &Endpoint,
    ) -> Result<bool, Errno> {
        self.out.copy(0, bytes, 0, bytes.len());
        self.out.send(frame, bytes.len(), ContextUse::Control, endpoint)
    }

    /// The maximum bytes that a peer may request; `None` if it must use RMA instead.
    pub(super) fn max_reply_bytes(&self) -> Option<u64> {
        self.limits.emulates_rma.then_some(self.limits.payload.into())
    }

    /// Whether the peer has a buffer for another frame.
    #[inline]
    fn has_credit(&self) -> bool {
        self.sent - self.freed < self.limits.buffers
    }

    /// The provider has finished with a context; returns its use.
    #[inline]
    pub(super) fn complete(&mut self, context: usize) -> ContextUse {
        self.out.complete(context)
    }

    /// A range of an operation succeeded.
    #[inline]
    pub(super) fn succeed(&mut self, at: u32, sink: &mut CompletionSink<'_>) {
        let Some(pending) = self.pending.get_mut(at) else { return };
        pending.ranges -= 1;
        self.finish(at, sink);
    }

    /// Completes an operation if nothing is outstanding. If only immediate data remains, queues that.
    #[inline]
    fn finish(&mut self, at: u32, sink: &mut CompletionSink<'_>) {
        let Some(pending) = self.pending.get_mut(at) else { return };
        if pending.ranges > 0 || pending.requests > 0 || pending.submitted_at.is_none() {
            return;
        }
        if pending.needs_receive {
            if matches!(pending.op.work, Work::Write { .. }) && !pending.placed {
                pending.placed = true;
                self.placed.push_back(at);
            }
            return;
        }
        let Some(Pending { op, started, .. }) = self.pending.remove(at) else { return };
        if let Some(started) = started {
            sink.stats.add_latency(started.elapsed());
        }
        let done = match &op.work {
            Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => {
                Done::Old(old.region().memory().load(old.offset()))
            }
            _ => Done::Placed,
        };
        sink.add(op, Ok(done));
    }

    /// Sets the progress that the following frames report.
    #[inline]
    pub(super) fn set_progress(&mut self, progress: Progress) {
        self.out.set_progress(progress);
    }

    /// Handles the peer's progress report.
    #[inline]
    pub(super) fn peer_progress(
        &mut self,
        progress: Progress,
        sink: &mut CompletionSink<'_>,
    ) -> Result<(), Failure> {
        let Progress { arrived, freed, received } = progress;
        let possible = freed <= arrived && arrived <= self.sent && received <= self.next_message;
        if !possible {
            return Err(Failure::ProtocolError);
        }
        // Reports may arrive out of order.
        self.arrived = self.arrived.max(arrived);
        self.freed = self.freed.max(freed);
        while let Some((id, at)) = self.announced.front().copied()
            && id < received
        {
            // The peer cannot have received it before its last range was submitted.
            let pending = self.pending.get_mut(at).filter(|pending| pending.submitted_at.is_some());
            pending.ok_or(Failure::ProtocolError)?.needs_receive = false;
            self.announced.pop_front();
            self.rendezvous.free_message(id);
            self.finish(at, sink);
        }
        Ok(())
    }

    /// The peer has read a fragment of a long message. The report that it received the message may have arrived before.
    pub(super) fn fragment_read(&mut self, id: u64, offset: u64) -> Result<(), Failure> {
        self.rendezvous.free_fragment(id, offset);
        if id < self.next_message { Ok(()) } else { Err(Failure::ProtocolError) }
    }

    /// Reads a fragment of a message from the peer into its receive; returns the number of bytes submitted.
    #[inline]
    pub(super) fn fetch(
        &mut self,
        (at, fetch): (u32, &Fetch),
        into: &[Slice],
        endpoint: &Endpoint,
    ) -> Result<Option<usize>, Errno> {
        if self.out.is_full() {
            return Ok(None);
        }
        let most =
            WorkRequestLimits { bytes: self.limits.transfer, sges: self.limits.iov_limit - 1 };
        let next = fetch.next(into, most, self.limits.domain);
        let (gather, from) = next.ok_or(Errno(libc::EFAULT))?;
        let (bytes, used) = (gather.total(), |reads| ContextUse::Fetch { at, reads });
        let started = self.out.transfer(gather, from, Direction::Read, used, endpoint)?;
        Ok(started.then_some(bytes))
    }

    /// The peer replies to a request with a number. The error: the operation that it refuses, or `None` for a protocol error.
    pub(super) fn reply(
        &mut self,
        id: u64,
        old: Option<u64>,
        sink: &mut CompletionSink<'_>,
    ) -> Result<(), Option<u32>> {
        let PeerRequest { at, .. } = self.take_request(id).ok_or(None)?;
        let old = old.ok_or(Some(at))?;
        let pending = self.pending.get_mut(at).ok_or(None)?;
        match &pending.op.work {
            Work::FetchAdd { old: place, .. } | Work::CompareSwap { old: place, .. } => {
                place.region().memory().store(place.offset(), old);
            }
            Work::Write { .. } => {}
            _ => return Err(None),
        }
        pending.requests -= 1;
        self.finish(at, sink);
        Ok(())
    }

    /// The peer replies to a request with `length` bytes at `at`.
    pub(super) fn data(
        &mut self,
        id: u64,
        (memory, at): (&Memory, usize),
        length: u64,
        sink: &mut CompletionSink<'_>,
    ) -> Result<(), Failure> {
        let request = self.take_request(id).ok_or(Failure::ProtocolError)?;
        let pending = self.pending.get_mut(request.at).ok_or(Failure::ProtocolError)?;
        let Work::Read { into, .. } = &pending.op.work else { return Err(Failure::ProtocolError) };
        if request.length as u64 != length {
            return Err(Failure::ProtocolError);
        }
        scatter(into.as_slice(), request.offset, request.length, memory, at);
        pending.requests -= 1;
        self.finish(request.at, sink);
        Ok(())
    }

    fn take_request(&mut self, id: u64) -> Option<PeerRequest> {
        let index = self.requests.iter().position(|request| request.id == id)?;
        // Keeps the order, so that the oldest stays first.
        Some(self.requests.remove(index))
    }

    /// The operation of a message.
    pub(super) fn message(&self, id: u64) -> Option<u32> {
        self.announced.iter().find(|announced| announced.0 == id).map(|announced| announced.1)
    }

    /// The key that an operation uses.
    pub(super) fn key(&self, at: u32) -> Option<u64> {
        self.pending.get(at)?.op.work.target().and_then(key).map(|(key, _)| key)
    }

    /// The endpoint is closed: completes all operations, the one that caused it with its failure; returns whether it was found.
    pub(super) fn abandon(
        &mut self,
        fault: Option<(u32, Failure)>,
        sink: &mut CompletionSink<'_>,
    ) -> bool {
        let failed = fault.and_then(|(at, failure)| Some((self.pending.remove(at)?, failure)));
        let found = failed.is_some();
        if let Some((pending, failure)) = failed {
            sink.add(pending.op, Err(failure));
        }
        for pending in self.pending.take_all() {
            sink.add(pending.op, Err(Failure::Flushed));
        }
        self.waiting.clear();
        self.placed.clear();
        self.announced.clear();
        self.requests.clear();
        self.out.abandon();
        found
    }
}

/// The key and the offset in the peer's region.
fn key(target: &Target) -> Option<(u64, u64)> {
    match target.window.access_method() {
        AccessMethod::Ofi { key, .. } => Some((*key, target.offset)),
        _ => None,
    }
}

/// The maximum number of outstanding requests: replies use spare slots.
const MAX_REQUESTS: usize = 12;
