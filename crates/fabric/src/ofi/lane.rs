//! A lane over one endpoint: the hot path. Setting it up is `half.rs`.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use super::core::{Core, End};
use super::deferred_close::{DeferredClose, Remains};
use super::domain::Shared;
use super::endpoint::Endpoint;
use super::mr::{is_registered, registration};
use super::peer_process::Life;
use super::usable_provider::is_rdma;
use super::wait_fd::Sleeper;
use crate::error::{Error, Kind};
use crate::lane::{BorrowedPath, Caps, Lane, number};
use crate::op::{Completion, Failure, Op, Work};
use crate::over::Over;
use crate::region::{Region, Rights};
use crate::remote::{LaneKind, Reach, RemoteRegion, Window};
use crate::stats::Stats;

pub(super) struct OfiLane {
    id: u64,
    caps: Caps,
    /// None once the lane is dead: then nothing of the peer's lands here any more. Dropped before what it uses.
    endpoint: Option<Endpoint>,
    core: Core,
    sleeper: Sleeper,
    life: Option<Life>,
    /// Where the endpoint goes, if it cannot be closed before the peer's.
    deferred_close: Option<DeferredClose>,
    polls: u32,
    shared: Arc<Shared>,
}

impl OfiLane {
    pub(super) fn new(
        shared: Arc<Shared>,
        endpoint: Endpoint,
        core: Core,
        sleeper: Sleeper,
        life: Option<Life>,
        deferred_close: Option<DeferredClose>,
        max_message: usize,
    ) -> Self {
        let rdma = is_rdma(&shared.device.facts().provider);
        let caps = Caps { max_message, naps: sleeper.naps(), rdma, ..CAPS };
        let endpoint = Some(endpoint);
        OfiLane {
            id: number(),
            caps,
            endpoint,
            core,
            sleeper,
            life,
            deferred_close,
            polls: 0,
            shared,
        }
    }

    /// Takes one operation, unless it must wait for room.
    #[inline]
    fn take(&mut self, ops: &mut VecDeque<Op>) -> bool {
        let Some(op) = ops.pop_front() else { return false };
        let Some(op) = self.begin(op) else { return true };
        ops.push_front(op);
        false
    }

