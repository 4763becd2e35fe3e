//! The receive side of a lane: its own queue, or one that all lanes of a port share.
//!
//! Unsafe here: a request refers to memory of its receive, which stays in its slab until a
//! completion reports that the device has finished with it.
#![allow(unsafe_code, reason = "posts receives")]

use std::ptr::null_mut;
use std::sync::Arc;

use rdma_sys::inline::ibv_post_recv;
use rdma_sys::work::{ibv_recv_wr, ibv_sge};

use super::chain::Chain;
use super::datagram::GRH_BYTES;
use super::mr::lkey;
use super::qp::Qp;
use super::srq_slots::LaneReceives;
use crate::completion_sink::CompletionSink;
use crate::op::{Done, Failure, Op, Work};
use crate::registration::verbs::Mr;
use crate::slab::Slab;

/// Set in the `wr_id` of receives: a failed completion has no valid opcode, only its `wr_id`.
const RECEIVE_BIT: u64 = 1 << 63;

/// The number of the receive that completed, if it was a receive.
#[inline]
pub(super) fn receive_number(wr_id: u64) -> Option<u32> {
    (wr_id & RECEIVE_BIT != 0).then_some(wr_id as u32)
}

/// What a completion says of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) length: usize,
    pub(super) imm: Option<u32>,
    /// A write with immediate data: its bytes are elsewhere.
    pub(super) is_write: bool,
}

impl Arrival {
    /// The number of bytes in the memory of the receive.
    #[inline]
    pub(super) fn bytes_in_slot(&self) -> usize {
        if self.is_write { 0 } else { self.length }
    }
}

pub(super) enum Receives {
    Own(OwnReceives),
    Shared(LaneReceives),
}

impl Receives {
    /// Whether receives of this lane are posted to the device.
    pub(super) fn in_flight(&self) -> bool {
        matches!(self, Receives::Own(own) if own.slab.len() > 0)
    }

    /// Whether the queue is shared by all lanes.
    pub(super) fn are_shared(&self) -> bool {
        matches!(self, Receives::Shared(_))
    }

    /// Takes a receive; returns it if the queue is full. On an error the lane must end.
    #[inline]
    pub(super) fn start(
        &mut self,
        op: Op,
        sink: &mut CompletionSink<'_>,
    ) -> Result<Option<Op>, Failure> {
        match self {
            Receives::Own(own) => Ok(own.start(op)),
            Receives::Shared(shared) => shared.start(op, sink),
        }
    }

    /// Posts the requests created so far. On an error the lane must end; refused receives have then completed as failed.
    #[inline]
    pub(super) fn submit(&mut self, qp: &Qp, sink: &mut CompletionSink<'_>) -> Result<(), Failure> {
        match self {
            Receives::Own(own) => own.submit(qp, sink),
            Receives::Shared(shared) => shared.submit(),
        }
    }

    /// The device has finished with a receive: a message arrived, or it failed. On an error the lane must end.
    #[inline]
    pub(super) fn complete(
        &mut self,
        number: u32,
        result: Result<Arrival, Failure>,
        sink: &mut CompletionSink<'_>,
    ) -> Result<(), Failure> {
        match (self, result) {
            (Receives::Own(own), result) => {
                if let Some(op) = own.slab.remove(number) {
                    let received = |Arrival { length, imm, .. }| Done::Received { length, imm };
                    sink.add(op, result.map(received));
                }
                Ok(())
            }
            (Receives::Shared(shared), Ok(arrival)) => shared.arrived(number, arrival, sink),
            (Receives::Shared(shared), Err(_)) => {
                shared.post_again(number);
                Ok(())
            }
        }
    }

    /// Uses a receive for another message.
    pub(super) fn repost(&mut self, number: u32) {
        match self {
            Receives::Own(own) => own.repost(number),
            Receives::Shared(shared) => shared.post_again(number),
        }
    }

    /// Whether this is a receive that may be posted after the lane has ended: messages that arrived before can wait for it.
    #[inline]
    pub(super) fn takes_after_end(&self, work: &Work) -> bool {
        self.are_shared() && matches!(work, Work::Receive { .. })
    }

    /// Whether receives wait that the device does not know.
    pub(super) fn are_waiting(&self) -> bool {
        matches!(self, Receives::Shared(shared) if shared.are_waiting())
    }

