//! Counters of all lanes of an endpoint by transport, including closed lanes.

use std::sync::{Arc, Mutex, PoisonError};

use crate::lane::Lane;
use crate::link::protocol::control::Transport;
use crate::stats::Stats;

/// Counters that only grow, also when lanes are closed.
#[derive(Debug, Default)]
pub(in crate::link) struct LaneCounters {
    /// For each transport: lanes without an RDMA device, and lanes with one.
    transports: Mutex<[[TransportCounters; 2]; Transport::ALL.len()]>,
}

#[derive(Debug, Default)]
struct TransportCounters {
    /// The sum over closed lanes.
    closed: Stats,
    open: Vec<Arc<Stats>>,
}

impl LaneCounters {
    /// Adds a new lane.
    pub(in crate::link) fn add(&self, lane: &dyn Lane) {
        let caps = lane.caps();
        let at = Transport::ALL.iter().position(|transport| transport.name() == caps.transport);
        let mut transports = self.transports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = at.and_then(|at| transports.get_mut(at)) {
            let counters = &mut kind[usize::from(caps.rdma)];
            counters.merge_closed();
            counters.open.push(lane.stats().clone());
        }
    }

    /// The sum over all lanes of a transport.
    pub(in crate::link) fn sum(&self, transport: Transport) -> Stats {
        self.sum_where(|kind, _| kind == transport)
    }

    /// The sum over all lanes with RDMA devices, of any transport.
    pub(in crate::link) fn rdma(&self) -> Stats {
        self.sum_where(|_, rdma| rdma)
    }

    fn sum_where(&self, included: impl Fn(Transport, bool) -> bool) -> Stats {
        let sum = Stats::default();
        let mut transports = self.transports.lock().unwrap_or_else(PoisonError::into_inner);
        for (transport, kind) in Transport::ALL.into_iter().zip(transports.iter_mut()) {
            for (rdma, counters) in [false, true].into_iter().zip(kind) {
                if included(transport, rdma) {
                    counters.merge_closed();
                    sum.absorb(&counters.closed);
                    counters.open.iter().for_each(|open| sum.absorb(open));
                }
            }
        }
        sum
    }
}

impl TransportCounters {
    /// Moves counters of closed lanes, which have no other owner, into the sum.
    fn merge_closed(&mut self) {
        for stats in std::mem::take(&mut self.open) {
            match Arc::try_unwrap(stats) {
                Ok(last) => self.closed.absorb(&last),
                Err(stats) => self.open.push(stats),
            }
        }
    }
}
