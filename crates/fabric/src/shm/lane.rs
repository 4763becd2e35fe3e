//! The shared-memory lane.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::event::epoll;

use super::direct::{DirectResult, direct, read_mapped, write_mapped};
use super::peer_socket::{PeerSocket, ReceivedGrant};
use super::process::Process;
use super::revoker::Revoker;
use super::ring::Ring;
use super::share::shareable;
use crate::error::{Error, ErrorKind};
use crate::lane::{Caps, Lane, MappedInto, PrivateMemoryPath, next_lane_id};
use crate::op::{Completion, Done, Failure, Op, Work};
use crate::packets::{Packet, PacketCounts, PacketReceiver, Packets};
use crate::region::{Region, RevokeHook};
use crate::remote::{AccessMethod, LaneKind, RemoteRegion, Window};
use crate::segment::control_block::{ControlBlock, GrantId, PeerControlBlock};
use crate::segment::mapping::{PeerMapping, is_huge};
use crate::segment::sleep_flag::{ASLEEP, ASLEEP_FOR_SPACE, AWAKE, SleepFlag, announce, must_wake};
use crate::stats::Stats;
use crate::stream_engine::StreamEngine;
use crate::timer::Timer;

/// What an end has after connecting.
pub(super) struct Connection {
    pub(super) control_block: Arc<ControlBlock>,
    pub(super) peer: Arc<PeerControlBlock>,
    pub(super) socket: PeerSocket,
    pub(super) process: Option<Arc<Process>>,
    /// Whether the kernel can copy from and to the peer's memory.
    pub(super) reachable: bool,
    /// Whether the peer runs as our user.
    pub(super) same_user: bool,
}

pub(super) struct ShmLane {
    id: u64,
    caps: Caps,
    engine: StreamEngine<Ring>,
    connection: Connection,
    timer: Timer,
    epoll: OwnedFd,
    /// Whether our control block is marked as asleep.
    armed: bool,
    /// Polls since the last check that the peer is alive.
    polls: u32,
    stopped_watching: bool,
    /// Grants that may be valid, to be revoked when the lane ends.
    granted: Vec<GrantId>,
    revoker: Arc<Revoker>,
}

impl ShmLane {
    pub(super) fn new(connection: Connection, receive_timeout: Duration) -> Result<Self, Error> {
        let system = |error| {
            let fix = "see the limits of this process: `ulimit -n`";
            Error::new(ErrorKind::System, "prepare a shared-memory lane", error, fix)
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let timer = Timer::new().map_err(system)?;
        let pidfd = connection.process.as_ref().map(|process| process.pidfd().as_fd());
        let fds = [connection.socket.as_fd(), timer.as_fd()];
        for fd in fds.into_iter().chain(pidfd) {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN).map_err(system)?;
        }
        let ring = Ring::new(connection.control_block.clone(), connection.peer.clone());
        let revoker = Arc::new(Revoker {
            control_block: connection.control_block.clone(),
            peer: connection.peer.clone(),
            process: connection.process.clone(),
        });
        let private_memory = if connection.reachable {
            PrivateMemoryPath::Kernel
        } else {
            PrivateMemoryPath::ExtraCopy
        };
        Ok(ShmLane {
            id: next_lane_id(),
            caps: Caps { private_memory, ..CAPS },
            engine: StreamEngine::new([ring], receive_timeout),
            connection,
            timer,
            epoll,
            armed: false,
            polls: 0,
            stopped_watching: false,
            granted: Vec::new(),
            revoker,
        })
    }

    /// Starts operations until the lane is full.
    #[inline]
    fn start(&mut self, ops: &mut VecDeque<Op>) {
        while let Some(front) =
            ops.front().filter(|op| self.engine.state.has_capacity(op, &self.caps))
        {
            // The bytes first, so that the peer does not wait for anything else.
            let (result, old) = self.result(&front.work);
            let Some(op) = ops.pop_front() else { break };
            match result {
                DirectResult::Placed => self.engine.state.complete(op, Ok(Done::Placed)),
                DirectResult::Old => self.engine.state.complete(op, Ok(Done::Old(old))),
                DirectResult::Failed(failure) => self.engine.state.complete(op, Err(failure)),
                DirectResult::UseEngine => self.engine.start(op),
            }
        }
    }

