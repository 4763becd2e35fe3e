//! The shared-memory lane.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::fs::{Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals};

use super::board::{Board, GrantId, PeerBoard};
use super::courier::Courier;
use super::doorbell::{ASLEEP, ASLEEP_FOR_ROOM, AWAKE, Flag, announce, must_wake};
use super::mapping::PeerMapping;
use super::process::{Direction, Process};
use super::ring::Ring;
use crate::alarm::Alarm;
use crate::engine::Engine;
use crate::error::{Error, Kind};
use crate::lane::{Caps, Lane, LentPath, number};
use crate::memory::Memory;
use crate::op::{Completion, Done, Failure, Op, Work};
use crate::region::{Region, Rights};
use crate::remote::{LaneKind, Reach, RemoteRegion, Target, Window};
use crate::stats::Stats;

/// What two ends have when they have met.
pub(super) struct Connection {
    pub(super) board: Arc<Board>,
    pub(super) peer: Arc<PeerBoard>,
    pub(super) bell: OwnedFd,
    pub(super) peer_bell: OwnedFd,
    pub(super) courier: Courier,
    pub(super) process: Option<Process>,
    /// Whether the peer's memory can be reached by the kernel.
    pub(super) reachable: bool,
}

pub(super) struct ShmLane {
    number: u64,
    caps: Caps,
    engine: Engine<Ring>,
    connection: Connection,
    alarm: Alarm,
    epoll: OwnedFd,
    /// Whether our board says that we sleep.
    armed: bool,
    /// Polls since the peer was last seen alive.
    polls: u32,
    looked_away: bool,
}

impl ShmLane {
    pub(super) fn new(connection: Connection, patience: Duration) -> Result<Self, Error> {
        let system = |error| {
            let remedy = "see the limits of this process: `ulimit -n`";
            Error::new(Kind::System, "prepare a shared-memory lane", error, remedy)
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let alarm = Alarm::new().map_err(system)?;
        let life = connection.process.as_ref().map(|process| process.life().as_fd());
        let fds = [connection.bell.as_fd(), connection.courier.as_fd(), alarm.as_fd()];
        for fd in fds.into_iter().chain(life) {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN).map_err(system)?;
        }
        let ring = Ring::new(connection.board.clone(), connection.peer.clone());
        let lent = if connection.reachable { LentPath::Kernel } else { LentPath::OneCopy };
        Ok(ShmLane {
            number: number(),
            caps: Caps { lent, ..CAPS },
            engine: Engine::new([ring], patience),
            connection,
            alarm,
            epoll,
            armed: false,
            polls: 0,
            looked_away: false,
        })
    }

    fn has_room(&self, op: &Op) -> bool {
        match op.work {
            Work::Receive { .. } => self.engine.core.receives() < self.caps.receives,
            _ => self.engine.core.flights.operations() < self.caps.depth,
        }
    }

    /// Does an operation here and now, where loads and stores reach the peer's memory.
    #[inline]
    fn attempt(&mut self, work: &Work) -> Attempt {
        if let Err(failure) = self.caps.allow(work, self.number) {
            return Attempt::Over(Err(failure));
        }
        let mapped = work.target().is_some_and(|target| {
            matches!(target.window.reach(), Reach::Mapped(_) | Reach::Process { .. })
        });
        if !mapped || self.engine.core.dead().is_some() {
            return Attempt::Ask;
        }
        let clock = self.engine.core.clock();
        let with_imm = matches!(work, Work::Write { imm: Some(_), .. });
        match direct(work, &self.connection) {
            None => Attempt::Ask,
            // The number follows by the ring.
            Some(Ok(_)) if with_imm => Attempt::Ask,
            Some(Err(failure)) => {
                self.refused();
                Attempt::Over(Err(failure))
            }
            Some(Ok(done)) => {
                if let Some(begun) = clock {
                    self.engine.core.stats.time(begun.elapsed());
                }
                Attempt::Over(Ok(done))
            }
        }
    }

