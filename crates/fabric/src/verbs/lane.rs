//! A lane over one queue pair: the hot path. Setting it up is `half.rs`.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdma_sys::consts::{IBV_PORT_ACTIVE, IBV_WC_WITH_IMM};
use rdma_sys::work::ibv_wc;

use super::admission::Admission;
use super::cq::Cq;
use super::datagram::{Datagram, HEADER};
use super::events::Alarm;
use super::mr::rkey;
use super::outcome::{received, verdict};
use super::qp::Qp;
use super::rail::Rail;
use super::receives::{Receives, receive_number};
use super::request::Shape;
use super::sends::Sends;
use super::wait_fd::Sleeper;
use super::zero::zeroed;
use crate::error::{Error, Kind};
use crate::lane::{BorrowedPath, Caps, Lane, number};
use crate::op::{Completion, Done, Failure, Op, Work};
use crate::over::Over;
use crate::region::Region;
use crate::remote::{LaneKind, Reach, RemoteRegion, Window};
use crate::stats::Stats;

pub(super) struct VerbsLane {
    id: u64,
    caps: Caps,
    stats: Arc<Stats>,
    rail: Arc<Rail>,
    sends: Sends,
    receives: Receives,
    datagram: Option<Datagram>,
    /// None after the lane has died and its queue pair did not give everything back.
    qp: Option<Qp>,
    cq: Arc<Cq>,
    alarm: Arc<Alarm>,
    sleeper: Sleeper,
    /// Since when the lane is dead.
    died: Option<Instant>,
    /// Over before they came to the device, and not told yet.
    ready: Vec<Completion>,
    /// Room for completions.
    wcs: Box<[ibv_wc]>,
    /// How many of them `arm` found, which are not looked at yet.
    found: usize,
    /// Polls without a completion since the device's events were read.
    empty: u32,
    /// Whether both devices add and swap.
    atomics: bool,
}

impl VerbsLane {
    pub(super) fn new(
        rail: Arc<Rail>,
        cq: Arc<Cq>,
        qp: Qp,
        datagram: Option<Datagram>,
        max_message: u32,
        atomics: bool,
    ) -> Result<Self, Error> {
        let sizes = &rail.sizes;
        let caps = caps(&rail, &qp, datagram.as_ref(), max_message);
        let domain = rail.pd.number();
        let shape = Shape {
            domain,
            depth: sizes.send_wr,
            max_message: u32::try_from(caps.max_message).unwrap_or(u32::MAX),
            send_sge: sizes.send_sge,
            read_sge: sizes.read_sge,
            inline: qp.inline(),
        };
        let alarm = rail.events.alarm(qp.number(), &cq);
        let alarm = alarm.map_err(|errno| rail.error("make an alarm", errno))?;
        let sleeper = Sleeper::new(&[cq.fd(), rail.events.fd(), alarm.fd()]);
        let sleeper =
            sleeper.map_err(|errno| rail.error("make a descriptor to sleep on", errno))?;
        Ok(VerbsLane {
            id: number(),
            caps,
            stats: Arc::default(),
            sends: Sends::new(shape),
            receives: Receives::new(domain, sizes.recv_wr, rail.shared.clone(), rail.scrap.clone()),
            datagram,
            qp: Some(qp),
            cq,
            alarm,
            sleeper,
            died: None,
            ready: Vec::new(),
            wcs: vec![zeroed(); BATCH].into_boxed_slice(),
            found: 0,
            empty: 0,
            atomics,
            rail,
        })
    }

    #[inline]
    fn admission(&self) -> Admission<'_> {
        Admission {
            lane: self.id,
            caps: &self.caps,
            rail: &self.rail,
            datagram: self.datagram.as_ref(),
            atomics: self.atomics,
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
        let refusal = match self.died {
            Some(_) => Some(Failure::Flushed),
            None => (!self.admission().allows(&op.work)).then_some(Failure::Unsupported),
        };
        if let Some(failure) = refusal {
            Over { stats: &self.stats, done: &mut self.ready }.add(op, Err(failure));
            return None;
        }
        if matches!(op.work, Work::Receive { .. }) {
            return self.receives.begin(op);
        }
        if !self.sends.has_room() {
            return Some(op);
        }
        self.sends.begin(op, self.datagram.as_ref());
        None
    }

