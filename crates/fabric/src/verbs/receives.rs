//! The receive side of a lane: its own queue, or one that all lanes of a domain share.
//!
//! Unsafe here: a request refers to memory of its receive, which stays in its slab until a
//! completion reports that the device has finished with it.
#![allow(unsafe_code, reason = "posts receives")]

use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdma_sys::Errno;
use rdma_sys::inline::{ibv_post_recv, ibv_post_srq_recv};
use rdma_sys::work::{ibv_recv_wr, ibv_sge};

use super::chain::Chain;
use super::config::Sizes;
use super::datagram::GRH_BYTES;
use super::domain::Pd;
use super::mr::lkey;
use super::qp::Qp;
use super::srq::Srq;
use crate::completion_sink::CompletionSink;
use crate::op::{Failure, Op};
use crate::registration::verbs::Mr;
use crate::slab::Slab;
use crate::unreleased::keep;

/// Set in the `wr_id` of receives: a failed completion has no valid opcode, only its `wr_id`.
const RECEIVE_BIT: u64 = 1 << 63;

/// The number of the receive that completed, if it was a receive.
#[inline]
pub(super) fn receive_number(wr_id: u64) -> Option<u32> {
    (wr_id & RECEIVE_BIT != 0).then_some(wr_id as u32)
}

pub(super) struct Receives {
    /// The domain whose keys the requests use.
    domain: u32,
    chain: Chain<ibv_recv_wr>,
    queue: Queue,
    depth: usize,
    /// Receives the global headers of datagrams.
    grh_buffer: Option<Arc<Mr>>,
}

enum Queue {
    Own(Slab<Op>),
    Shared(Arc<SharedReceives>),
}

/// A shared receive queue for all lanes of a domain, and its posted receives.
pub(super) struct SharedReceives {
    srq: Arc<Srq>,
    slab: Mutex<Slab<Op>>,
}

impl SharedReceives {
    pub(super) fn new(pd: Arc<Pd>, sizes: &Sizes) -> Result<Self, Errno> {
        let srq = Arc::new(Srq::new(pd, sizes)?);
        Ok(SharedReceives { srq, slab: Mutex::new(Slab::new()) })
    }

    pub(super) fn srq(&self) -> &Arc<Srq> {
        &self.srq
    }

    fn slab(&self) -> MutexGuard<'_, Slab<Op>> {
        self.slab.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedReceives {
    fn drop(&mut self) {
        if !Arc::get_mut(&mut self.srq).is_some_and(Srq::destroy) {
            // The device may still write into the posted receives.
            let receives: Vec<Op> = self.slab().take_all().collect();
            keep(receives);
        }
    }
}

impl Receives {
    pub(super) fn new(
        domain: u32,
        depth: u32,
        shared: Option<Arc<SharedReceives>>,
        grh_buffer: Option<Arc<Mr>>,
    ) -> Self {
        let queue = shared.map_or_else(|| Queue::Own(Slab::new()), Queue::Shared);
        Receives { domain, chain: Chain::new(), queue, depth: depth as usize, grh_buffer }
    }

    /// Whether receives of this lane are posted. Those of a shared queue belong to all lanes,
    /// and remain when this one ends.
    pub(super) fn in_flight(&self) -> bool {
        matches!(&self.queue, Queue::Own(slab) if slab.len() > 0)
    }

    /// Whether the queue is shared by all lanes.
    pub(super) fn are_shared(&self) -> bool {
        matches!(self.queue, Queue::Shared(_))
    }

    /// Takes a receive and creates its request; returns it if the queue is full. Other lanes may fill
    /// a shared queue concurrently, so the check and the insertion are one step.
    #[inline]
    pub(super) fn start(&mut self, op: Op) -> Option<Op> {
        let mut shared;
        let slab = match &mut self.queue {
            Queue::Own(slab) => slab,
            Queue::Shared(all) => {
                shared = all.slab();
                &mut *shared
            }
        };
        if slab.len() >= self.depth {
            return Some(op);
        }
        let sges = add_sges(&mut self.chain, self.domain, self.grh_buffer.as_deref(), &op);
        self.chain.push(request(slab.insert(op), sges));
        None
    }

