//! The receive side of a lane: a queue of its own, or one that all lanes of a domain share.
//!
//! Unsafe here: a request names memory of the receive it was made for, which stays in its slab until a
//! completion says that the device is done with it.
#![allow(unsafe_code, reason = "posts receives")]

use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdma_sys::Errno;
use rdma_sys::inline::{ibv_post_recv, ibv_post_srq_recv};
use rdma_sys::work::{ibv_recv_wr, ibv_sge};

use super::chain::Chain;
use super::config::Sizes;
use super::datagram::HEADER;
use super::domain::Pd;
use super::mr::lkey;
use super::qp::Qp;
use super::srq::Srq;
use crate::op::{Failure, Op};
use crate::over::Over;
use crate::registration::verbs::Mr;
use crate::slab::Slab;

/// Marks the numbers of receives: the kind of a request that failed is known by its number only.
const RECEIVE: u64 = 1 << 63;

/// Which receive a completion is of, if it is of one.
#[inline]
pub(super) fn receive_number(wr_id: u64) -> Option<u32> {
    (wr_id & RECEIVE != 0).then_some(wr_id as u32)
}

pub(super) struct Receives {
    /// Whose keys the requests carry.
    domain: u32,
    chain: Chain<ibv_recv_wr>,
    queue: Queue,
    depth: usize,
    /// Where the headers of datagrams go.
    scrap: Option<Arc<Mr>>,
}

enum Queue {
    Own(Slab<Op>),
    Shared(Arc<SharedReceives>),
}

/// A queue of receives for all lanes of a domain, and what is in it.
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

impl Receives {
    pub(super) fn new(
        domain: u32,
        depth: u32,
        shared: Option<Arc<SharedReceives>>,
        scrap: Option<Arc<Mr>>,
    ) -> Self {
        let queue = shared.map_or_else(|| Queue::Own(Slab::new()), Queue::Shared);
        Receives { domain, chain: Chain::new(), queue, depth: depth as usize, scrap }
    }

    /// Whether receives of this lane are with the device. Those of a shared queue belong to all lanes,
    /// and outlive this one.
    pub(super) fn in_flight(&self) -> bool {
        matches!(&self.queue, Queue::Own(slab) if slab.len() > 0)
    }

    /// Whether they are in a queue that all lanes share.
    pub(super) fn are_shared(&self) -> bool {
        matches!(self.queue, Queue::Shared(_))
    }

    /// Takes a receive and makes its request; gives it back where the queue is full. Other lanes may fill
    /// a shared one at the same time, so looking and taking are one step.
    #[inline]
    pub(super) fn begin(&mut self, op: Op) -> Option<Op> {
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
        let pieces = add_pieces(&mut self.chain, self.domain, self.scrap.as_deref(), &op);
        self.chain.push(request(slab.insert(op), pieces));
        None
    }

    /// Hands the requests made so far to the device. On an error the lane must end; what was refused is
    /// over then.
    #[inline]
    pub(super) fn ring(&mut self, qp: &Qp, over: &mut Over<'_>) -> Result<(), Failure> {
        let posted = match &self.queue {
            Queue::Own(_) => {
                let qp = qp.as_ptr();
                // SAFETY: the queue pair is alive; the chain linked the requests and lives during the
                // call, and the memory they name is held by the slab until they are over.
                self.chain.post(|first, bad| unsafe { ibv_post_recv(qp, first, bad) })
            }
            Queue::Shared(shared) => {
                let srq = shared.srq.as_ptr();
                // SAFETY: as above, for the shared queue.
                self.chain.post(|first, bad| unsafe { ibv_post_srq_recv(srq, first, bad) })
            }
        };
        if let Err(refused) = posted {
            let from = refused.from.unwrap_or(self.chain.requests().len());
            for at in from..self.chain.requests().len() {
                let number = self.chain.requests()[at].wr_id as u32;
                if let Some(op) = self.take(number) {
                    over.add(op, Err(Failure::Local));
                }
            }
        }
        self.chain.clear();
        posted.map_err(|_| Failure::Local)
    }

    /// Makes the request of a receive that is still here again.
    pub(super) fn again(&mut self, number: u32) {
        let (chain, domain, scrap) = (&mut self.chain, self.domain, self.scrap.as_deref());
        let add = |op: &Op| add_pieces(chain, domain, scrap, op);
        let pieces = match &self.queue {
            Queue::Own(slab) => slab.get(number).map(add),
            Queue::Shared(shared) => shared.slab().get(number).map(add),
        };
        if let Some(pieces) = pieces {
            self.chain.push(request(number, pieces));
        }
    }

    /// A receive that the device is done with.
    #[inline]
    pub(super) fn take(&mut self, number: u32) -> Option<Op> {
        match &mut self.queue {
            Queue::Own(slab) => slab.remove(number),
            Queue::Shared(shared) => shared.slab().remove(number),
        }
    }

    /// The queue pair is gone, and no completion will come.
    pub(super) fn abandon(&mut self, over: &mut Over<'_>) {
        if let Queue::Own(slab) = &mut self.queue {
            for op in slab.take_all() {
                over.add(op, Err(Failure::Flushed));
            }
        }
    }
}

/// Says how many pieces it added.
#[inline]
fn add_pieces(chain: &mut Chain<ibv_recv_wr>, domain: u32, scrap: Option<&Mr>, op: &Op) -> usize {
    let mut count = 0;
    if let Some(scrap) = scrap {
        let addr = scrap.memory().address().addr() as u64;
        chain.add_piece(ibv_sge { addr, length: HEADER, lkey: scrap.lkey() });
        count += 1;
    }
    for slice in op.work.local().iter().filter(|slice| !slice.is_empty()) {
        let addr = slice.address().addr() as u64;
        // More than the longest message is of no use to it.
        let length = u32::try_from(slice.len()).unwrap_or(LONGEST).min(LONGEST);
        chain.add_piece(ibv_sge { addr, length, lkey: lkey(slice, domain) });
        count += 1;
    }
    count
}

/// The specification's longest message, less one: some devices take that one for none.
const LONGEST: u32 = (1 << 31) - 1;

#[inline]
fn request(number: u32, pieces: usize) -> ibv_recv_wr {
    let wr_id = RECEIVE | u64::from(number);
    ibv_recv_wr { wr_id, next: null_mut(), sg_list: null_mut(), num_sge: pieces as i32 }
}
