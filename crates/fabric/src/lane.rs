//! A lane: one path to one peer. What every backend gives, and waiting for it.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Error;
use crate::op::{Completion, Failure, Op, Work};
use crate::region::{Region, Slice};
use crate::remote::{RemoteRegion, Window};
use crate::stats::Stats;

/// Moves bytes to and from one peer. Owned by one thread at a time.
///
/// Operations are reliable (but see [`Caps::datagram`]) and **not ordered** among each other (but see
/// [`Caps::ordered`]). Each comes back as one completion, whatever happens. The first failure ends the
/// lane, see [`Failure`].
///
/// Two threads cannot use one lane at once:
/// ```compile_fail,E0277
/// fn share(lane: Box<dyn fabric::Lane>) {
///     let lane = std::sync::Arc::new(lane);
///     std::thread::spawn(move || lane.caps().depth);
/// }
/// ```
pub trait Lane: Send {
    /// What it can do.
    fn caps(&self) -> &Caps;

    /// What it has done. May be kept and read by others while the lane works.
    fn stats(&self) -> &Arc<Stats>;

    /// Lets the peer use a region, within the region's rights and as long as a clone of it lives.
    fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error>;

    /// Makes a region that the peer granted usable here; once for each grant.
    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error>;

    /// Takes operations from the front while there is room, and begins them. What is left waits for
    /// completions. Says how many it took.
    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize;

    /// Appends what is over, and does whatever is due for the peer. Never blocks.
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize;

    /// Reads the peer's memory now, if loads can do that; `false`: post a read instead. What was read before it by
    /// this thread is not newer than what it reads.
    fn peek(&mut self, window: &Window, offset: u64, into: &Slice) -> bool {
        let _ = (window, offset, into);
        false
    }

    /// Writes bytes and then a word, at an aligned place, that says so: over when it returns. Only for windows whose
    /// memory is mapped; `false` if this one's is not, or if it cannot be written any more.
    fn poke(&mut self, window: &Window, offset: u64, bytes: &[u8], word: (u64, u64)) -> bool {
        let _ = (window, offset, bytes, word);
        false
    }

    /// Prepares to sleep on [`Lane::fd`], with nothing else called in between. `false`: do not sleep, poll
    /// again.
    fn arm(&mut self) -> bool;

    /// Becomes readable, after [`Lane::arm`], when there is something to poll for.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Ends the lane: a peer of ours cannot reach our memory through it any more (a hostile one keeps what
    /// it has mapped over `shm`), and everything in flight comes back from [`Lane::poll`].
    fn close(&mut self);
}

/// What a lane can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Its name: `verbs`, `shm`, `tcp`, `ofi`, `sim`.
    pub lane: &'static str,
    /// Messages may be lost, and there are only sends and receives.
    pub datagram: bool,
    /// A message (a send, or immediate data of a write) is received only after every write and message posted
    /// before it on the lane has taken effect. Reads and atomic operations have no such place: those posted
    /// before it may still be answered after it.
    pub ordered: bool,
    /// The longest message of a send. Writes and reads have no limit.
    pub max_message: usize,
    /// Into how many pieces one operation's memory may be scattered.
    pub max_pieces: usize,
    /// How many operations may be in flight, receives apart.
    pub depth: usize,
    /// How many receives may be posted.
    pub receives: usize,
    /// Sends and writes up to this size are copied when posted.
    pub inline: usize,
    /// Writes, reads and atomics may need the peer to poll, arm or sleep on its lane: over `tcp` all of them,
    /// over `shm` those of memory that cannot be mapped with just the rights granted (caller-owned memory; rights
    /// to write or add without reading). Over `ofi` long messages need it of their sender, too.
    pub peer_must_poll: bool,
    /// How memory owned by the caller goes.
    pub borrowed: BorrowedPath,
    /// Whether [`wait`] looks for a short while before it sleeps. Else it sleeps at once.
    pub spins: bool,
    /// Nothing wakes who sleeps on it: the lane looks by itself, after sleeps that grow to some milliseconds
    /// while nothing comes. So a message after silence may come that much later, and idle is not quite free.
    pub naps: bool,
    /// Whether a device moves the bytes, without the kernel.
    pub rdma: bool,
}

impl Caps {
    /// Whether the lane numbered `lane` can do this at all.
    #[inline]
    pub(crate) fn allow(&self, work: &Work, lane: u64) -> Result<(), Failure> {
        let fits = work.local().len() <= self.max_pieces
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

/// A number that no other lane of this process has, by which windows know their lane.
pub(crate) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// How memory that no other process can map is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BorrowedPath {
    /// As any other.
    Direct,
    /// By the kernel, from process to process, in one copy.
    Kernel,
    /// With one copy more, by the peer.
    OneCopy,
}

/// Polls for a short while, then sleeps, until something is over or the time is up. Says how many
/// completions it appended.
pub fn wait(lane: &mut dyn Lane, done: &mut Vec<Completion>, limit: Duration) -> usize {
    let begun = Instant::now();
    loop {
        let count = lane.poll(done);
        let waited = begun.elapsed();
        if count > 0 || waited >= limit {
            return count;
        }
        if lane.caps().spins && linger(waited) {
            continue;
        }
        if lane.arm() {
            sleep(lane.fd(), limit - waited);
        }
    }
}

/// Sleeps until the descriptor is readable or the time is up.
pub(crate) fn sleep(fd: BorrowedFd<'_>, limit: Duration) {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let limit = Timespec::try_from(limit).ok();
    // An interruption is a reason to look, like any other.
    let _ = poll(&mut fds, limit.as_ref());
}

/// Passes a moment of looking for something, `waited` so far; `false`: it is time to sleep.
///
/// First the CPU is kept, then it is offered to others at every look. Two ends that wait for each other
/// must look for longer than both need to wake up: else one sleeps whenever the other has just woken, and every
/// message costs two wake-ups.
#[inline]
pub fn linger(waited: Duration) -> bool {
    if waited < SPIN {
        std::hint::spin_loop();
    } else if waited < LINGER {
        std::thread::yield_now();
    } else {
        return false;
    }
    true
}

/// How long to look without a pause: about what a wake-up costs.
pub const SPIN: Duration = Duration::from_micros(20);
/// How long to look in all: what wake-ups cost at both ends of a virtual machine's link, and twice that.
pub const LINGER: Duration = Duration::from_micros(150);