    /// The lane has ended, and no more messages arrive. The device has flushed what was posted to it.
    pub(super) fn flush(&mut self, sink: &mut CompletionSink<'_>) {
        if let Receives::Shared(shared) = self {
            shared.flush(sink);
        }
    }

    /// The queue pair was destroyed: completes its receives as flushed.
    pub(super) fn abandon(&mut self, sink: &mut CompletionSink<'_>) {
        if let Receives::Own(own) = self {
            own.slab.take_all().for_each(|op| sink.add(op, Err(Failure::Flushed)));
        }
    }
}

/// Receives in the queue pair's own queue.
pub(super) struct OwnReceives {
    /// The domain whose keys the requests use.
    domain: u32,
    chain: Chain<ibv_recv_wr>,
    slab: Slab<Op>,
    depth: usize,
    /// Receives the global headers of datagrams.
    grh_buffer: Option<Arc<Mr>>,
}

impl OwnReceives {
    pub(super) fn new(domain: u32, depth: u32, grh_buffer: Option<Arc<Mr>>) -> Self {
        let (chain, slab) = (Chain::new(), Slab::new());
        OwnReceives { domain, chain, slab, depth: depth as usize, grh_buffer }
    }

    #[inline]
    fn start(&mut self, op: Op) -> Option<Op> {
        if self.slab.len() >= self.depth {
            return Some(op);
        }
        let sges = add_sges(&mut self.chain, self.domain, self.grh_buffer.as_deref(), &op);
        self.chain.push(request(self.slab.insert(op), sges));
        None
    }

    #[inline]
    fn submit(&mut self, qp: &Qp, sink: &mut CompletionSink<'_>) -> Result<(), Failure> {
        let qp = qp.as_ptr();
        // SAFETY: the queue pair is alive; the chain linked the requests and is alive during the
        // call, and their memory is owned by the slab until they complete.
        let posted = self.chain.post(|first, bad| unsafe { ibv_post_recv(qp, first, bad) });
        if let Err(refused) = posted {
            let from = refused.from.unwrap_or(self.chain.requests().len());
            for request in &self.chain.requests()[from..] {
                if let Some(op) = self.slab.remove(request.wr_id as u32) {
                    sink.add(op, Err(Failure::Local));
                }
            }
        }
        self.chain.clear();
        posted.map_err(|_| Failure::Local)
    }

    fn repost(&mut self, number: u32) {
        let (chain, domain, grh_buffer) =
            (&mut self.chain, self.domain, self.grh_buffer.as_deref());
        if let Some(sges) = self.slab.get(number).map(|op| add_sges(chain, domain, grh_buffer, op))
        {
            self.chain.push(request(number, sges));
        }
    }
}

/// Adds the receive's scatter elements; returns their number.
#[inline]
fn add_sges(
    chain: &mut Chain<ibv_recv_wr>,
    domain: u32,
    grh_buffer: Option<&Mr>,
    op: &Op,
) -> usize {
    let mut count = add_grh(chain, grh_buffer);
    for slice in op.work.local().iter().filter(|slice| !slice.is_empty()) {
        let addr = slice.address().addr() as u64;
        // No message is longer.
        let length = u32::try_from(slice.len()).unwrap_or(MAX_RECEIVE_BYTES).min(MAX_RECEIVE_BYTES);
        chain.add_sge(ibv_sge { addr, length, lkey: lkey(slice, domain) });
        count += 1;
    }
    count
}

/// Adds the element for the global header of a datagram, if there is one; returns the number of elements.
#[inline]
pub(super) fn add_grh(chain: &mut Chain<ibv_recv_wr>, grh_buffer: Option<&Mr>) -> usize {
    let Some(grh_buffer) = grh_buffer else { return 0 };
    let addr = grh_buffer.memory().address().addr() as u64;
    chain.add_sge(ibv_sge { addr, length: GRH_BYTES, lkey: grh_buffer.lkey() });
    1
}

/// The specification's maximum message length, less one: some devices treat 2 GiB as 0.
const MAX_RECEIVE_BYTES: u32 = (1 << 31) - 1;

#[inline]
pub(super) fn request(number: u32, sges: usize) -> ibv_recv_wr {
    let wr_id = RECEIVE_BIT | u64::from(number);
    ibv_recv_wr { wr_id, next: null_mut(), sg_list: null_mut(), num_sge: sges as i32 }
}