    /// Executes an operation synchronously, if loads and stores or the kernel can access the peer's memory.
    #[inline]
    fn result(&mut self, work: &Work) -> (DirectResult, u64) {
        if let Err(failure) = self.caps.allow(work, self.id) {
            return (DirectResult::Failed(failure), 0);
        }
        let mapped = work.target().is_some_and(|target| {
            matches!(
                target.window.access_method(),
                AccessMethod::Mapped(_) | AccessMethod::Process { .. }
            )
        });
        if !mapped || self.engine.state.dead().is_some() {
            return (DirectResult::UseEngine, 0);
        }
        let with_imm = matches!(work, Work::Write { imm: Some(_), .. });
        let clock = if with_imm { None } else { self.engine.state.start_clock() };
        let (result, old) = direct(work, &self.connection);
        if let DirectResult::Failed(failure) = result {
            self.refused(failure);
        } else if with_imm {
            // The immediate data follows through the ring.
            return (DirectResult::UseEngine, 0);
        } else if let Some(started) = clock {
            self.engine.state.stats.add_latency(started.elapsed());
        }
        (result, old)
    }

    /// Like with a device, a forbidden access ends the lane at both ends.
    #[cold]
    fn refused(&mut self, failure: Failure) {
        self.engine.close(failure);
    }

    /// Wakes the peer, if it sleeps and there is something for it.
    #[inline]
    fn wake_peer(&mut self) {
        let (mut wrote, mut freed_space) = (false, false);
        for ring in self.engine.streams_mut() {
            wrote |= std::mem::take(&mut ring.wrote);
            freed_space |= std::mem::take(&mut ring.freed_space);
        }
        if (wrote || freed_space) && must_wake(&self.connection.peer.sleeping(), wrote) {
            self.connection.socket.wake();
        }
    }

    /// Receives grants, and checks whether the peer is gone.
    fn check_peer(&mut self) {
        self.polls = 0;
        self.connection.socket.collect(&self.connection.peer);
        if self.connection.socket.protocol_error {
            self.engine.close(Failure::ProtocolError);
        }
        let ended = self.connection.process.as_ref().is_some_and(|process| process.has_ended());
        if self.connection.socket.gone || ended {
            self.engine.streams_mut().for_each(|ring| ring.peer_ended = true);
        }
    }

    /// Removes the peer's descriptors from a dead lane's epoll: they would stay readable forever.
    fn stop_watching(&mut self) {
        if !std::mem::replace(&mut self.stopped_watching, true) {
            let pidfd = self.connection.process.as_ref().map(|process| process.pidfd().as_fd());
            for fd in std::iter::once(self.connection.socket.as_fd()).chain(pidfd) {
                let _ = epoll::delete(&self.epoll, fd);
            }
        }
    }

    /// Sends the peer the region's file, if a mapping allows exactly what the rights do; otherwise
    /// the peer uses requests with a key.
    fn send_grant(&mut self, region: &Region, key: u128) -> Result<RemoteRegion, Error> {
        let grant = GrantId::of(key).ok_or_else(too_many_grants)?;
        let (rights, length) = (region.rights(), region.len() as u64);
        let memory = region.memory();
        let trusted = self.connection.same_user || !memory.is_huge();
        // Before the peer learns of it: it discards invalid grants.
        self.connection.control_block.set_granted(grant);
        let address = match memory.file().filter(|_| trusted) {
            Some(file) => match shareable(memory, file, rights)? {
                Some(file) => {
                    let sent = self.connection.socket.send(key, length, rights, file.as_fd());
                    sent.map_err(send_failed)?;
                    MAPPED
                }
                None => BY_REQUEST,
            },
            None if memory.file().is_some() => BY_REQUEST,
            None => memory.address().addr() as u64,
        };
        self.granted.retain(|grant| self.connection.control_block.is_granted(*grant));
        self.granted.push(grant);
        let revoker: Weak<dyn RevokeHook> = Arc::downgrade(&self.revoker) as Weak<dyn RevokeHook>;
        region.add_grant(revoker, key);
        Ok(RemoteRegion { lane: LaneKind::Shm, rights, length, address, key })
    }

