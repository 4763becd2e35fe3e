//! A lane over one queue pair: the hot path. `unconnected_lane.rs` sets it up.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdma_sys::consts::{IBV_PORT_ACTIVE, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM};
use rdma_sys::work::ibv_wc;

use super::cq::Cq;
use super::datagram::{Datagram, GRH_BYTES};
use super::events::FailureSignal;
use super::mr::rkey;
use super::op_check::OpCheck;
use super::open_port::OpenPort;
use super::outcome::{receive_result, send_result};
use super::qp::Qp;
use super::receives::{Arrival, OwnReceives, Receives, receive_number};
use super::request::RequestLimits;
use super::sends::Sends;
use super::srq_slots::LaneReceives;
use super::wait_fd::WaitFd;
use super::zero::zeroed;
use crate::completion_sink::CompletionSink;
use crate::error::{Error, ErrorKind};
use crate::lane::{Caps, Lane, PrivateMemoryPath, next_lane_id};
use crate::op::{Completion, Failure, Op, Work};
use crate::region::Region;
use crate::remote::{AccessMethod, LaneKind, RemoteRegion, Window};
use crate::stats::Stats;
use crate::unreleased::leak_counted;

pub(super) struct VerbsLane {
    id: u64,
    caps: Caps,
    stats: Arc<Stats>,
    open_port: Arc<OpenPort>,
    sends: Sends,
    receives: Receives,
    datagram: Option<Datagram>,
    /// `None` after the lane has failed and its queue pair did not complete everything in time.
    qp: Option<Qp>,
    cq: Arc<Cq>,
    failure_signal: Arc<FailureSignal>,
    wait_fd: WaitFd,
    /// When the lane failed or was closed.
    ended_at: Option<Instant>,
    /// When the device last refused to destroy the queue pair.
    refused_at: Option<Instant>,
    /// Completed without a work completion, and not yet returned by `poll`.
    ready: Vec<Completion>,
    /// Buffer for work completions.
    wcs: Box<[ibv_wc]>,
    /// The number of completions in `wcs` that `arm` fetched, not yet processed.
    fetched: usize,
    /// Polls without a completion since the device's events were last read.
    empty_polls: u32,
    /// Whether both devices support atomics.
    atomics: bool,
}

impl VerbsLane {
    pub(super) fn new(
        open_port: Arc<OpenPort>,
        cq: Arc<Cq>,
        qp: Qp,
        datagram: Option<Datagram>,
        (max_request, max_send): (u32, u32),
        atomics: bool,
    ) -> Result<Self, Error> {
        let sizes = &open_port.sizes;
        let caps = caps(&open_port, &qp, datagram.as_ref(), max_send);
        let domain = open_port.pd.number();
        let limits = RequestLimits {
            domain,
            depth: sizes.send_wr,
            max_message: max_request,
            send_sge: sizes.send_sge,
            read_sge: sizes.read_sge,
            inline: qp.inline(),
        };
        let failure_signal = open_port.events.failure_signal(qp.number(), &cq);
        let failure_signal =
            failure_signal.map_err(|errno| open_port.error("create a failure signal", errno))?;
        let wait_fd = WaitFd::new(&[cq.fd(), open_port.events.fd(), failure_signal.fd()]);
        let wait_fd =
            wait_fd.map_err(|errno| open_port.error("create an epoll descriptor", errno))?;
        Ok(VerbsLane {
            id: next_lane_id(),
            caps,
            stats: Arc::default(),
            sends: Sends::new(limits),
            receives: receives(&open_port),
            datagram,
            qp: Some(qp),
            cq,
            failure_signal,
            wait_fd,
            ended_at: None,
            refused_at: None,
            ready: Vec::new(),
            wcs: vec![zeroed(); POLL_BATCH].into_boxed_slice(),
            fetched: 0,
            empty_polls: 0,
            atomics,
            open_port,
        })
    }

