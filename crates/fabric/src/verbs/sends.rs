//! The send side of a lane: operations in flight, in order, and their work requests.
//!
//! Work requests are numbered. Only the last of a batch is signalled, which saves most
//! completions: a completion of request n completes all up to n. Since the last is always signalled,
//! every request in flight is covered by a future completion, and the queue cannot get stuck.
//!
//! Unsafe here: a request refers to memory of its operation, which stays in `pending` until a
//! completion reports that the device has finished with it.
#![allow(unsafe_code, reason = "posts work requests")]

use std::collections::VecDeque;
use std::time::Instant;

use rdma_sys::consts::IBV_SEND_SIGNALED;
use rdma_sys::inline::ibv_post_send;
use rdma_sys::work::ibv_send_wr;

use super::chain::Chain;
use super::datagram::Datagram;
use super::outcome::send_failure;
use super::qp::Qp;
use super::request::{RequestLimits, request};
use crate::completion_sink::CompletionSink;
use crate::op::{Done, Failure, Op, Work};
use crate::splitter::Splitter;
use crate::stats::OPS_PER_LATENCY_SAMPLE;

pub(super) struct Sends {
    /// The oldest first.
    pending: VecDeque<Pending>,
    /// The rest of the newest operation, for which the queue had no space yet.
    remainder: Option<Splitter>,
    chain: Chain<ibv_send_wr>,
    /// The number of the next request.
    next: u64,
    /// All requests below this number have completed.
    retired: u64,
    /// All requests below this number complete with the last signalled one.
    signalled: u64,
    /// The number of operations started; some are timed.
    count: u64,
    limits: RequestLimits,
}

/// An operation in flight.
struct Pending {
    op: Op,
    /// The numbers of its requests: `first..end`. `end` is `UNKNOWN_END` until all are created.
    first: u64,
    end: u64,
    started: Option<Instant>,
    /// Its failure, while some of its requests are outstanding.
    failure: Option<Failure>,
}

const UNKNOWN_END: u64 = u64::MAX;

impl Sends {
    pub(super) fn new(limits: RequestLimits) -> Self {
        Sends {
            pending: VecDeque::new(),
            remainder: None,
            chain: Chain::new(),
            next: 0,
            retired: 0,
            signalled: 0,
            count: 0,
            limits,
        }
    }

