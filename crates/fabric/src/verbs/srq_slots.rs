//! The shared receive queue of a port: messages for all its lanes arrive in its slots.
//!
//! The device takes the next slot for a message of any peer, and reports it to the lane of that peer's queue pair. The lane
//! copies the message out of the slot and posts the slot again, so that no lane keeps slots from the others.
//!
//! Unsafe here: requests refer to the slots, which are owned by the queue and freed after it.
#![allow(unsafe_code, reason = "posts receives to a shared queue")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdma_sys::Errno;
use rdma_sys::inline::ibv_post_srq_recv;
use rdma_sys::work::{ibv_recv_wr, ibv_sge};

use super::chain::{Chain, PostError};
use super::config::Sizes;
use super::domain::Pd;
use super::receives::{Arrival, add_grh, request};
use super::srq::Srq;
use crate::completion_sink::CompletionSink;
use crate::memory::Memory;
use crate::op::{Done, Failure, Op};
use crate::registration::verbs::Mr;
use crate::unreleased::leak_counted;

/// The queue, and the memory of its slots.
pub(super) struct SrqSlots {
    srq: Arc<Srq>,
    slots: Arc<Mr>,
    slot_bytes: u32,
    grh_buffer: Option<Arc<Mr>>,
    /// Slots that the device refused: any lane posts them again.
    refused: Mutex<Vec<u32>>,
    has_refused: AtomicBool,
}

impl SrqSlots {
    /// Creates the queue and posts all slots. `slots` is registered memory for as many as `sizes` has.
    pub(super) fn new(
        pd: Arc<Pd>,
        sizes: &Sizes,
        slots: Arc<Mr>,
        grh_buffer: Option<Arc<Mr>>,
    ) -> Result<Self, Errno> {
        let elements = 1 + u32::from(grh_buffer.is_some());
        let srq = Arc::new(Srq::new(pd, sizes.srq_slots, elements)?);
        let shared = SrqSlots {
            srq,
            slots,
            slot_bytes: sizes.slot_bytes,
            grh_buffer,
            refused: Mutex::default(),
            has_refused: AtomicBool::new(false),
        };
        let mut chain = Chain::new();
        (0..sizes.srq_slots).for_each(|slot| shared.add_request(&mut chain, slot));
        const EIO: i32 = 5;
        shared.post(&mut chain).map_err(|_| Errno(EIO))?;
        Ok(shared)
    }

    pub(super) fn srq(&self) -> &Arc<Srq> {
        &self.srq
    }

    /// The longest message that can be received.
    pub(super) fn slot_bytes(&self) -> u32 {
        self.slot_bytes
    }

    fn offset(&self, slot: u32) -> usize {
        slot as usize * self.slot_bytes as usize
    }

    #[inline]
    fn add_request(&self, chain: &mut Chain<ibv_recv_wr>, slot: u32) {
        let header = add_grh(chain, self.grh_buffer.as_deref());
        let addr = self.slots.memory().address().addr() + self.offset(slot);
        let (addr, length, lkey) = (addr as u64, self.slot_bytes, self.slots.lkey());
        chain.add_sge(ibv_sge { addr, length, lkey });
        chain.push(request(slot, header + 1));
    }

    #[inline]
    fn post(&self, chain: &mut Chain<ibv_recv_wr>) -> Result<(), PostError> {
        let srq = self.srq.as_ptr();
        // SAFETY: the queue is alive; the chain linked the requests and is alive during the call. Their memory is freed
        // after the queue, or never, see `Drop`.
        let posted = chain.post(|first, bad| unsafe { ibv_post_srq_recv(srq, first, bad) });
        if let Err(refused) = posted {
            let from = refused.from.unwrap_or(chain.requests().len());
            let slots = chain.requests()[from..].iter().map(|request| request.wr_id as u32);
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).extend(slots);
            self.has_refused.store(true, Ordering::Release);
        }
        chain.clear();
        posted
    }

    /// Adds requests for slots that the device refused before.
    #[cold]
    fn add_refused(&self, chain: &mut Chain<ibv_recv_wr>) {
        self.has_refused.store(false, Ordering::Release);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.drain(..).for_each(|slot| self.add_request(chain, slot));
    }
}

impl Drop for SrqSlots {
    fn drop(&mut self) {
        if !Arc::get_mut(&mut self.srq).is_some_and(Srq::destroy) {
            // The device may still write into the slots. The queue itself is counted when it is dropped.
            leak_counted((self.slots.clone(), self.grh_buffer.clone()));
        }
    }
}