    /// As a device would: a forbidden access ends the lane at both ends.
    #[cold]
    fn refused(&mut self) {
        self.engine.close(Failure::Flushed);
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
            // A full counter has been rung already.
            let _ = rustix::io::write(&self.connection.peer_bell, &1u64.to_ne_bytes());
        }
    }

    /// Takes in grants, and sees whether the peer is gone.
    fn look_after_peer(&mut self) {
        self.polls = 0;
        self.connection.courier.collect();
        if self.connection.courier.nonsense {
            self.engine.close(Failure::Nonsense);
        }
        let ended = self.connection.process.as_ref().is_some_and(Process::has_ended);
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

    fn wake_up(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.connection.board.sleeping().store(AWAKE);
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
        let grant = GrantId::of(key).ok_or_else(too_many)?;
        let (rights, length) = (region.rights(), region.len() as u64);
        let address = match region.memory().file() {
            Some(file) => {
                let file = shareable(file, rights)?;
                self.connection.courier.send(key, length, rights, file.as_fd()).map_err(unsent)?;
                0
            }
            None => region.memory().address().addr() as u64,
        };
        self.connection.board.set_granted(grant);
        region.on_drop(Box::new(revoke(&self.connection, grant, region.memory())));
        Ok(RemoteRegion { lane: LaneKind::Shm, rights, length, address, key })
    }

    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        remote.expect(LaneKind::Shm)?;
        let RemoteRegion { rights, length, address, key, .. } = *remote;
        let (lane, grant) = (self.number, GrantId::of(key).ok_or_else(not_granted)?);
        if address != 0 {
            let reach = match self.connection.reachable {
                true => Reach::Process { address, key },
                false => Reach::Ask { key },
            };
            return Ok(Window::new(lane, length, rights, reach));
        }
        let granted = self.connection.courier.take(key).ok_or_else(not_granted)?;
        // What counts is what came with the descriptor, not what the caller was told.
        let (rights, length) = (granted.rights, granted.length);
        let writable = rights.write || rights.atomic;
        let board = self.connection.peer.clone();
        let mapping = usize::try_from(length)
            .map_err(|_| std::io::ErrorKind::OutOfMemory.into())
            .and_then(|length| PeerMapping::new(&granted.file, length, writable, board, grant));
        let mapping = mapping.map_err(|error| {
            let remedy = "both ends must run Wirelane, with enough address space (`ulimit -v`)";
            Error::new(Kind::Denied, "map the peer's region", error, remedy)
        })?;
        Ok(Window::new(lane, length, rights, Reach::Mapped(mapping)))
    }

    #[inline]
    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let before = ops.len();
        while let Some(front) = ops.front().filter(|op| self.has_room(op)) {
            // The bytes go first: whatever else there is to do, the peer need not wait for it.
            let attempt = self.attempt(&front.work);
            let Some(op) = ops.pop_front() else { break };
            match attempt {
                Attempt::Over(outcome) => self.engine.core.complete(op, outcome),
                Attempt::Ask => self.engine.begin(op),
            }
        }
        self.engine.flush();
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
            return 0;
        }
        let count = self.engine.poll(done);
        self.ring();
        count
    }

    fn arm(&mut self) -> bool {
        self.engine.settle();
        self.ring();
        self.look_after_peer();
        self.alarm.set(self.engine.core.deadline());
        // Old rings are forgotten before the sleep is announced: a later one stays.
        let _ = rustix::io::read(&self.connection.bell, &mut [0; 8]);
        let blocked = self.engine.is_blocked(0);
        self.armed = true;
        announce(&self.connection.board.sleeping(), if blocked { ASLEEP_FOR_ROOM } else { ASLEEP });
        let news = self.engine.streams().any(|ring| ring.has_news() || blocked && ring.has_room());
        let dead = self.engine.core.dead().is_some();
        if dead {
            self.look_away();
        }
        if self.engine.core.has_done() || news && !dead {
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
    }
}

impl Drop for ShmLane {
    fn drop(&mut self) {
        self.close();
    }
}

/// What came of an operation.
enum Attempt {
    Over(Result<Done, Failure>),
    /// The peer must be asked, by the engine.
    Ask,
}

/// Does what loads and stores can do; `None`: the peer must be asked.
#[inline]
fn direct(work: &Work, connection: &Connection) -> Option<Result<Done, Failure>> {
    let target = work.target()?;
    match target.window.reach() {
        Reach::Mapped(mapping) => Some(mapped(work, target, mapping)),
        Reach::Process { address, key } => by_kernel(work, target, *address, *key, connection),
        _ => None,
    }
}

#[inline]
fn mapped(work: &Work, target: &Target, mapping: &PeerMapping) -> Result<Done, Failure> {
    if !(permitted(work, target) && mapping.is_granted()) {
        return Err(Failure::Access);
    }
    let at = target.offset as usize;
    match work {
        Work::Write { from, .. } => mapping.write(from.as_slice(), at),
        Work::Read { into, .. } => mapping.read(into.as_slice(), at),
        Work::FetchAdd { old, add, .. } => {
            let before = mapping.number(at).fetch_add(*add, Ordering::AcqRel);
            old.region().memory().store(old.offset(), before);
            return Ok(Done::Old(before));
        }
        Work::CompareSwap { old, expect, new, .. } => {
            let number = mapping.number(at);
            let swapped =
                number.compare_exchange(*expect, *new, Ordering::AcqRel, Ordering::Acquire);
            let before = swapped.unwrap_or_else(|there| there);
            old.region().memory().store(old.offset(), before);
            return Ok(Done::Old(before));
        }
        Work::Send { .. } | Work::Receive { .. } => {}
    }
    Ok(Done::Placed)
}