    #[inline]
    fn op_check(&self) -> OpCheck<'_> {
        OpCheck {
            lane: self.id,
            caps: &self.caps,
            open_port: &self.open_port,
            datagram: self.datagram.as_ref(),
            atomics: self.atomics,
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
        let refusal = match self.ended_at {
            Some(_) if !self.receives.takes_after_end(&op.work) => Some(Failure::Flushed),
            _ => (!self.op_check().allows(&op.work)).then_some(Failure::Unsupported),
        };
        if let Some(failure) = refusal {
            CompletionSink { stats: &self.stats, done: &mut self.ready }.add(op, Err(failure));
            return None;
        }
        if matches!(op.work, Work::Receive { .. }) {
            let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
            return self.receives.start(op, &mut sink).unwrap_or_else(|failure| {
                self.end(failure);
                None
            });
        }
        if !self.sends.has_space() {
            return Some(op);
        }
        self.sends.start(op, self.datagram.as_ref());
        None
    }

    /// Submits started operations to the device: receives first, since the peer may reply to a send immediately.
    #[inline]
    fn submit(&mut self) {
        let Some(qp) = &self.qp else { return };
        let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
        let received = self.receives.submit(qp, &mut sink);
        let sent = self.sends.submit(qp, &mut sink);
        if received.is_err() || sent.is_err() {
            self.end(Failure::Local);
        }
    }

    /// Processes completions: those that `arm` fetched, or else new ones. Returns their number.
    #[inline]
    fn process_completions(&mut self, done: &mut Vec<Completion>) -> usize {
        let count = match std::mem::take(&mut self.fetched) {
            0 => self.fetch(),
            fetched => fetched,
        };
        for at in 0..count {
            let wc = self.wcs[at];
            self.complete(&wc, done);
        }
        count
    }

    /// Polls the completion queue; returns the number of completions, 0 after the queue pair was destroyed.
    #[inline]
    fn fetch(&mut self) -> usize {
        if self.qp.is_none() {
            return 0;
        }
        self.cq.poll(&mut self.wcs).unwrap_or_else(|_| {
            self.end(Failure::Local);
            0
        })
    }

    #[inline]
    fn complete(&mut self, wc: &ibv_wc, done: &mut Vec<Completion>) {
        let number = receive_number(wc.wr_id);
        let mut result = match number {
            Some(_) => receive_result(wc.status),
            None => send_result(wc.status),
        };
        if result == Err(Failure::Flushed) && self.ended_at.is_none() {
            result = Err(self.cause_of_flush());
        }
        match number {
            Some(number) => result = result.and(self.receive(number, wc, result, done)),
            None => {
                let mut sink = CompletionSink { stats: &self.stats, done };
                self.sends.complete(wc.wr_id, result, &mut sink);
            }
        }
        if let Err(failure) = result {
            self.end(failure);
        }
    }

    /// On an error the lane must end.
    #[inline]
    fn receive(
        &mut self,
        number: u32,
        wc: &ibv_wc,
        result: Result<(), Failure>,
        done: &mut Vec<Completion>,
    ) -> Result<(), Failure> {
        let mut length = wc.byte_len as usize;
        if let Some(datagram) = &self.datagram {
            if result.is_ok() && !datagram.is_from_peer(wc) {
                self.open_port.events.count_unknown_peer();
                self.receives.repost(number);
                return Ok(());
            }
            length = length.saturating_sub(GRH_BYTES as usize);
        }
        let imm = (wc.wc_flags & IBV_WC_WITH_IMM != 0).then(|| u32::from_be(wc.imm_data));
        let is_write = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
        let arrival = result.map(|()| Arrival { length, imm, is_write });
        self.receives.complete(number, arrival, &mut CompletionSink { stats: &self.stats, done })
    }

    /// The queue pair failed by itself, and the first error completion is a flush: the failed request is
    /// not always reported, on soft-RoCE rarely. If the port is down, that is the cause.
    #[cold]
    fn cause_of_flush(&self) -> Failure {
        match self.open_port.pd.context().port(self.open_port.choice.port) {
            Ok(port) if port.state == IBV_PORT_ACTIVE => Failure::Flushed,
            _ => Failure::PeerGone,
        }
    }

    /// Ends the lane, once: the device flushes all requests, and the peer can no longer access our memory.
    #[cold]
    fn end(&mut self, reason: Failure) {
        if self.ended_at.is_some() {
            return;
        }
        self.stats.set_ended(reason);
        let now = Instant::now();
        let failed = self.qp.as_ref().map(Qp::fail);
        // A queue pair that cannot be moved to the error state does not flush: it is destroyed at the next poll.
        let overdue = now.checked_sub(2 * FLUSH_TIMEOUT).filter(|_| matches!(failed, Some(Err(_))));
        self.ended_at = Some(overdue.unwrap_or(now));
        self.sends.stop(&mut CompletionSink { stats: &self.stats, done: &mut self.ready });
    }