/// The receives of one lane whose messages arrive in a shared queue.
pub(super) struct LaneReceives {
    shared: Arc<SrqSlots>,
    /// Slots to be posted again.
    chain: Chain<ibv_recv_wr>,
    /// Posted by the caller, in order; at most `depth`.
    receives: VecDeque<Op>,
    depth: usize,
    /// Messages that arrived while no receive was posted, copied; at most `max_unexpected`. Not empty only if `receives` is.
    unexpected: VecDeque<UnexpectedMessage>,
    max_unexpected: usize,
    /// Whether no more messages arrive.
    ended: bool,
    /// Whether a message was lost: no later one is delivered.
    has_gap: bool,
}

struct UnexpectedMessage {
    arrival: Arrival,
    bytes: Vec<u8>,
}

impl LaneReceives {
    pub(super) fn new(shared: Arc<SrqSlots>, depth: usize, max_unexpected: usize) -> Self {
        LaneReceives {
            shared,
            chain: Chain::new(),
            receives: VecDeque::new(),
            depth,
            unexpected: VecDeque::new(),
            max_unexpected,
            ended: false,
            has_gap: false,
        }
    }

    /// Takes a receive, which completes at once if a message waits for it; returns it if there are too many.
    pub(super) fn start(
        &mut self,
        op: Op,
        sink: &mut CompletionSink<'_>,
    ) -> Result<Option<Op>, Failure> {
        if let Some(UnexpectedMessage { arrival, bytes }) = self.unexpected.pop_front() {
            let fits = bytes.len() <= op.work.total();
            if fits {
                let mut rest = &bytes[..];
                for slice in op.work.local() {
                    let (part, after) = rest.split_at(rest.len().min(slice.len()));
                    slice.region().memory().write(slice.offset(), part);
                    rest = after;
                }
            }
            self.has_gap |= !fits;
            return complete(op, arrival, fits, sink).map(|()| None);
        }
        if self.ended {
            sink.add(op, Err(Failure::Flushed));
            return Ok(None);
        }
        if self.receives.len() >= self.depth {
            return Ok(Some(op));
        }
        self.receives.push_back(op);
        Ok(None)
    }

    /// A message has arrived in a slot: it completes the oldest receive, or waits for one.
    #[inline]
    pub(super) fn arrived(
        &mut self,
        slot: u32,
        arrival: Arrival,
        sink: &mut CompletionSink<'_>,
    ) -> Result<(), Failure> {
        if self.has_gap {
            self.post_again(slot);
            return Ok(());
        }
        let (from, at) = (self.shared.slots.memory(), self.shared.offset(slot));
        // A device never reports more than the slot has; the memory's bounds are not left to it.
        let length = arrival.bytes_in_slot().min(self.shared.slot_bytes as usize);
        let result = match self.receives.pop_front() {
            Some(op) => {
                let fits = length <= op.work.total();
                if fits {
                    copy(from, at, length, &op);
                }
                complete(op, arrival, fits, sink)
            }
            None if self.unexpected.len() < self.max_unexpected => {
                let mut bytes = vec![0; length];
                from.read(at, &mut bytes);
                self.unexpected.push_back(UnexpectedMessage { arrival, bytes });
                Ok(())
            }
            None => Err(Failure::NotReady),
        };
        self.has_gap = result.is_err();
        self.post_again(slot);
        result
    }

    /// The slot has no message for this lane.
    #[inline]
    pub(super) fn post_again(&mut self, slot: u32) {
        self.shared.add_request(&mut self.chain, slot);
    }

    /// Posts the slots that are free again. If the device refuses them, the lane must end.
    #[inline]
    pub(super) fn submit(&mut self) -> Result<(), Failure> {
        if self.shared.has_refused.load(Ordering::Relaxed) {
            self.shared.add_refused(&mut self.chain);
        }
        self.shared.post(&mut self.chain).map_err(|_| Failure::Local)
    }

    pub(super) fn are_waiting(&self) -> bool {
        !self.receives.is_empty()
    }

    /// No more messages arrive: receives complete as flushed. Unexpected messages can still be received.
    pub(super) fn flush(&mut self, sink: &mut CompletionSink<'_>) {
        self.ended = true;
        self.receives.drain(..).for_each(|op| sink.add(op, Err(Failure::Flushed)));
    }
}

/// Copies a message from a slot into the memory of a receive.
#[inline]
fn copy(from: &Memory, mut at: usize, mut length: usize, op: &Op) {
    for slice in op.work.local() {
        let part = length.min(slice.len());
        slice.region().memory().copy(slice.offset(), from, at, part);
        (at, length) = (at + part, length - part);
    }
}

#[inline]
fn complete(
    op: Op,
    arrival: Arrival,
    fits: bool,
    sink: &mut CompletionSink<'_>,
) -> Result<(), Failure> {
    let Arrival { length, imm, .. } = arrival;
    let result = if fits { Ok(()) } else { Err(Failure::TooLong) };
    sink.add(op, result.map(|()| Done::Received { length, imm }));
    result
}