    /// Hands to the device what was begun: receives first, since what is sent may be answered.
    #[inline]
    fn ring(&mut self) {
        let Some(qp) = &self.qp else { return };
        let mut over = Over { stats: &self.stats, done: &mut self.ready };
        let received = self.receives.ring(qp, &mut over);
        let sent = self.sends.ring(qp, &mut over);
        if received.is_err() || sent.is_err() {
            self.die(Failure::Local);
        }
    }

    /// Looks at completions: those that `arm` found first.
    #[inline]
    fn look(&mut self, done: &mut Vec<Completion>) -> usize {
        let count = match std::mem::take(&mut self.found) {
            0 => self.fetch(),
            found => found,
        };
        for at in 0..count {
            let wc = self.wcs[at];
            self.complete(&wc, done);
        }
        count
    }

    /// Fetches completions and says how many. A queue that is gone has none.
    #[inline]
    fn fetch(&mut self) -> usize {
        if self.qp.is_none() {
            return 0;
        }
        self.cq.poll(&mut self.wcs).unwrap_or_else(|_| {
            self.die(Failure::Local);
            0
        })
    }

    #[inline]
    fn complete(&mut self, wc: &ibv_wc, done: &mut Vec<Completion>) {
        let number = receive_number(wc.wr_id);
        let mut verdict = match number {
            Some(_) => received(wc.status),
            None => verdict(wc.status),
        };
        if verdict == Err(Failure::Flushed) && self.died.is_none() {
            verdict = Err(self.cause_of_flush());
        }
        match number {
            Some(number) => self.receive(number, wc, verdict, done),
            None => {
                let mut over = Over { stats: &self.stats, done };
                self.sends.complete(wc.wr_id, verdict, &mut over);
            }
        }
        if let Err(failure) = verdict {
            self.die(failure);
        }
    }

    #[inline]
    fn receive(
        &mut self,
        number: u32,
        wc: &ibv_wc,
        verdict: Result<(), Failure>,
        done: &mut Vec<Completion>,
    ) {
        let mut length = wc.byte_len as usize;
        if let Some(datagram) = &self.datagram {
            if verdict.is_ok() && !datagram.sent(wc) {
                self.rail.events.count_unknown_peer();
                return self.receives.again(number);
            }
            length = length.saturating_sub(HEADER as usize);
        }
        let Some(op) = self.receives.take(number) else { return };
        let imm = (wc.wc_flags & IBV_WC_WITH_IMM != 0).then(|| u32::from_be(wc.imm_data));
        let outcome = verdict.map(|()| Done::Received { length, imm });
        Over { stats: &self.stats, done }.add(op, outcome);
    }

    /// The queue pair ended without us, and the first that is told is a flush: the request that failed is
    /// not always told, on soft-RoCE seldom. A port that is down explains it.
    #[cold]
    fn cause_of_flush(&self) -> Failure {
        match self.rail.pd.context().port(self.rail.choice.port) {
            Ok(port) if port.state == IBV_PORT_ACTIVE => Failure::Flushed,
            _ => Failure::PeerGone,
        }
    }

    /// Ends the lane, once: the device gives back what it has, and the peer reaches us no more.
    #[cold]
    fn die(&mut self, reason: Failure) {
        if self.died.is_some() {
            return;
        }
        self.stats.end(reason);
        let now = Instant::now();
        let failed = self.qp.as_ref().map(Qp::fail);
        // One that cannot be ended is not waited for: it is destroyed at the next poll.
        let overdue = now.checked_sub(2 * GRACE).filter(|_| matches!(failed, Some(Err(_))));
        self.died = Some(overdue.unwrap_or(now));
        self.sends.stop(&mut Over { stats: &self.stats, done: &mut self.ready });
    }

    /// Whether the device may still give something back. A dead queue pair on a shared queue says itself
    /// when it has given back all it took.
    fn in_flight(&self) -> bool {
        let taken = self.died.is_some() && self.receives.are_shared() && !self.alarm.drained();
        self.sends.in_flight() || self.receives.in_flight() || (taken && self.qp.is_some())
    }

    /// A device that does not give back in time loses the queue pair: without it nothing is written to
    /// our memory any more.
    #[cold]
    fn settle(&mut self, died: Instant) {
        if self.in_flight() && died.elapsed() > GRACE {
            self.qp = None;
            let mut over = Over { stats: &self.stats, done: &mut self.ready };
            self.sends.abandon(&mut over);
            self.receives.abandon(&mut over);
        }
    }

