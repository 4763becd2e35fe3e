//! The shared-memory lane.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::event::epoll;

use super::direct::{Verdict, direct, peek, poke};
use super::peer_socket::{Courier, Granted};
use super::process::Process;
use super::revoker::Fence;
use super::ring::Ring;
use super::share::shareable;
use crate::engine::Engine;
use crate::error::{Error, Kind};
use crate::lane::{BorrowedPath, Caps, Lane, number};
use crate::op::{Completion, Done, Failure, Op, Work};
use crate::region::{Granter, Region, Slice};
use crate::remote::{LaneKind, Reach, RemoteRegion, Window};
use crate::segment::control_block::{ControlBlock, GrantId, PeerControlBlock};
use crate::segment::doorbell::{ASLEEP, ASLEEP_FOR_ROOM, AWAKE, Flag, announce, must_wake};
use crate::segment::mapping::{PeerMapping, is_huge};
use crate::stats::Stats;
use crate::timer::Alarm;

/// What two ends have when they have met.
pub(super) struct Connection {
    pub(super) control_block: Arc<ControlBlock>,
    pub(super) peer: Arc<PeerControlBlock>,
    pub(super) courier: Courier,
    pub(super) process: Option<Arc<Process>>,
    /// Whether the peer's memory can be reached by the kernel.
    pub(super) reachable: bool,
    /// Whether the peer is of our user.
    pub(super) equal: bool,
}

pub(super) struct ShmLane {
    number: u64,
    caps: Caps,
    engine: Engine<Ring>,
    connection: Connection,
    alarm: Alarm,
    epoll: OwnedFd,
    /// Whether our control block says that we sleep.
    armed: bool,
    /// Polls since the peer was last seen alive.
    polls: u32,
    looked_away: bool,
    /// Grants that may still hold, to be revoked when the lane ends.
    granted: Vec<GrantId>,
    fence: Arc<Fence>,
}

impl ShmLane {
    pub(super) fn new(connection: Connection, patience: Duration) -> Result<Self, Error> {
        let system = |error| {
            let fix = "see the limits of this process: `ulimit -n`";
            Error::new(Kind::System, "prepare a shared-memory lane", error, fix)
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let alarm = Alarm::new().map_err(system)?;
        let life = connection.process.as_ref().map(|process| process.life().as_fd());
        let fds = [connection.courier.as_fd(), alarm.as_fd()];
        for fd in fds.into_iter().chain(life) {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN).map_err(system)?;
        }
        let ring = Ring::new(connection.control_block.clone(), connection.peer.clone());
        let fence = Arc::new(Fence {
            control_block: connection.control_block.clone(),
            peer: connection.peer.clone(),
            process: connection.process.clone(),
        });
        let borrowed =
            if connection.reachable { BorrowedPath::Kernel } else { BorrowedPath::OneCopy };
        Ok(ShmLane {
            number: number(),
            caps: Caps { borrowed, ..CAPS },
            engine: Engine::new([ring], patience),
            connection,
            alarm,
            epoll,
            armed: false,
            polls: 0,
            looked_away: false,
            granted: Vec::new(),
            fence,
        })
    }

    /// Does an operation here and now, where loads and stores reach the peer's memory.
    #[inline]
    fn attempt(&mut self, work: &Work) -> (Verdict, u64) {
        if let Err(failure) = self.caps.allow(work, self.number) {
            return (Verdict::Failed(failure), 0);
        }
        let mapped = work.target().is_some_and(|target| {
            matches!(target.window.reach(), Reach::Mapped(_) | Reach::Process { .. })
        });
        if !mapped || self.engine.core.dead().is_some() {
            return (Verdict::Ask, 0);
        }
        let with_imm = matches!(work, Work::Write { imm: Some(_), .. });
        let clock = if with_imm { None } else { self.engine.core.clock() };
        let (verdict, old) = direct(work, &self.connection);
        if let Verdict::Failed(failure) = verdict {
            self.refused(failure);
        } else if with_imm {
            // The number follows by the ring.
            return (Verdict::Ask, 0);
        } else if let Some(begun) = clock {
            self.engine.core.stats.time(begun.elapsed());
        }
        (verdict, old)
    }

    /// As a device would: a forbidden access ends the lane at both ends.
    #[cold]
    fn refused(&mut self, failure: Failure) {
        self.engine.close(failure);
    }

