//! A lane over one endpoint: the hot path. `unconnected_lane.rs` sets it up.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use super::core::{LaneEnd, OfiCore};
use super::deferred_close::{DeferredClose, EndpointResources};
use super::domain::Shared;
use super::endpoint::Endpoint;
use super::mr::{is_registered, registration};
use super::peer_process::PeerProcess;
use super::usable_provider::is_rdma;
use super::wait_fd::WaitFd;
use crate::completion_sink::CompletionSink;
use crate::error::{Error, ErrorKind};
use crate::lane::{Caps, Lane, PrivateMemoryPath, next_lane_id};
use crate::op::{Completion, Failure, Op, Work};
use crate::region::{Region, Rights};
use crate::remote::{AccessMethod, LaneKind, RemoteRegion, Window};
use crate::stats::Stats;

pub(super) struct OfiLane {
    id: u64,
    caps: Caps,
    /// `None` once the lane has ended: then the peer can no longer access our memory. Dropped before the resources it uses.
    endpoint: Option<Endpoint>,
    core: OfiCore,
    wait_fd: WaitFd,
    peer_process: Option<PeerProcess>,
    /// Closes the endpoint together with the peer's, if it cannot be closed before.
    deferred_close: Option<DeferredClose>,
    polls: u32,
    shared: Arc<Shared>,
}

impl OfiLane {
    pub(super) fn new(
        shared: Arc<Shared>,
        endpoint: Endpoint,
        core: OfiCore,
        wait_fd: WaitFd,
        peer_process: Option<PeerProcess>,
        deferred_close: Option<DeferredClose>,
        max_message: usize,
    ) -> Self {
        let rdma = is_rdma(&shared.fid_domain.facts().provider);
        let caps = Caps { max_message, wakes_by_timer: wait_fd.wakes_by_timer(), rdma, ..CAPS };
        let endpoint = Some(endpoint);
        OfiLane {
            id: next_lane_id(),
            caps,
            endpoint,
            core,
            wait_fd,
            peer_process,
            deferred_close,
            polls: 0,
            shared,
        }
    }

    /// Takes one operation; `false` if there is none, or the queue is full.
    #[inline]
    fn take_next(&mut self, ops: &mut VecDeque<Op>) -> bool {
        let Some(op) = ops.pop_front() else { return false };
        let Some(op) = self.start(op) else { return true };
        ops.push_front(op);
        false
    }

    /// Starts an operation or refuses it; returns it if the queue is full.
    #[inline]
    fn start(&mut self, op: Op) -> Option<Op> {
        if let Some(failure) = self.refusal(&op.work) {
            let mut sink = CompletionSink { stats: &self.core.stats, done: &mut self.core.ready };
            sink.add(op, Err(failure));
            if failure == Failure::Access {
                self.end(&failure.into());
            }
            return None;
        }
        if matches!(op.work, Work::Receive { .. }) {
            if self.core.inbox.posted() >= self.caps.receives {
                return Some(op);
            }
            self.core.inbox.add(op);
            return None;
        }
        if self.core.sends.len() >= self.caps.depth {
            return Some(op);
        }
        self.core.sends.start(op);
        None
    }

    /// Why an operation is refused, or `None`. Checks bounds and rights as granted by the peer: not every provider
    /// does, and those that do close the connection.
    #[inline]
    fn refusal(&self, work: &Work) -> Option<Failure> {
        if self.endpoint.is_none() {
            return Some(Failure::Flushed);
        }
        let domain = self.shared.fid_domain.number();
        let ours = |slice: &crate::region::Slice| is_registered(slice.region(), domain);
        if self.caps.allow(work, self.id).is_err() || !work.local().iter().all(ours) {
            return Some(Failure::Unsupported);
        }
        let target = work.target()?;
        let may = target.window.rights().allow(wanted(work)) && target.contains(work.total());
        (!may).then_some(Failure::Access)
    }