    /// Reads the device's events, for all its lanes.
    fn read_events(&mut self) {
        self.rail.events.read();
        if self.alarm.rung() {
            self.die(Failure::Local);
            self.alarm.silence();
        }
        if self.rail.events.broken() {
            // What only says that the device is gone would never let us sleep.
            self.sleeper.forget(self.rail.events.fd());
            self.sleeper.forget(self.cq.fd());
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
        let key = rkey(region, &self.rail.pd).ok_or_else(|| {
            let why = "it is not registered with this lane's device";
            let fix = "register the memory with the fabric of the lane, or attach the region to it";
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
            let why = "it was granted on a lane of another kind";
            misuse("import a region", why, "let the peer grant it on the other end of this lane")
        })?;
        let reach = Reach::Verbs { address: remote.address, key };
        Ok(Window::new(self.id, remote.length, remote.rights, reach))
    }

    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let before = ops.len();
        while self.take(ops) {}
        self.ring();
        before - ops.len()
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = done.len();
        let looked = self.look(done);
        self.empty = if looked > 0 { 0 } else { self.empty + 1 };
        if self.empty == EMPTY || self.died.is_some() && looked == 0 {
            self.empty = 0;
            // One who only polls must notice the device's death too.
            self.rail.events.read();
        }
        // Completions made room for the rest of a long operation, and unknown peers used up receives.
        self.sends.go_on(self.datagram.as_ref());
        self.ring();
        if self.alarm.rung() {
            self.die(Failure::Local);
        }
        // Only when nothing is left to look at: what the device has given back is not thrown away.
        if let Some(died) = self.died.filter(|_| looked == 0) {
            self.settle(died);
        }
        done.append(&mut self.ready);
        done.len() - before
    }

    fn arm(&mut self) -> bool {
        self.read_events();
        // A dead lane is not slept on before it has given everything back, which is soon.
        let dying = self.died.is_some() && self.in_flight();
        if self.found > 0 || !self.ready.is_empty() || dying {
            return false;
        }
        self.cq.drain_events();
        if self.qp.is_some() && self.cq.request_event().is_err() {
            self.die(Failure::Local);
            return false;
        }
        // What came before the request raises no event.
        self.found = self.fetch();
        self.found == 0
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.sleeper.fd()
    }

    fn close(&mut self) {
        self.die(Failure::Flushed);
    }
}

/// What is in flight comes back first, so that no memory is given up while the device may write to it;
/// then the queue pair goes, after which it cannot.
impl Drop for VerbsLane {
    fn drop(&mut self) {
        self.die(Failure::Flushed);
        let begun = Instant::now();
        let mut done = Vec::new();
        loop {
            let count = self.poll(&mut done);
            if (count == 0 && !self.in_flight()) || begun.elapsed() > GRACE {
                break;
            }
            std::thread::yield_now();
        }
        self.qp = None;
    }
}

fn caps(rail: &Rail, qp: &Qp, datagram: Option<&Datagram>, max_message: u32) -> Caps {
    Caps {
        lane: "verbs",
        datagram: datagram.is_some(),
        // A reliable connection executes requests in order. Relaxed ordering (`mr.rs`) lets bytes of writes
        // pass each other, never a completion pass them.
        ordered: datagram.is_none(),
        max_message: datagram.map_or(max_message as usize, Datagram::max_message),
        max_pieces: rail.sizes.pieces as usize,
        depth: rail.sizes.send_wr as usize,
        receives: rail.sizes.recv_wr as usize,
        inline: qp.inline() as usize,
        peer_must_poll: false,
        borrowed: BorrowedPath::Direct,
        spins: !rail.config.use_event_channel,
        naps: false,
        rdma: true,
    }
}

fn misuse(call: &str, why: &str, fix: &str) -> Error {
    Error::new(Kind::Misuse, call, why, fix)
}

/// Empty polls between two looks at the device's events: each look is a system call.
const EMPTY: u32 = 4096;
/// Completions fetched at a time.
const BATCH: usize = 64;
/// Within which a device gives back what a dead queue pair had; ordinarily it takes microseconds.
const GRACE: Duration = Duration::from_secs(1);