    pub(super) fn in_flight(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether another operation can be started.
    #[inline]
    pub(super) fn has_space(&self) -> bool {
        self.remainder.is_none() && self.next - self.retired < u64::from(self.limits.depth)
    }

    /// Takes an operation and creates its requests, or as many as the queue has space for.
    #[inline]
    pub(super) fn start(&mut self, op: Op, datagram: Option<&Datagram>) {
        let started = self.count.is_multiple_of(OPS_PER_LATENCY_SAMPLE).then(Instant::now);
        self.count += 1;
        self.pending.push_back(Pending {
            op,
            first: self.next,
            end: UNKNOWN_END,
            started,
            failure: None,
        });
        self.remainder = Some(Splitter::default());
        self.resume(datagram);
    }

    /// Creates requests for the remainder of the newest operation, as far as the queue has space.
    #[inline]
    pub(super) fn resume(&mut self, datagram: Option<&Datagram>) {
        while let (Some(mut splitter), Some(newest)) = (self.remainder, self.pending.back_mut())
            && self.next - self.retired < u64::from(self.limits.depth)
        {
            let (request, range) =
                request(&mut self.chain, &self.limits, &mut splitter, &newest.op.work);
            self.remainder = (!range.last).then_some(splitter);
            if range.last {
                newest.end = self.next + 1;
            }
            self.push(request, datagram);
        }
    }

    #[inline]
    fn push(&mut self, mut request: ibv_send_wr, datagram: Option<&Datagram>) {
        request.wr_id = self.next;
        if let Some(datagram) = datagram {
            request.wr = datagram.target();
        }
        self.next += 1;
        // Also within a long batch, so that slots are freed before the whole batch completes.
        if self.next - self.signalled >= u64::from(self.limits.depth / 2) {
            self.signalled = self.next;
            request.send_flags |= IBV_SEND_SIGNALED;
        }
        self.chain.push(request);
    }

    /// Posts the requests created so far. On an error the lane must end; the refused operations have then
    /// completed as failed.
    #[inline]
    pub(super) fn submit(&mut self, qp: &Qp, sink: &mut CompletionSink<'_>) -> Result<(), Failure> {
        if let Some(last) = self.chain.last_mut() {
            last.send_flags |= IBV_SEND_SIGNALED;
            self.signalled = self.next;
        }
        // SAFETY: the queue pair is alive; the chain linked the requests and is alive during the call, and
        // their memory is owned by `pending` until they complete.
        let post = |first, bad| unsafe { ibv_post_send(qp.as_ptr(), first, bad) };
        let posted = self.chain.post(post);
        if let Err(refused) = posted
            && let Some(from) = refused.from
        {
            let created = self.chain.requests().len() as u64;
            self.discard_refused(self.next - created + from as u64, sink);
        }
        self.chain.clear();
        // If the driver does not report which it refused, all complete when the queue pair is flushed.
        posted.map_err(|_| Failure::Local)
    }

    /// The device did not accept requests from this number on.
    fn discard_refused(&mut self, refused: u64, sink: &mut CompletionSink<'_>) {
        self.next = refused;
        self.remainder = None;
        while self.pending.back().is_some_and(|pending| pending.first >= refused)
            && let Some(newest) = self.pending.pop_back()
        {
            sink.add(newest.op, Err(Failure::Local));
        }
        if let Some(partial) = self.pending.back_mut().filter(|pending| pending.end > refused) {
            (partial.end, partial.failure) = (refused, Some(Failure::Local));
        }
    }

    /// Completes this request and all before it; those before it have succeeded.
    #[inline]
    pub(super) fn complete(
        &mut self,
        number: u64,
        result: Result<(), Failure>,
        sink: &mut CompletionSink<'_>,
    ) {
        // A duplicate completion must not complete other requests.
        if !(self.retired..self.next).contains(&number) {
            return;
        }
        if let Err(failure) = result {
            let failed = self.pending.iter_mut().find(|pending| pending.end > number);
            if let Some(failed) = failed {
                failed.failure.get_or_insert(send_failure(&failed.op.work, failure));
            }
        }
        self.retired = number + 1;
        self.return_finished(sink);
    }

    #[inline]
    fn return_finished(&mut self, sink: &mut CompletionSink<'_>) {
        while self.pending.front().is_some_and(|pending| pending.end <= self.retired)
            && let Some(oldest) = self.pending.pop_front()
        {
            match oldest.failure {
                Some(failure) => sink.add(oldest.op, Err(failure)),
                None => {
                    if let Some(started) = oldest.started {
                        sink.stats.add_latency(started.elapsed());
                    }
                    let done = done(&oldest.op.work);
                    sink.add(oldest.op, Ok(done));
                }
            }
        }
    }

    /// The lane has ended: what was not posted yet will not be posted.
    pub(super) fn stop(&mut self, sink: &mut CompletionSink<'_>) {
        if self.remainder.take().is_some()
            && let Some(newest) = self.pending.back_mut()
        {
            newest.end = self.next;
            newest.failure.get_or_insert(Failure::Flushed);
        }
        self.return_finished(sink);
    }

    /// The queue pair was destroyed: completes all operations as failed.
    pub(super) fn abandon(&mut self, sink: &mut CompletionSink<'_>) {
        for pending in self.pending.drain(..) {
            sink.add(pending.op, Err(pending.failure.unwrap_or(Failure::Flushed)));
        }
        (self.remainder, self.retired) = (None, self.next);
    }
}

/// The result of a successful operation.
#[inline]
fn done(work: &Work) -> Done {
    match work {
        Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => {
            Done::Old(old.region().memory().load(old.offset()))
        }
        _ => Done::Placed,
    }
}

#[cfg(test)]
mod tests {
    use rdma_sys::consts::*;

    use super::*;
    use crate::memory::{Memory, Pages};
    use crate::op::Completion;
    use crate::region::{Region, Rights};
    use crate::registration::Registration;
    use crate::remote::{AccessMethod, Target, Window};

    use crate::stats::Stats;

    fn sends(depth: u32, max_message: u32) -> Sends {
        Sends::new(RequestLimits {
            domain: 1,
            depth,
            max_message,
            send_sge: 2,
            read_sge: 1,
            inline: 16,
        })
    }

    fn region() -> Region {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        Region::new(memory, Rights::ALL, Registration::Software)
    }

    fn target() -> Target {
        let access_method = AccessMethod::Verbs { address: 1000, key: 7 };
        Window::new(1, 4096, Rights::ALL, access_method).at(8)
    }

    fn write(op_id: u64, length: usize) -> Op {
        Op::write_imm(op_id, region().slice(..length), target(), 0x1234)
    }