    /// Posts the requests created so far. On an error the lane must end; the refused receives have then
    /// completed as failed.
    #[inline]
    pub(super) fn submit(&mut self, qp: &Qp, sink: &mut CompletionSink<'_>) -> Result<(), Failure> {
        let posted = match &self.queue {
            Queue::Own(_) => {
                let qp = qp.as_ptr();
                // SAFETY: the queue pair is alive; the chain linked the requests and is alive during the
                // call, and their memory is owned by the slab until they complete.
                self.chain.post(|first, bad| unsafe { ibv_post_recv(qp, first, bad) })
            }
            Queue::Shared(shared) => {
                let srq = shared.srq.as_ptr();
                // SAFETY: the shared queue is alive; the chain linked the requests and is alive during the call, and
                // their memory is owned by the shared slab until they complete.
                self.chain.post(|first, bad| unsafe { ibv_post_srq_recv(srq, first, bad) })
            }
        };
        if let Err(refused) = posted {
            let from = refused.from.unwrap_or(self.chain.requests().len());
            for at in from..self.chain.requests().len() {
                let number = self.chain.requests()[at].wr_id as u32;
                if let Some(op) = self.take(number) {
                    sink.add(op, Err(Failure::Local));
                }
            }
        }
        self.chain.clear();
        posted.map_err(|_| Failure::Local)
    }

    /// Creates the request of a receive again, to reuse it for another message.
    pub(super) fn repost(&mut self, number: u32) {
        let (chain, domain, grh_buffer) =
            (&mut self.chain, self.domain, self.grh_buffer.as_deref());
        let add = |op: &Op| add_sges(chain, domain, grh_buffer, op);
        let sges = match &self.queue {
            Queue::Own(slab) => slab.get(number).map(add),
            Queue::Shared(shared) => shared.slab().get(number).map(add),
        };
        if let Some(sges) = sges {
            self.chain.push(request(number, sges));
        }
    }

    /// Removes a receive that the device has finished with.
    #[inline]
    pub(super) fn take(&mut self, number: u32) -> Option<Op> {
        match &mut self.queue {
            Queue::Own(slab) => slab.remove(number),
            Queue::Shared(shared) => shared.slab().remove(number),
        }
    }

    /// The queue pair was destroyed: completes its receives as flushed.
    pub(super) fn abandon(&mut self, sink: &mut CompletionSink<'_>) {
        if let Queue::Own(slab) = &mut self.queue {
            for op in slab.take_all() {
                sink.add(op, Err(Failure::Flushed));
            }
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
    let mut count = 0;
    if let Some(grh_buffer) = grh_buffer {
        let addr = grh_buffer.memory().address().addr() as u64;
        chain.add_sge(ibv_sge { addr, length: GRH_BYTES, lkey: grh_buffer.lkey() });
        count += 1;
    }
    for slice in op.work.local().iter().filter(|slice| !slice.is_empty()) {
        let addr = slice.address().addr() as u64;
        // No message is longer.
        let length = u32::try_from(slice.len()).unwrap_or(MAX_RECEIVE_BYTES).min(MAX_RECEIVE_BYTES);
        chain.add_sge(ibv_sge { addr, length, lkey: lkey(slice, domain) });
        count += 1;
    }
    count
}

/// The specification's maximum message length, less one: some devices treat 2 GiB as 0.
const MAX_RECEIVE_BYTES: u32 = (1 << 31) - 1;

#[inline]
fn request(number: u32, sges: usize) -> ibv_recv_wr {
    let wr_id = RECEIVE_BIT | u64::from(number);
    ibv_recv_wr { wr_id, next: null_mut(), sg_list: null_mut(), num_sge: sges as i32 }
}