    /// Does all pending work.
    #[inline]
    fn work(&mut self) -> Result<usize, LaneEnd> {
        let Some(endpoint) = &self.endpoint else { return Ok(0) };
        let count = self.core.work(endpoint)?;
        if count > 0 {
            self.wait_fd.reset_nap();
        }
        // Not only at empty polls: a lost operation must time out also while others complete.
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_PER_TIMEOUT_CHECK) {
            self.core.check(Instant::now())?;
        }
        if self.polls.is_multiple_of(POLLS_PER_PEER_CHECK) {
            // Reports progress to the peer also while this end is always busy with its own writes.
            self.core.flush_deferred(endpoint)?;
            self.check_peer_process()?;
        }
        Ok(count)
    }

    fn check_peer_process(&self) -> Result<(), LaneEnd> {
        match self.peer_process.as_ref().is_some_and(PeerProcess::has_ended) {
            true => Err(self.core.end_at_oldest(Failure::PeerGone)),
            false => Ok(()),
        }
    }

    /// Ends the lane, once. After its endpoint is closed, neither the peer nor the provider accesses our memory: all operations
    /// complete.
    #[cold]
    fn end(&mut self, end: &LaneEnd) {
        let Some(mut endpoint) = self.endpoint.take() else { return };
        self.core.stats.set_ended(end.failure);
        if end.failure != Failure::PeerGone {
            self.core.send_close(end, &endpoint);
        }
        let closed = self.deferred_close.is_some() || endpoint.close();
        let resources = EndpointResources { endpoint, used: self.core.used() };
        match &self.deferred_close {
            Some(deferred_close) => deferred_close.close(resources),
            None => drop(resources),
        }
        self.core.abandon(end);
        if !closed {
            // The provider may still access the memory of what was in flight.
            self.core.keep_completed();
        }
        self.wait_fd.disable(self.peer_process.as_ref().map(PeerProcess::fd));
    }
}

impl Lane for OfiLane {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn stats(&self) -> &Arc<Stats> {
        &self.core.stats
    }

    fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        let mr = registration(region, self.shared.fid_domain.number()).ok_or_else(|| {
            let why = "it is not registered with this lane's provider";
            let fix = "register the memory with the lane's fabric, or attach the region to it";
            Error::new(ErrorKind::Misuse, "grant a region", why, fix)
        })?;
        self.core.granted.add(mr.key(), region);
        if self.endpoint.is_some() && !self.shared.fid_domain.facts().lacks_memory_protection() {
            self.core.granted.keep(region.memory());
        }
        Ok(RemoteRegion {
            lane: LaneKind::Ofi,
            rights: region.rights(),
            length: region.len() as u64,
            address: mr.start(),
            key: mr.key().into(),
        })
    }

    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        remote.expect(LaneKind::Ofi)?;
        let key = u64::try_from(remote.key).map_err(|_| {
            let why = "its key is longer than 64 bits";
            Error::new(ErrorKind::Misuse, "import a region", why, "pass the peer's bytes unchanged")
        })?;
        let access_method = AccessMethod::Ofi { address: remote.address, key };
        Ok(Window::new(self.id, remote.length, remote.rights, access_method))
    }

    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let before = ops.len();
        while self.take_next(ops) {}
        if let Some(endpoint) = &self.endpoint
            && let Err(end) = self.core.push(endpoint)
        {
            self.end(&end);
        }
        before - ops.len()
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = done.len();
        if let Err(end) = self.work() {
            self.end(&end);
        }
        done.append(&mut self.core.ready);
        done.len() - before
    }

    fn arm(&mut self) -> bool {
        let now = Instant::now();
        if let Err(end) = self.check_peer_process().and_then(|()| self.core.check(now)) {
            self.end(&end);
        }
        if !self.core.ready.is_empty() {
            return false;
        }
        if let Some(endpoint) = &self.endpoint
            && let Err(end) = self.core.flush_deferred(endpoint)
        {
            self.end(&end);
            return self.core.ready.is_empty();
        }
        let Some(endpoint) = &self.endpoint else { return true };
        self.wait_fd.set_timer(self.core.due(now));
        self.wait_fd.wakes_by_timer() || endpoint.cq().may_sleep()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.wait_fd.fd()
    }

    fn close(&mut self) {
        self.end(&Failure::Flushed.into());
    }
}

/// Closes the endpoint first, so that the memory freed after it is not in use.
impl Drop for OfiLane {
    fn drop(&mut self) {
        self.close();
    }
}

/// The rights that an operation requires.
fn wanted(work: &Work) -> Rights {
    match work {
        Work::Write { .. } => Rights { write: true, ..Rights::NONE },
        Work::Read { .. } => Rights { read: true, ..Rights::NONE },
        Work::FetchAdd { .. } | Work::CompareSwap { .. } => Rights { atomic: true, ..Rights::NONE },
        Work::Send { .. } | Work::Receive { .. } => Rights::NONE,
    }
}

const CAPS: Caps = Caps {
    transport: "ofi",
    datagram: false,
    // Messages are ordered, but a message may overtake a write that was posted before it.
    ordered: false,
    max_message: 0,
    max_slices: 32,
    depth: 256,
    receives: 1024,
    inline: 0,
    peer_must_poll: true,
    private_memory: PrivateMemoryPath::Direct,
    spins: true,
    wakes_by_timer: false,
    rdma: false,
};

/// Checking the peer's process is a system call.
const POLLS_PER_PEER_CHECK: u32 = 1024;
/// Checking timeouts reads the clock.
const POLLS_PER_TIMEOUT_CHECK: u32 = 16;