    /// Whether the device may still return completions. A failed queue pair on a shared queue reports by an event
    /// that it has completed all receives it took.
    fn in_flight(&self) -> bool {
        let taken =
            self.ended_at.is_some() && self.receives.are_shared() && !self.failure_signal.drained();
        self.sends.in_flight() || self.receives.in_flight() || (taken && self.qp.is_some())
    }

    /// Destroys the queue pair if the device does not flush in time: after that it does not write to our memory. If the
    /// device refuses, operations stay in flight, and it is tried again after a pause.
    #[cold]
    fn enforce_flush_timeout(&mut self, ended_at: Instant) {
        let paused = self.refused_at.is_some_and(|at| at.elapsed() <= FLUSH_TIMEOUT);
        let flushed = !self.sends.in_flight() && !self.receives.in_flight();
        let limit = if flushed { DRAIN_TIMEOUT } else { FLUSH_TIMEOUT };
        if !self.in_flight() || ended_at.elapsed() <= limit || paused {
            return;
        }
        if self.qp.as_mut().is_none_or(Qp::destroy) {
            self.qp = None;
            self.abandon();
        } else {
            self.refused_at = Some(Instant::now());
        }
    }

    /// Completes everything in flight.
    fn abandon(&mut self) {
        let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
        self.sends.abandon(&mut sink);
        self.receives.abandon(&mut sink);
    }

    /// Processes completions, and continues what waited for them. Returns the number of completions of the device.
    fn progress(&mut self, done: &mut Vec<Completion>) -> usize {
        // Before completions are fetched: another lane may read the event that this one is drained at any time.
        let drained = self.ended_at.is_some() && !self.in_flight();
        // First: unexpected messages are older than those that the device reports now.
        done.append(&mut self.ready);
        let processed = self.process_completions(done);
        self.empty_polls = if processed > 0 { 0 } else { self.empty_polls + 1 };
        if self.empty_polls == EMPTY_POLLS_PER_EVENT_READ
            || self.ended_at.is_some() && processed == 0
        {
            self.empty_polls = 0;
            // A caller that only polls, and never sleeps, must notice a failed device too.
            self.read_events();
        }
        // Completions freed slots for the rest of a long operation; datagrams of unknown peers consumed receives.
        self.sends.resume(self.datagram.as_ref());
        self.submit();
        if self.failure_signal.is_raised() {
            self.end(Failure::Local);
        }
        // Only after all fetched completions were processed, so that none is lost.
        if let Some(ended_at) = self.ended_at.filter(|_| processed == 0) {
            self.enforce_flush_timeout(ended_at);
            if drained {
                let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
                self.receives.flush(&mut sink);
            }
        }
        done.append(&mut self.ready);
        processed
    }

    /// Reads the device's events, for all its lanes.
    fn read_events(&mut self) {
        self.open_port.events.read();
        if self.failure_signal.is_raised() {
            self.end(Failure::Local);
            self.failure_signal.clear();
        } else if self.failure_signal.drained() && self.ended_at.is_none() {
            // The queue pair failed by itself, and took nothing from the shared queue that it could report.
            self.end(self.cause_of_flush());
            self.failure_signal.clear();
        }
        if self.open_port.events.broken() {
            // These descriptors stay readable after the device was removed, and would prevent sleeping.
            self.wait_fd.remove(self.open_port.events.fd());
            self.wait_fd.remove(self.cq.fd());
        }
    }
}