    fn map(&mut self, key: u128, grant: GrantId) -> Result<Window, Error> {
        let peer = &self.connection.peer;
        let granted = self.connection.socket.take(key, peer).ok_or_else(not_granted)?;
        // The values received with the descriptor count, not those that the caller passes.
        let ReceivedGrant { file, length, rights } = granted;
        let failed = |error: std::io::Error| {
            let fix = "both ends must run Wirelane, with enough address space (`ulimit -v`)";
            Error::new(ErrorKind::Denied, "map the peer's region", error, fix)
        };
        if !self.connection.same_user && is_huge(&file).map_err(failed)? {
            let why = "its huge pages could be freed by a peer of another user";
            return Err(failed(std::io::Error::other(why)));
        }
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        let writable = rights.write || rights.atomic;
        let mapping = PeerMapping::new(&file, size, writable, peer.clone(), grant);
        let access_method = AccessMethod::Mapped(mapping.map_err(failed)?);
        Ok(Window::new(self.id, length, rights, access_method))
    }

    /// Whether something may have arrived, or is to be sent. To be called once at each poll.
    #[inline]
    fn has_work(&mut self) -> bool {
        self.wake_up();
        self.polls += 1;
        if self.polls == POLLS_PER_PEER_CHECK {
            self.check_peer();
            return true;
        }
        !self.engine.is_idle() || self.engine.streams().any(Ring::has_data)
    }

    #[inline]
    fn wake_up(&mut self) {
        if self.armed {
            self.armed = false;
            self.connection.control_block.sleeping().store(AWAKE);
            self.check_peer();
        }
    }
}

impl Lane for ShmLane {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn stats(&self) -> &Arc<Stats> {
        &self.engine.state.stats
    }

    fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        let key = self.engine.state.grants.add(region)?;
        let granted = self.send_grant(region, key);
        if granted.is_err() {
            self.engine.state.grants.remove(key);
            if let Some(grant) = GrantId::of(key) {
                self.connection.control_block.revoke(grant);
            }
        }
        granted
    }

    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        remote.expect(LaneKind::Shm)?;
        let RemoteRegion { rights, length, address, key, .. } = *remote;
        let (lane, grant) = (self.id, GrantId::of(key).ok_or_else(not_granted)?);
        match address {
            MAPPED => self.map(key, grant),
            BY_REQUEST => Ok(Window::new(lane, length, rights, AccessMethod::Request { key })),
            _ if !self.connection.reachable => {
                Ok(Window::new(lane, length, rights, AccessMethod::Request { key }))
            }
            _ => Ok(Window::new(lane, length, rights, AccessMethod::Process { address, key })),
        }
    }

    #[inline]
    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let before = ops.len();
        self.start(ops);
        if !self.engine.is_idle() {
            self.engine.flush();
        }
        self.wake_peer();
        before - ops.len()
    }

    #[inline]
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        if !self.has_work() {
            return self.engine.state.take_done(done);
        }
        let count = self.engine.poll(done);
        self.wake_peer();
        count
    }

    #[inline]
    fn read_mapped(&mut self, window: &Window, offset: u64, into: MappedInto<'_>) -> bool {
        window.lane() == self.id
            && self.engine.state.dead().is_none()
            && read_mapped(window, offset, into, &self.connection)
    }

    #[inline]
    fn write_mapped(
        &mut self,
        window: &Window,
        offset: u64,
        bytes: &[u8],
        word: (u64, u64),
    ) -> bool {
        window.lane() == self.id
            && self.engine.state.dead().is_none()
            && write_mapped(window, offset, bytes, word, &self.connection)
    }

    fn packets(&mut self) -> Option<&mut dyn Packets> {
        Some(self)
    }

    fn arm(&mut self) -> bool {
        self.engine.report_now();
        self.wake_peer();
        self.check_peer();
        self.timer.set(self.engine.state.deadline());
        // `check_peer` consumed old wakeups: a later one keeps the descriptor readable.
        let blocked = self.engine.has_backlog(0);
        self.armed = true;
        announce(
            &self.connection.control_block.sleeping(),
            if blocked { ASLEEP_FOR_SPACE } else { ASLEEP },
        );
        let has_data = self.engine.streams().any(Ring::has_data);
        let dead = self.engine.state.dead().is_some();
        // A reason that waits for space in the ring still needs the peer's wakeup.
        if dead && !blocked {
            self.stop_watching();
        }
        let has_space = blocked && self.engine.streams().any(Ring::has_space);
        let lost = self.engine.has_lost_stream() && !dead;
        if self.engine.state.has_done() || has_data && !dead || has_space || lost {
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
        self.wake_peer();
        for grant in self.granted.drain(..) {
            self.connection.control_block.revoke(grant);
        }
        // Only an access that the peer has started can still write: later ones are refused.
        if !self.revoker.wait_for(self.connection.peer.accessing()) {
            // The peer may be stopped while it accesses private memory: regions need the revoker when they are dropped.
            std::mem::forget(self.revoker.clone());
        }
    }
}