    /// Begins an operation or refuses it; gives it back where there is no room.
    #[inline]
    fn begin(&mut self, op: Op) -> Option<Op> {
        if let Some(failure) = self.refusal(&op.work) {
            let mut over = Over { stats: &self.core.stats, done: &mut self.core.ready };
            over.add(op, Err(failure));
            if failure == Failure::Access {
                self.die(&failure.into());
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
        self.core.sends.begin(op);
        None
    }

    /// Why an operation is not begun. Bounds and rights are looked at by the peer's word: not every provider
    /// does, and those that do cut the connection.
    #[inline]
    fn refusal(&self, work: &Work) -> Option<Failure> {
        if self.endpoint.is_none() {
            return Some(Failure::Flushed);
        }
        let domain = self.shared.device.number();
        let ours = |slice: &crate::region::Slice| is_registered(slice.region(), domain);
        if self.caps.allow(work, self.id).is_err() || !work.local().iter().all(ours) {
            return Some(Failure::Unsupported);
        }
        let target = work.target()?;
        let may = target.window.rights().allow(wanted(work)) && target.holds(work.total());
        (!may).then_some(Failure::Access)
    }

    /// Does whatever is due.
    #[inline]
    fn work(&mut self) -> Result<usize, End> {
        let Some(endpoint) = &self.endpoint else { return Ok(0) };
        let count = self.core.work(endpoint)?;
        if count > 0 {
            self.sleeper.stir();
        }
        // Not at empty polls alone: what is lost would be waited for as long as others come.
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_FOR_CLOCK) {
            self.core.check(Instant::now())?;
        }
        if self.polls.is_multiple_of(POLLS_FOR_LIFE) {
            // A peer whose messages have come gets that reported also while we always have writes of our own to look after.
            self.core.rest(endpoint)?;
            self.look_after_peer()?;
        }
        Ok(count)
    }

    fn look_after_peer(&self) -> Result<(), End> {
        match self.life.as_ref().is_some_and(Life::has_ended) {
            true => Err(self.core.by_oldest(Failure::PeerGone)),
            false => Ok(()),
        }
    }

    /// Ends the lane, once. Without its endpoint nothing of the peer's reaches our memory, and the provider
    /// does not touch what it was given: all of it comes back.
    #[cold]
    fn die(&mut self, end: &End) {
        let Some(endpoint) = self.endpoint.take() else { return };
        self.core.stats.end(end.failure);
        if end.failure != Failure::PeerGone {
            self.core.farewell(end, &endpoint);
        }
        match &self.deferred_close {
            Some(deferred_close) => {
                deferred_close.take(Remains { _endpoint: endpoint, _used: self.core.used() })
            }
            None => drop(endpoint),
        }
        self.core.abandon(end);
        self.sleeper.retire(self.life.as_ref().map(Life::fd));
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
        let mr = registration(region, self.shared.device.number()).ok_or_else(|| {
            let why = "it is not registered with this lane's provider";
            let fix = "register the memory with the fabric of the lane, or attach the region to it";
            Error::new(Kind::Misuse, "grant a region", why, fix)
        })?;
        self.core.granted.add(mr.key(), region);
        if self.endpoint.is_some() && !self.shared.device.facts().is_trustful() {
            self.core.granted.hold(region.memory());
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
            let why = "its key is longer than this lane's keys are";
            Error::new(Kind::Misuse, "import a region", why, "pass on the peer's bytes as they are")
        })?;
        let reach = Reach::Ofi { address: remote.address, key };
        Ok(Window::new(self.id, remote.length, remote.rights, reach))
    }

    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let before = ops.len();
        while self.take(ops) {}
        if let Some(endpoint) = &self.endpoint
            && let Err(end) = self.core.push(endpoint)
        {
            self.die(&end);
        }
        before - ops.len()
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = done.len();
        if let Err(end) = self.work() {
            self.die(&end);
        }
        done.append(&mut self.core.ready);
        done.len() - before
    }

    fn arm(&mut self) -> bool {
        let now = Instant::now();
        if let Err(end) = self.look_after_peer().and_then(|()| self.core.check(now)) {
            self.die(&end);
        }
        if !self.core.ready.is_empty() {
            return false;
        }
        if let Some(endpoint) = &self.endpoint
            && let Err(end) = self.core.rest(endpoint)
        {
            self.die(&end);
            return self.core.ready.is_empty();
        }
        let Some(endpoint) = &self.endpoint else { return true };
        self.sleeper.set(self.core.due(now));
        self.sleeper.naps() || endpoint.cq().may_sleep()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.sleeper.fd()
    }

    fn close(&mut self) {
        self.die(&Failure::Flushed.into());
    }
}

/// The endpoint is closed first: then nobody uses the memory that is given up after it.
impl Drop for OfiLane {
    fn drop(&mut self) {
        self.close();
    }
}

/// What an operation needs of the peer's rights.
fn wanted(work: &Work) -> Rights {
    match work {
        Work::Write { .. } => Rights { write: true, ..Rights::NONE },
        Work::Read { .. } => Rights { read: true, ..Rights::NONE },
        Work::FetchAdd { .. } | Work::CompareSwap { .. } => Rights { atomic: true, ..Rights::NONE },
        Work::Send { .. } | Work::Receive { .. } => Rights::NONE,
    }
}

const CAPS: Caps = Caps {
    lane: "ofi",
    datagram: false,
    // Messages keep their order, but a message may pass a write that was posted before it.
    ordered: false,
    max_message: 0,
    max_pieces: 32,
    depth: 256,
    receives: 1024,
    inline: 0,
    peer_must_poll: true,
    borrowed: BorrowedPath::Direct,
    spins: true,
    naps: false,
    rdma: false,
};

/// Polls between two looks at the peer's process: each is a system call.
const POLLS_FOR_LIFE: u32 = 1024;
/// Polls between two looks at the clock.
const POLLS_FOR_CLOCK: u32 = 16;