impl Lane for VerbsLane {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        let key = rkey(region, &self.open_port.pd).ok_or_else(|| {
            let why = "it is not registered with this lane's device";
            let fix = "register the memory with the lane's fabric, or attach the region to it";
            misuse("grant a region", why, fix)
        })?;
        Ok(RemoteRegion {
            lane: LaneKind::Verbs,
            rights: region.rights(),
            length: region.len() as u64,
            address: region.memory().address().addr() as u64,
            key: key.into(),
        })
    }

    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        let key = u32::try_from(remote.key).ok().filter(|_| remote.lane == LaneKind::Verbs);
        let key = key.ok_or_else(|| {
            let why = "it was granted on a lane of another transport";
            misuse("import a region", why, "have the peer grant it on the other end of this lane")
        })?;
        let access_method = AccessMethod::Verbs { address: remote.address, key };
        Ok(Window::new(self.id, remote.length, remote.rights, access_method))
    }

    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let before = ops.len();
        while self.take_next(ops) {}
        self.submit();
        before - ops.len()
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = done.len();
        self.progress(done);
        done.len() - before
    }

    fn arm(&mut self) -> bool {
        self.read_events();
        // A failed lane must be polled until everything is flushed, which is soon, unless the device refuses to end it: then
        // the caller's timers are often enough.
        let in_flight = self.in_flight() || self.receives.are_waiting();
        let flushing = self.ended_at.is_some() && in_flight && self.refused_at.is_none();
        if self.fetched > 0 || !self.ready.is_empty() || flushing {
            return false;
        }
        self.cq.drain_events();
        if self.qp.is_some() && self.cq.request_event().is_err() {
            self.end(Failure::Local);
            return false;
        }
        // Completions that arrived before the request raise no event.
        self.fetched = self.fetch();
        self.fetched == 0
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.wait_fd.fd()
    }

    fn close(&mut self) {
        self.end(Failure::Flushed);
    }
}

/// Waits until the device has flushed, so that no memory is freed while the device may write to it;
/// then destroys the queue pair. If the device refuses, the memory is kept.
impl Drop for VerbsLane {
    fn drop(&mut self) {
        self.end(Failure::Flushed);
        let started = Instant::now();
        let mut done = Vec::new();
        loop {
            let drained = !self.in_flight();
            let processed = self.progress(&mut done);
            if (processed == 0 && drained) || started.elapsed() > FLUSH_TIMEOUT {
                break;
            }
            std::thread::yield_now();
        }
        if !self.qp.as_mut().is_none_or(Qp::destroy) {
            // The device may still access the memory of what is in flight, and of shared receives.
            self.abandon();
            leak_counted((self.qp.take(), std::mem::take(&mut self.ready), self.open_port.clone()));
        }
        self.qp = None;
    }
}

fn receives(open_port: &OpenPort) -> Receives {
    let depth = open_port.sizes.recv_wr;
    match (&open_port.shared, open_port.config.srq) {
        (Some(shared), Some(queue)) => Receives::Shared(LaneReceives::new(
            shared.clone(),
            depth as usize,
            queue.max_unexpected as usize,
        )),
        _ => Receives::Own(OwnReceives::new(
            open_port.pd.number(),
            depth,
            open_port.grh_buffer.clone(),
        )),
    }
}

fn caps(open_port: &OpenPort, qp: &Qp, datagram: Option<&Datagram>, max_send: u32) -> Caps {
    Caps {
        transport: "verbs",
        datagram: datagram.is_some(),
        // A reliable connection executes requests in order. Relaxed ordering (`mr.rs`) may reorder the bytes of
        // writes, but a completion never precedes them.
        ordered: datagram.is_none(),
        max_message: datagram.map_or(usize::MAX, Datagram::max_message).min(max_send as usize),
        max_slices: open_port.sizes.max_slices as usize,
        depth: open_port.sizes.send_wr as usize,
        receives: open_port.sizes.recv_wr as usize,
        inline: qp.inline() as usize,
        peer_must_poll: false,
        private_memory: PrivateMemoryPath::Direct,
        spins: !open_port.config.use_event_channel,
        wakes_by_timer: false,
        rdma: true,
    }
}

fn misuse(call: &str, why: &str, fix: &str) -> Error {
    Error::new(ErrorKind::Misuse, call, why, fix)
}

/// Reading the device's events is a system call.
const EMPTY_POLLS_PER_EVENT_READ: u32 = 4096;
/// The maximum number of completions fetched by one poll.
const POLL_BATCH: usize = 64;
/// The time within which a device must flush a failed queue pair; usually it takes microseconds.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// The time within which a flushed queue pair on a shared queue must report that it is drained. Soft-RoCE never does.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