    /// The operations that complete in `act`: id and failure.
    fn completions_of(act: impl FnOnce(&mut CompletionSink<'_>)) -> Vec<(u64, Option<Failure>)> {
        let mut done: Vec<Completion> = Vec::new();
        act(&mut CompletionSink { stats: &Stats::default(), done: &mut done });
        done.into_iter().map(|one| (one.op_id, one.outcome.err())).collect()
    }

    /// The requests created since the last call: opcode, remote address and flags.
    fn requests(sends: &mut Sends) -> Vec<(u32, u64, u32)> {
        let seen = sends.chain.requests().iter().map(|request| {
            // SAFETY: set by `rdma`.
            let remote = unsafe { request.wr.rdma.remote_addr };
            (request.opcode, remote, request.send_flags)
        });
        let seen = seen.collect();
        sends.chain.clear();
        seen
    }

    #[test]
    fn immediate_data_is_sent_with_the_last_work_request() {
        let mut sends = sends(8, 100);
        sends.start(write(1, 250), None);
        let plain = IBV_WR_RDMA_WRITE;
        let with_imm = IBV_WR_RDMA_WRITE_WITH_IMM;
        assert_eq!(requests(&mut sends), [(plain, 1008, 0), (plain, 1108, 0), (with_imm, 1208, 0)]);
        assert_eq!(
            completions_of(|sink| sends.complete(1, Ok(()), sink)),
            [],
            "one work request is outstanding"
        );
        assert_eq!(completions_of(|sink| sends.complete(2, Ok(()), sink)), [(1, None)]);
    }

    #[test]
    fn a_completion_completes_all_requests_before_it() {
        let mut sends = sends(8, 100);
        for op_id in 0..3 {
            sends.start(write(op_id, 10), None);
        }
        assert_eq!(completions_of(|sink| sends.complete(1, Ok(()), sink)), [(0, None), (1, None)]);
        assert_eq!(
            completions_of(|sink| sends.complete(1, Ok(()), sink)),
            [],
            "a duplicate completion"
        );
        assert_eq!(completions_of(|sink| sends.complete(9, Ok(()), sink)), [], "never posted");
        assert!(sends.in_flight());
    }

    #[test]
    fn requests_before_a_failure_succeed_and_later_ones_are_flushed() {
        let mut sends = sends(8, 100);
        for op_id in 0..4 {
            sends.start(write(op_id, if op_id == 1 { 200 } else { 10 }), None);
        }
        let access = Err(Failure::Access);
        // The first work request of operation 1 fails; the operation completes with its second.
        assert_eq!(completions_of(|sink| sends.complete(1, access, sink)), [(0, None)]);
        let flushed = Err(Failure::Flushed);
        let ended = completions_of(|sink| sends.complete(2, flushed, sink));
        assert_eq!(ended, [(1, Some(Failure::Access))]);
        let ended = completions_of(|sink| sends.abandon(sink));
        assert_eq!(ended, [(2, Some(Failure::Flushed)), (3, Some(Failure::Flushed))]);
    }

    #[test]
    fn an_operation_larger_than_the_queue_is_posted_in_several_steps() {
        let mut sends = sends(4, 10);
        sends.start(write(5, 95), None);
        assert!(!sends.has_space());
        let mut created = requests(&mut sends);
        let mut number = 0;
        while created.len() < 10 {
            assert_eq!(completions_of(|sink| sends.complete(number, Ok(()), sink)), []);
            number += 1;
            sends.resume(None);
            created.extend(requests(&mut sends));
        }
        assert_eq!(
            created.last().map(|last| (last.0, last.1)),
            Some((IBV_WR_RDMA_WRITE_WITH_IMM, 1098))
        );
        assert_eq!(completions_of(|sink| sends.complete(9, Ok(()), sink)), [(5, None)]);
        assert!(sends.has_space());
    }

    #[test]
    fn a_request_is_signalled_every_half_queue() {
        let mut sends = sends(8, 100);
        for op_id in 0..8 {
            sends.start(write(op_id, 100), None);
        }
        let signalled: Vec<bool> =
            requests(&mut sends).iter().map(|request| request.2 & IBV_SEND_SIGNALED != 0).collect();
        assert_eq!(signalled, [false, false, false, true, false, false, false, true]);
        assert!(!sends.has_space());
    }

    #[test]
    fn refused_operations_fail_and_a_partially_posted_one_waits_for_its_requests() {
        let mut sends = sends(8, 100);
        for op_id in 0..3 {
            sends.start(write(op_id, 200), None);
        }
        let refused = completions_of(|sink| sends.discard_refused(3, sink));
        assert_eq!(refused, [(2, Some(Failure::Local))]);
        let ended = completions_of(|sink| sends.complete(2, Err(Failure::Flushed), sink));
        assert_eq!(ended, [(0, None), (1, Some(Failure::Local))]);
    }

    #[test]
    fn a_stopped_lane_does_not_post_the_remainder() {
        let mut sends = sends(2, 10);
        sends.start(write(1, 100), None);
        assert_eq!(completions_of(|sink| sends.stop(sink)), [], "two work requests are posted");
        let ended = completions_of(|sink| sends.complete(1, Ok(()), sink));
        assert_eq!(ended, [(1, Some(Failure::Flushed))]);
    }

    #[test]
    fn small_writes_are_inline_but_reads_are_not() {
        let mut sends = sends(8, 100);
        sends.start(write(1, 16), None);
        sends.start(write(2, 17), None);
        sends.start(Op::read(3, region().slice(..4), target()), None);
        sends.start(write(4, 0), None);
        let inline = |request: &(u32, u64, u32)| request.2 & IBV_SEND_INLINE != 0;
        let inline: Vec<bool> = requests(&mut sends).iter().map(inline).collect();
        assert_eq!(inline, [true, false, false, false]);
    }
}