/// Bounds, rights and alignment, by the grant.
#[inline]
fn permitted(work: &Work, target: &Target) -> bool {
    let wanted = match work {
        Work::Write { .. } => Rights { write: true, ..Rights::NONE },
        Work::Read { .. } => Rights { read: true, ..Rights::NONE },
        _ => Rights { atomic: true, ..Rights::NONE },
    };
    let aligned = !wanted.atomic || target.offset.is_multiple_of(8);
    aligned && target.holds(work.total()) && target.window.rights().allow(wanted)
}

/// A large write or read of memory that cannot be mapped goes by the kernel; the peer is asked for the
/// rest, and wherever the kernel refuses.
fn by_kernel(
    work: &Work,
    target: &Target,
    address: u64,
    key: u128,
    connection: &Connection,
) -> Option<Result<Done, Failure>> {
    let (slices, direction) = match work {
        Work::Write { from, imm: None, .. } => (from.as_slice(), Direction::Write),
        Work::Read { into, .. } => (into.as_slice(), Direction::Read),
        _ => return None,
    };
    let process = connection.process.as_ref().filter(|_| work.total() >= LEAST_BY_KERNEL)?;
    if !permitted(work, target) {
        return Some(Err(Failure::Access));
    }
    let grant = GrantId::of(key)?;
    // The owner waits for this before it lets go of the memory; see `revoke`.
    connection.board.set_touching(Some(grant));
    let granted = connection.peer.holds(grant);
    let copied = granted.then(|| process.copy(slices, address + target.offset, direction));
    connection.board.set_touching(None);
    match copied {
        None => Some(Err(Failure::Access)),
        Some(Ok(())) => Some(Ok(Done::Placed)),
        Some(Err(_)) => None,
    }
}

/// Takes a grant back when its region is dropped. A peer that writes lent memory by the kernel at that
/// very moment is waited for; one that stands still in it keeps the memory for good.
fn revoke(connection: &Connection, grant: GrantId, memory: &Memory) -> impl FnOnce() + use<> {
    let (board, peer) = (connection.board.clone(), connection.peer.clone());
    let lent = memory.file().is_none().then(|| memory.clone());
    move || {
        board.revoke(grant);
        let Some(lent) = lent else { return };
        let limit = Instant::now() + Duration::from_secs(1);
        while peer.touches(grant) {
            if Instant::now() > limit {
                return std::mem::forget(lent);
            }
            std::thread::yield_now();
        }
    }
}

/// The descriptor that a peer gets: for reading alone where it may do no more.
fn shareable(file: BorrowedFd<'_>, rights: Rights) -> Result<OwnedFd, Error> {
    let call = || "grant a region".to_owned();
    let system = |error| Error::new(Kind::System, call(), error, "mount /proc; see `ulimit -n`");
    if rights.write || rights.atomic {
        let seals = fcntl_get_seals(file).map_err(system)?;
        if seals.contains(SealFlags::FUTURE_WRITE) {
            let why = "its memory was granted for reading before, which sealed it";
            let remedy = "grant the writable region first, or use another memory";
            return Err(Error::new(Kind::Misuse, call(), why, remedy));
        }
        return file.try_clone_to_owned().map_err(|error| {
            Error::new(Kind::System, call(), error, "see the limits of this process: `ulimit -n`")
        });
    }
    // Ours stays writable; nobody else's can be.
    fcntl_add_seals(file, SealFlags::FUTURE_WRITE).map_err(system)?;
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(system)
}

fn too_many() -> Error {
    let why = "4096 regions are granted on this lane already";
    Error::new(Kind::Full, "grant a region", why, "drop regions that are not used")
}

fn not_granted() -> Error {
    let remedy = "import each region once, on the lane it was granted on";
    Error::new(Kind::Denied, "import a region", "the peer granted no such region here", remedy)
}

fn unsent(error: std::io::Error) -> Error {
    let (kind, remedy) = match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            (Kind::Full, "let the peer poll its lane, which takes in what was granted")
        }
        _ => (Kind::Gone, "connect anew"),
    };
    Error::new(kind, "grant a region", error, remedy)
}

const CAPS: Caps = Caps {
    lane: "shm",
    datagram: false,
    max_message: 1 << 40,
    max_pieces: 32,
    depth: 1024,
    receives: 4096,
    inline: 0,
    peer_must_poll: false,
    lent: LentPath::OneCopy,
};

/// From here on a call of the kernel's is cheaper than a copy more.
const LEAST_BY_KERNEL: usize = 4096;
/// Polls between two looks whether the peer is there: each costs system calls.
const POLLS: u32 = 4096;
