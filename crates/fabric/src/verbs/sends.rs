//! The send side of a lane: operations in flight, in order, and the work requests they became.
//!
//! Work requests are numbered. Only the last of a batch is signalled, which saves the device most
//! completions: one with number n says that all up to n are over. Since the last is always signalled,
//! whatever is in flight is ended by a completion yet to come, and the queue cannot get stuck.
//!
//! Unsafe here: a request names memory of the operation it was made for, which stays in `flying` until a
//! completion says that the device is done with it.
#![allow(unsafe_code, reason = "posts work requests")]

use std::collections::VecDeque;
use std::time::Instant;

use rdma_sys::consts::IBV_SEND_SIGNALED;
use rdma_sys::inline::ibv_post_send;
use rdma_sys::work::ibv_send_wr;

use super::chain::Chain;
use super::datagram::Datagram;
use super::outcome::of_send;
use super::qp::Qp;
use super::request::{Shape, request};
use crate::cut::Cut;
use crate::op::{Done, Failure, Op, Work};
use crate::over::Over;
use crate::stats::SAMPLE;

pub(super) struct Sends {
    /// The oldest first.
    flying: VecDeque<Flying>,
    /// How far the youngest was cut, while the queue had no room for all of it.
    rest: Option<Cut>,
    chain: Chain<ibv_send_wr>,
    /// The number of the next request.
    next: u64,
    /// All below are over.
    retired: u64,
    /// All below are over when the last signalled one is.
    signalled: u64,
    /// Counts operations, to time some.
    taken: u64,
    shape: Shape,
}

/// An operation in flight.
struct Flying {
    op: Op,
    /// Its requests, from the first to before the end; the end is not known before all are made.
    first: u64,
    end: u64,
    begun: Option<Instant>,
    /// How it failed, while some of its requests are still to come back.
    verdict: Option<Failure>,
}

const UNKNOWN: u64 = u64::MAX;

impl Sends {
    pub(super) fn new(shape: Shape) -> Self {
        Sends {
            flying: VecDeque::new(),
            rest: None,
            chain: Chain::new(),
            next: 0,
            retired: 0,
            signalled: 0,
            taken: 0,
            shape,
        }
    }

    pub(super) fn in_flight(&self) -> bool {
        !self.flying.is_empty()
    }

