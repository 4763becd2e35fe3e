//! A lane: one path to one peer. The trait that every transport implements, and waiting for completions.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Error;
use crate::op::{Completion, Failure, Op, Work};
use crate::packets::Packets;
use crate::region::{Region, Slice};
use crate::remote::{RemoteRegion, Window};
use crate::stats::Stats;

/// Moves bytes to and from one peer. Owned by one thread at a time.
///
/// Operations are reliable (but see [`Caps::datagram`]) and **not ordered** among each other (but see
/// [`Caps::ordered`]). Each is returned in one completion, even if it fails. The first failure ends the
/// lane, see [`Failure`]; a [`Link`](crate::link::Link), which is used as a lane, goes on over others.
///
/// Two threads cannot use one lane at the same time:
/// ```compile_fail,E0277
/// fn share(lane: Box<dyn fabric::Lane>) {
///     let lane = std::sync::Arc::new(lane);
///     std::thread::spawn(move || lane.caps().depth);
/// }
/// ```
pub trait Lane: Send {
    /// What it can do.
    fn caps(&self) -> &Caps;

    /// Its counters. May be kept and read by other threads while the lane works.
    fn stats(&self) -> &Arc<Stats>;

    /// Grants the peer access to a region, within the region's rights and as long as a clone of it lives.
    fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error>;

    /// Makes a region that the peer granted usable on this lane; to be called once for each grant.
    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error>;

    /// Takes operations from the front until the lane is full, and starts them. Post the rest after
    /// completions. Returns the number taken.
    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize;

    /// Appends completions, and serves the peer's requests. Returns the number appended. Never blocks.
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize;

    /// Reads the peer's memory synchronously, if it is mapped; `false`: post a read instead. What this thread read
    /// before is not newer than what it reads.
    fn read_mapped(&mut self, window: &Window, offset: u64, into: MappedInto<'_>) -> bool {
        let _ = (window, offset, into);
        false
    }

    /// Writes bytes, and then a word at an aligned offset that publishes them: complete when it returns. Only for windows
    /// whose memory is mapped; `false` if this one's is not, or if it can no longer be written.
    fn write_mapped(
        &mut self,
        window: &Window,
        offset: u64,
        bytes: &[u8],
        word: (u64, u64),
    ) -> bool {
        let _ = (window, offset, bytes, word);
        false
    }

    /// Its packets, if it has them.
    fn packets(&mut self) -> Option<&mut dyn Packets> {
        None
    }

    /// Prepares to sleep on [`Lane::fd`]; call nothing else in between. `false`: do not sleep, poll
    /// again.
    fn arm(&mut self) -> bool;

    /// After [`Lane::arm`], becomes readable when there is something to poll for.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Ends the lane: the peer can no longer access our memory through it (a hostile one keeps what
    /// it has mapped over `shm`), and [`Lane::poll`] returns everything in flight.
    fn close(&mut self);
}

/// Where [`Lane::read_mapped`] puts the bytes that it reads.
#[derive(Debug)]
pub enum MappedInto<'m> {
    /// Into registered memory.
    Slice(&'m Slice),
    /// Into memory of this process alone, to be parsed. Aligned words are read whole if the destination is aligned like them.
    Bytes(&'m mut [u8]),
}

impl MappedInto<'_> {
    /// The number of bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "empty reads are not special")]
    pub fn len(&self) -> usize {
        match self {
            MappedInto::Slice(slice) => slice.len(),
            MappedInto::Bytes(bytes) => bytes.len(),
        }
    }
}