impl Packets for ShmLane {
    fn accept(&mut self, max_length: usize) {
        self.engine.state.accept_packets(max_length);
    }

    #[inline]
    fn send(&mut self, before: &mut VecDeque<Op>, packet: Packet<'_>) -> bool {
        self.start(before);
        self.engine.send_packet(before, &packet)
    }

    #[inline]
    fn flush(&mut self) {
        if self.engine.has_backlog(0) {
            self.engine.flush();
        }
        self.wake_peer();
    }

    #[inline]
    fn poll(
        &mut self,
        receiver: &mut dyn PacketReceiver,
        done: &mut Vec<Completion>,
    ) -> PacketCounts {
        if !self.has_work() {
            return self.engine.poll_idle(receiver, done);
        }
        let counts = self.engine.poll_packets(receiver, done);
        self.wake_peer();
        counts
    }
}

impl Drop for ShmLane {
    fn drop(&mut self) {
        self.close();
    }
}

fn too_many_grants() -> Error {
    let why = "the limit of 4096 granted regions on this lane is reached";
    Error::new(ErrorKind::Full, "grant a region", why, "drop unused regions")
}

fn not_granted() -> Error {
    let fix = "import each region once, on the lane it was granted on";
    Error::new(
        ErrorKind::Denied,
        "import a region",
        "the peer granted no such region on this lane",
        fix,
    )
}

fn send_failed(error: std::io::Error) -> Error {
    let (kind, fix) = match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            (ErrorKind::Full, "let the peer poll its lane, which receives the grants")
        }
        _ => (ErrorKind::Gone, "reconnect"),
    };
    Error::new(kind, "grant a region", error, fix)
}

const CAPS: Caps = Caps {
    transport: "shm",
    datagram: false,
    // Operations by loads and stores, or by the kernel, are executed when posted; the rest follow in one ring,
    // where only messages that wait for a receive are overtaken.
    ordered: true,
    max_message: 1 << 40,
    max_slices: 32,
    depth: 1024,
    receives: 4096,
    inline: 0,
    peer_must_poll: true,
    private_memory: PrivateMemoryPath::ExtraCopy,
    spins: true,
    wakes_by_timer: false,
    rdma: false,
};

/// Special values of a region's address: no memory has such low addresses.
const MAPPED: u64 = 0;
const BY_REQUEST: u64 = 1;
/// Polls between two checks that the peer is alive: each check costs system calls.
const POLLS_PER_PEER_CHECK: u32 = 4096;