    /// Whether another operation can be begun.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.rest.is_none() && self.next - self.retired < u64::from(self.shape.depth)
    }

    /// Takes an operation and makes its requests, or as many as there is room for.
    #[inline]
    pub(super) fn begin(&mut self, op: Op, datagram: Option<&Datagram>) {
        let begun = self.taken.is_multiple_of(SAMPLE).then(Instant::now);
        self.taken += 1;
        self.flying.push_back(Flying { op, first: self.next, end: UNKNOWN, begun, verdict: None });
        self.rest = Some(Cut::default());
        self.go_on(datagram);
    }

    /// Makes requests of what the queue had no room for.
    #[inline]
    pub(super) fn go_on(&mut self, datagram: Option<&Datagram>) {
        while let (Some(mut cut), Some(youngest)) = (self.rest, self.flying.back_mut())
            && self.next - self.retired < u64::from(self.shape.depth)
        {
            let (request, part) =
                request(&mut self.chain, &self.shape, &mut cut, &youngest.op.work);
            self.rest = (!part.last).then_some(cut);
            if part.last {
                youngest.end = self.next + 1;
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
        // In the midst of a long batch, so that its first half makes room before all of it is over.
        if self.next - self.signalled >= u64::from(self.shape.depth / 2) {
            self.signalled = self.next;
            request.send_flags |= IBV_SEND_SIGNALED;
        }
        self.chain.push(request);
    }

    /// Hands the requests made so far to the device. On an error the lane must end; what was refused is
    /// over then.
    #[inline]
    pub(super) fn ring(&mut self, qp: &Qp, over: &mut Over<'_>) -> Result<(), Failure> {
        if let Some(last) = self.chain.last_mut() {
            last.send_flags |= IBV_SEND_SIGNALED;
            self.signalled = self.next;
        }
        // SAFETY: the queue pair is alive; the chain linked the requests and lives during the call, and
        // the memory they name is held by `flying` until they are over.
        let post = |first, bad| unsafe { ibv_post_send(qp.as_ptr(), first, bad) };
        let posted = self.chain.post(post);
        if let Err(refused) = posted
            && let Some(from) = refused.from
        {
            let made = self.chain.requests().len() as u64;
            self.unpost(self.next - made + from as u64, over);
        }
        self.chain.clear();
        // Where the driver does not say what it refused, the end of the queue pair will tell.
        posted.map_err(|_| Failure::Local)
    }

    /// Requests from this number on were not taken by the device.
    fn unpost(&mut self, refused: u64, over: &mut Over<'_>) {
        self.next = refused;
        self.rest = None;
        while self.flying.back().is_some_and(|flying| flying.first >= refused)
            && let Some(youngest) = self.flying.pop_back()
        {
            over.add(youngest.op, Err(Failure::Local));
        }
        if let Some(torn) = self.flying.back_mut().filter(|flying| flying.end > refused) {
            (torn.end, torn.verdict) = (refused, Some(Failure::Local));
        }
    }

    /// A completion came: this request and all before it are over; those before it have succeeded.
    #[inline]
    pub(super) fn complete(
        &mut self,
        number: u64,
        verdict: Result<(), Failure>,
        over: &mut Over<'_>,
    ) {
        // A device that repeats itself must not end what is in flight.
        if !(self.retired..self.next).contains(&number) {
            return;
        }
        if let Err(failure) = verdict {
            let failed = self.flying.iter_mut().find(|flying| flying.end > number);
            if let Some(failed) = failed {
                failed.verdict.get_or_insert(of_send(&failed.op.work, failure));
            }
        }
        self.retired = number + 1;
        self.give_back(over);
    }

    #[inline]
    fn give_back(&mut self, over: &mut Over<'_>) {
        while self.flying.front().is_some_and(|flying| flying.end <= self.retired)
            && let Some(oldest) = self.flying.pop_front()
        {
            match oldest.verdict {
                Some(failure) => over.add(oldest.op, Err(failure)),
                None => {
                    if let Some(begun) = oldest.begun {
                        over.stats.time(begun.elapsed());
                    }
                    let done = done(&oldest.op.work);
                    over.add(oldest.op, Ok(done));
                }
            }
        }
    }

    /// The lane is dead: what is not with the device yet will not go there.
    pub(super) fn stop(&mut self, over: &mut Over<'_>) {
        if self.rest.take().is_some()
            && let Some(youngest) = self.flying.back_mut()
        {
            youngest.end = self.next;
            youngest.verdict.get_or_insert(Failure::Flushed);
        }
        self.give_back(over);
    }

    /// The queue pair is gone, and no completion will come.
    pub(super) fn abandon(&mut self, over: &mut Over<'_>) {
        for flying in self.flying.drain(..) {
            over.add(flying.op, Err(flying.verdict.unwrap_or(Failure::Flushed)));
        }
        (self.rest, self.retired) = (None, self.next);
    }
}

/// What a success means for this work.
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
    use crate::remote::{Reach, Target, Window};

    use crate::stats::Stats;

    fn sends(depth: u32, max_message: u32) -> Sends {
        Sends::new(Shape { domain: 1, depth, max_message, send_sge: 2, read_sge: 1, inline: 16 })
    }

    fn region() -> Region {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        Region::new(memory, Rights::ALL, Registration::Software)
    }

    fn target() -> Target {
        let reach = Reach::Verbs { address: 1000, key: 7 };
        Window::new(1, 4096, Rights::ALL, reach).at(8)
    }

    fn write(token: u64, length: usize) -> Op {
        Op::write_imm(token, region().slice(..length), target(), 0x1234)
    }

    /// What is over after `act`, by token and failure.
    fn over(act: impl FnOnce(&mut Over<'_>)) -> Vec<(u64, Option<Failure>)> {
        let mut done: Vec<Completion> = Vec::new();
        act(&mut Over { stats: &Stats::default(), done: &mut done });
        done.into_iter().map(|one| (one.token, one.outcome.err())).collect()
    }

    /// The requests made since the last time, as numbers the device would see.
    fn requests(sends: &mut Sends) -> Vec<(u32, u64, u32)> {
        let seen = sends.chain.requests().iter().map(|request| {
            // SAFETY: made by `rdma`.
            let remote = unsafe { request.wr.rdma.remote_addr };
            (request.opcode, remote, request.send_flags)
        });
        let seen = seen.collect();
        sends.chain.clear();
        seen
    }

    #[test]
    fn immediate_data_goes_with_the_last_part() {
        let mut sends = sends(8, 100);
        sends.begin(write(1, 250), None);
        let plain = IBV_WR_RDMA_WRITE;
        let with_imm = IBV_WR_RDMA_WRITE_WITH_IMM;
        assert_eq!(requests(&mut sends), [(plain, 1008, 0), (plain, 1108, 0), (with_imm, 1208, 0)]);
        assert_eq!(over(|over| sends.complete(1, Ok(()), over)), [], "a part is not all");
        assert_eq!(over(|over| sends.complete(2, Ok(()), over)), [(1, None)]);
    }

    #[test]
    fn one_completion_ends_all_before_it() {
        let mut sends = sends(8, 100);
        for token in 0..3 {
            sends.begin(write(token, 10), None);
        }
        assert_eq!(over(|over| sends.complete(1, Ok(()), over)), [(0, None), (1, None)]);
        assert_eq!(over(|over| sends.complete(1, Ok(()), over)), [], "a device repeats itself");
        assert_eq!(over(|over| sends.complete(9, Ok(()), over)), [], "never posted");
        assert!(sends.in_flight());
    }

    #[test]
    fn before_a_failure_is_success_and_after_it_flushes() {
        let mut sends = sends(8, 100);
        for token in 0..4 {
            sends.begin(write(token, if token == 1 { 200 } else { 10 }), None);
        }
        let access = Err(Failure::Access);
        // The first part of operation 1 fails; it comes back with its second.
        assert_eq!(over(|over| sends.complete(1, access, over)), [(0, None)]);
        let flushed = Err(Failure::Flushed);
        let ended = over(|over| sends.complete(2, flushed, over));
        assert_eq!(ended, [(1, Some(Failure::Access))]);
        let ended = over(|over| sends.abandon(over));
        assert_eq!(ended, [(2, Some(Failure::Flushed)), (3, Some(Failure::Flushed))]);
    }

    #[test]
    fn an_operation_larger_than_the_queue_goes_piece_by_piece() {
        let mut sends = sends(4, 10);
        sends.begin(write(5, 95), None);
        assert!(!sends.has_room());
        let mut made = requests(&mut sends);
        let mut number = 0;
        while made.len() < 10 {
            assert_eq!(over(|over| sends.complete(number, Ok(()), over)), []);
            number += 1;
            sends.go_on(None);
            made.extend(requests(&mut sends));
        }
        assert_eq!(
            made.last().map(|last| (last.0, last.1)),
            Some((IBV_WR_RDMA_WRITE_WITH_IMM, 1098))
        );
        assert_eq!(over(|over| sends.complete(9, Ok(()), over)), [(5, None)]);
        assert!(sends.has_room());
    }

    #[test]
    fn half_a_queue_is_never_unsignalled() {
        let mut sends = sends(8, 100);
        for token in 0..8 {
            sends.begin(write(token, 100), None);
        }
        let signalled: Vec<bool> =
            requests(&mut sends).iter().map(|request| request.2 & IBV_SEND_SIGNALED != 0).collect();
        assert_eq!(signalled, [false, false, false, true, false, false, false, true]);
        assert!(!sends.has_room());
    }

    #[test]
    fn what_the_driver_refused_is_over_and_what_it_tore_waits() {
        let mut sends = sends(8, 100);
        for token in 0..3 {
            sends.begin(write(token, 200), None);
        }
        let refused = over(|over| sends.unpost(3, over));
        assert_eq!(refused, [(2, Some(Failure::Local))]);
        let ended = over(|over| sends.complete(2, Err(Failure::Flushed), over));
        assert_eq!(ended, [(0, None), (1, Some(Failure::Local))]);
    }

    #[test]
    fn a_dead_lane_sends_no_rest() {
        let mut sends = sends(2, 10);
        sends.begin(write(1, 100), None);
        assert_eq!(over(|over| sends.stop(over)), [], "two parts are with the device");
        let ended = over(|over| sends.complete(1, Ok(()), over));
        assert_eq!(ended, [(1, Some(Failure::Flushed))]);
    }

    #[test]
    fn small_writes_are_inline_and_reads_never() {
        let mut sends = sends(8, 100);
        sends.begin(write(1, 16), None);
        sends.begin(write(2, 17), None);
        sends.begin(Op::read(3, region().slice(..4), target()), None);
        sends.begin(write(4, 0), None);
        let inline = |request: &(u32, u64, u32)| request.2 & IBV_SEND_INLINE != 0;
        let inline: Vec<bool> = requests(&mut sends).iter().map(inline).collect();
        assert_eq!(inline, [true, false, false, false]);
    }
}