/// What a lane can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Its transport: `verbs`, `shm`, `tcp`, `ofi`, `sim`; `link` for a link, whatever its rails use.
    pub transport: &'static str,
    /// Messages may be lost, and there are only sends and receives.
    pub datagram: bool,
    /// A message (a send, or immediate data of a write) is received only after every write and message posted
    /// before it on the lane has taken effect. Reads and atomic operations are not ordered: those posted
    /// before it may still complete after it.
    pub ordered: bool,
    /// The longest message of a send. Writes and reads have no limit.
    pub max_message: usize,
    /// The maximum number of slices of one operation's memory.
    pub max_slices: usize,
    /// The maximum number of operations in flight, without receives.
    pub depth: usize,
    /// The maximum number of posted receives.
    pub receives: usize,
    /// Sends and writes up to this size are copied when posted.
    pub inline: usize,
    /// Writes, reads and atomics may need the peer to poll, arm or sleep on its lane: over `tcp` all of them,
    /// over `shm` those of memory that cannot be mapped with exactly the rights granted (private memory; rights
    /// to write or add without reading). Over `ofi` the sender of a long message must poll, too.
    pub peer_must_poll: bool,
    /// How private memory is transferred: bytes that the caller passed in ([`Memory::from_boxed`](crate::Memory::from_boxed)).
    pub private_memory: PrivateMemoryPath,
    /// Whether [`wait`] polls for a short time before it sleeps; otherwise it sleeps immediately.
    pub spins: bool,
    /// A sleeper is not woken by events: the descriptor is a timer, whose interval grows to some milliseconds
    /// while the lane is idle. A message on an idle lane may be noticed that much later, and idling costs some CPU.
    pub wakes_by_timer: bool,
    /// Whether a device moves the bytes, without the kernel.
    pub rdma: bool,
}

impl Caps {
    /// Whether the lane with id `lane` supports this operation.
    #[inline]
    pub(crate) fn allow(&self, work: &Work, lane: u64) -> Result<(), Failure> {
        let fits = work.local().len() <= self.max_slices
            && work.target().is_none_or(|target| target.window.lane() == lane && !self.datagram);
        let possible = match work {
            Work::Send { from, .. } => from.total() <= self.max_message,
            Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => {
                old.len() == 8 && old.address().addr().is_multiple_of(8)
            }
            Work::Write { .. } | Work::Read { .. } | Work::Receive { .. } => true,
        };
        if fits && possible { Ok(()) } else { Err(Failure::Unsupported) }
    }
}

/// An id that is unique among the lanes of this process. Windows refer to their lane by it.
pub(crate) fn next_lane_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// How private memory, which other processes cannot map, is transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateMemoryPath {
    /// Like any other memory.
    Direct,
    /// By the kernel, from process to process, with one copy.
    Kernel,
    /// By the peer, with an additional copy.
    ExtraCopy,
}

/// Polls for a short time, then sleeps, until there are completions or `limit` has passed. Returns the number of
/// completions appended.
pub fn wait(lane: &mut dyn Lane, done: &mut Vec<Completion>, limit: Duration) -> usize {
    let started = Instant::now();
    let (mut served, mut busy_at) = (lane.stats().peer_operations(), Duration::ZERO);
    loop {
        let count = lane.poll(done);
        let waited = started.elapsed();
        if count > 0 || waited >= limit {
            return count;
        }
        // The peer's operations are work too: a next one may follow.
        let now_served = lane.stats().peer_operations();
        if now_served != served {
            (served, busy_at) = (now_served, waited);
        }
        if lane.caps().spins && busy_wait(waited.saturating_sub(busy_at)) {
            continue;
        }
        if lane.arm() {
            sleep(lane.fd(), limit - waited);
        }
    }
}

/// Sleeps until the descriptor is readable or `limit` has passed.
pub(crate) fn sleep(fd: BorrowedFd<'_>, limit: Duration) {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let limit = Timespec::try_from(limit).ok();
    // An interrupted call returns early, and the caller polls again.
    let _ = poll(&mut fds, limit.as_ref());
}

/// One pause between two polls of a busy wait, after `waited` in all; `false`: sleep now.
///
/// First it spins, then it yields the CPU. Two ends that wait for each other
/// must busy-wait for longer than both need to wake up: otherwise one sleeps whenever the other has just woken, and
/// every message costs two wake-ups.
#[inline]
pub fn busy_wait(waited: Duration) -> bool {
    if waited < SPIN_TIME {
        std::hint::spin_loop();
    } else if waited < BUSY_WAIT_TIME {
        std::thread::yield_now();
    } else {
        return false;
    }
    true
}

/// How long to spin: about the cost of a wake-up.
pub const SPIN_TIME: Duration = Duration::from_micros(20);
/// How long to busy-wait in all: twice the cost of wake-ups at both ends, measured in a virtual machine.
pub const BUSY_WAIT_TIME: Duration = Duration::from_micros(150);