    /// Wakes the peer, if it sleeps and there is something for it.
    #[inline]
    fn ring(&mut self) {
        let (mut wrote, mut made_room) = (false, false);
        for ring in self.engine.streams_mut() {
            wrote |= std::mem::take(&mut ring.wrote);
            made_room |= std::mem::take(&mut ring.made_room);
        }
        if (wrote || made_room) && must_wake(&self.connection.peer.sleeping(), wrote) {
            self.connection.courier.ring();
        }
    }

    /// Takes in grants, and sees whether the peer is gone.
    fn look_after_peer(&mut self) {
        self.polls = 0;
        self.connection.courier.collect(&self.connection.peer);
        if self.connection.courier.protocol_error {
            self.engine.close(Failure::ProtocolError);
        }
        let ended = self.connection.process.as_ref().is_some_and(|process| process.has_ended());
        if self.connection.courier.gone || ended {
            self.engine.streams_mut().for_each(|ring| ring.orphaned = true);
        }
    }

    /// A dead lane has no news: a peer that is gone would wake us for ever.
    fn look_away(&mut self) {
        if !std::mem::replace(&mut self.looked_away, true) {
            let life = self.connection.process.as_ref().map(|process| process.life().as_fd());
            for fd in std::iter::once(self.connection.courier.as_fd()).chain(life) {
                let _ = epoll::delete(&self.epoll, fd);
            }
        }
    }

    /// Gives the peer what it needs to use a region: its file, where a mapping allows just what the rights
    /// do, or else a key to ask with.
    fn hand_over(&mut self, region: &Region, key: u128) -> Result<RemoteRegion, Error> {
        let grant = GrantId::of(key).ok_or_else(too_many)?;
        let (rights, length) = (region.rights(), region.len() as u64);
        let memory = region.memory();
        let trusted = self.connection.equal || !memory.is_huge();
        // Before the peer knows of it: what does not hold, it throws away.
        self.connection.control_block.set_granted(grant);
        let address = match memory.file().filter(|_| trusted) {
            Some(file) => match shareable(memory, file, rights)? {
                Some(file) => {
                    let sent = self.connection.courier.send(key, length, rights, file.as_fd());
                    sent.map_err(unsent)?;
                    MAPPED
                }
                None => ASK,
            },
            None if memory.file().is_some() => ASK,
            None => memory.address().addr() as u64,
        };
        self.granted.retain(|grant| self.connection.control_block.still_holds(*grant));
        self.granted.push(grant);
        let fence: Weak<dyn Granter> = Arc::downgrade(&self.fence) as Weak<dyn Granter>;
        region.granted(fence, key);
        Ok(RemoteRegion { lane: LaneKind::Shm, rights, length, address, key })
    }

    fn map(&mut self, key: u128, grant: GrantId) -> Result<Window, Error> {
        let peer = &self.connection.peer;
        let granted = self.connection.courier.take(key, peer).ok_or_else(not_granted)?;
        // What counts is what came with the descriptor, not what the caller was told.
        let Granted { file, length, rights } = granted;
        let failed = |error: std::io::Error| {
            let fix = "both ends must run Wirelane, with enough address space (`ulimit -v`)";
            Error::new(Kind::Denied, "map the peer's region", error, fix)
        };
        if !self.connection.equal && is_huge(&file).map_err(failed)? {
            let why = "its huge pages can be torn out by a peer of another user";
            return Err(failed(std::io::Error::other(why)));
        }
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        let writable = rights.write || rights.atomic;
        let mapping = PeerMapping::new(&file, size, writable, peer.clone(), grant);
        let reach = Reach::Mapped(mapping.map_err(failed)?);
        Ok(Window::new(self.number, length, rights, reach))
    }

    #[inline]
    fn wake_up(&mut self) {
        if self.armed {
            self.armed = false;
            self.connection.control_block.sleeping().store(AWAKE);
            self.look_after_peer();
        }
    }
}

impl Lane for ShmLane {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn stats(&self) -> &Arc<Stats> {
        &self.engine.core.stats
    }

    fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        let key = self.engine.core.grants.add(region)?;
        let granted = self.hand_over(region, key);
        if granted.is_err() {
            self.engine.core.grants.remove(key);
            if let Some(grant) = GrantId::of(key) {
                self.connection.control_block.revoke(grant);
            }
        }
        granted
    }

    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        remote.expect(LaneKind::Shm)?;
        let RemoteRegion { rights, length, address, key, .. } = *remote;
        let (lane, grant) = (self.number, GrantId::of(key).ok_or_else(not_granted)?);
        match address {
            MAPPED => self.map(key, grant),
            ASK => Ok(Window::new(lane, length, rights, Reach::Ask { key })),
            _ if !self.connection.reachable => {
                Ok(Window::new(lane, length, rights, Reach::Ask { key }))
            }
            _ => Ok(Window::new(lane, length, rights, Reach::Process { address, key })),
        }
    }

    #[inline]
    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let before = ops.len();
        while let Some(front) = ops.front().filter(|op| self.engine.core.has_room(op, &self.caps)) {
            // The bytes go first: whatever else there is to do, the peer need not wait for it.
            let (verdict, old) = self.attempt(&front.work);
            let Some(op) = ops.pop_front() else { break };
            match verdict {
                Verdict::Placed => self.engine.core.complete(op, Ok(Done::Placed)),
                Verdict::Old => self.engine.core.complete(op, Ok(Done::Old(old))),
                Verdict::Failed(failure) => self.engine.core.complete(op, Err(failure)),
                Verdict::Ask => self.engine.begin(op),
            }
        }
        if !self.engine.is_quiet() {
            self.engine.flush();
        }
        self.ring();
        before - ops.len()
    }

    #[inline]
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.wake_up();
        self.polls += 1;
        if self.polls == POLLS {
            self.look_after_peer();
        } else if self.engine.is_quiet() && !self.engine.streams().any(Ring::has_news) {
            return self.engine.core.take_done(done);
        }
        let count = self.engine.poll(done);
        self.ring();
        count
    }

    #[inline]
    fn peek(&mut self, window: &Window, offset: u64, into: &Slice) -> bool {
        window.lane() == self.number
            && self.engine.core.dead().is_none()
            && peek(window, offset, into, &self.connection)
    }

    #[inline]
    fn poke(&mut self, window: &Window, offset: u64, bytes: &[u8], word: (u64, u64)) -> bool {
        window.lane() == self.number
            && self.engine.core.dead().is_none()
            && poke(window, offset, bytes, word, &self.connection)
    }

    fn arm(&mut self) -> bool {
        self.engine.settle();
        self.ring();
        self.look_after_peer();
        self.alarm.set(self.engine.core.deadline());
        // Old rings were taken in by this: a later one stays.
        let blocked = self.engine.is_blocked(0);
        self.armed = true;
        announce(
            &self.connection.control_block.sleeping(),
            if blocked { ASLEEP_FOR_ROOM } else { ASLEEP },
        );
        let news = self.engine.streams().any(Ring::has_news);
        let dead = self.engine.core.dead().is_some();
        // A last word that waits for room is noticed by the wakeup alone.
        if dead && !blocked {
            self.look_away();
        }
        let room = blocked && self.engine.streams().any(Ring::has_room);
        let lost = self.engine.has_lost() && !dead;
        if self.engine.core.has_done() || news && !dead || room || lost {
            self.wake_up();
            return false;
        }
        true
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn close(&mut self) {
        self.engine.close(Failure::Flushed);
        self.ring();
        for grant in self.granted.drain(..) {
            self.connection.control_block.revoke(grant);
        }
        // Only what the peer was in the middle of can still be written: what it begins now is refused.
        if !self.fence.wait_for(self.connection.peer.touching()) {
            // It may stand still in the middle of caller-owned memory: regions must find the fence later too.
            std::mem::forget(self.fence.clone());
        }
    }
}

impl Drop for ShmLane {
    fn drop(&mut self) {
        self.close();
    }
}

fn too_many() -> Error {
    let why = "4096 regions are granted on this lane already";
    Error::new(Kind::Full, "grant a region", why, "drop regions that are not used")
}

fn not_granted() -> Error {
    let fix = "import each region once, on the lane it was granted on";
    Error::new(Kind::Denied, "import a region", "the peer granted no such region here", fix)
}

fn unsent(error: std::io::Error) -> Error {
    let (kind, fix) = match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            (Kind::Full, "let the peer poll its lane, which takes in what was granted")
        }
        _ => (Kind::Gone, "connect anew"),
    };
    Error::new(kind, "grant a region", error, fix)
}

const CAPS: Caps = Caps {
    lane: "shm",
    datagram: false,
    // What is done by loads and stores, or by the kernel, is done when posted; the rest follows in one ring,
    // where only those that wait for a receive, messages all, let others pass.
    ordered: true,
    max_message: 1 << 40,
    max_pieces: 32,
    depth: 1024,
    receives: 4096,
    inline: 0,
    peer_must_poll: true,
    borrowed: BorrowedPath::OneCopy,
    spins: true,
    naps: false,
    rdma: false,
};

/// How a region is reached, where an address would stand: no memory lies so low.
const MAPPED: u64 = 0;
const ASK: u64 = 1;
/// Polls between two looks whether the peer is there: each costs system calls.
const POLLS: u32 = 4096;
