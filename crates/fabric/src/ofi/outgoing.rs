//! What the provider has of ours: frames and transfers, each with a context and a buffer of its own.
//!
//! Unsafe here: a provider is given buffers and contexts that `Outgoing` holds, and pieces of operations that
//! its caller holds. They go when the provider is done, or after the lane closed the endpoint.
#![allow(unsafe_code, reason = "posts operations")]

use std::sync::Arc;

use libc::iovec;
use rdma_sys::Errno;

use super::contexts::Contexts;
use super::device::Device;
use super::endpoint::{Direction, Endpoint, Remote};
use super::frame::{Frame, HEADER, Progress, sealed};
use super::gather::{Gather, Held};
use super::mr;
use crate::error::Error;
use crate::memory::{Memory, Pages};
use crate::region::{Rights, Slice};
use crate::registration::ofi::Mr;

pub(super) struct Outgoing {
    /// A buffer for each context: a frame, and room for bytes that are copied behind it.
    buffers: Arc<Mr>,
    room: usize,
    /// What frames begin with, by the peer's wish.
    token: u64,
    /// What they report to the peer, and what the last one did.
    progress: Progress,
    reported: Progress,
    contexts: Arc<Contexts>,
    /// What each context is used for, and what the provider uses with it.
    uses: Vec<Use>,
    held: Vec<Held>,
    free: Vec<u32>,
    /// How many bytes are being read.
    reading: usize,
    /// Counts what goes on: while it stands still, nothing does.
    moves: u64,
    /// The provider takes no more at the moment.
    blocked: bool,
}

/// Whom a context works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Free,
    /// An operation's transfer, and how many bytes it reads.
    Transfer {
        at: u32,
        reads: usize,
    },
    /// A part of a message of the peer's, and how many bytes are read.
    Fetch {
        at: u32,
        reads: usize,
    },
    /// An operation's frame.
    Frame(u32),
    /// Words of the lane itself.
    Own,
}

impl Outgoing {
    /// For so many at a time, with so much room behind each frame.
    pub(super) fn new(
        device: &Arc<Device>,
        window: usize,
        room: usize,
        token: u64,
    ) -> Result<Self, Error> {
        let room = HEADER + room;
        let memory = Memory::allocate(window * room, Pages::Plain)?;
        Ok(Outgoing {
            buffers: Arc::new(mr::register(device.clone(), &memory, Rights::NONE)?),
            room,
            token,
            progress: Progress::default(),
            reported: Progress::default(),
            contexts: Arc::new(Contexts::new(window)),
            uses: vec![Use::Free; window],
            held: (0..window).map(|_| Held::default()).collect(),
            free: (0..window as u32).rev().collect(),
            reading: 0,
            moves: 0,
            blocked: false,
        })
    }

    /// What the endpoint uses as long as it is open.
    pub(super) fn used(&self) -> (Arc<Mr>, Arc<Contexts>) {
        (self.buffers.clone(), self.contexts.clone())
    }

    pub(super) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// Whether operations must wait. Some contexts are left for the lane's own words.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.len() <= RESERVED
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.uses.len()
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Lets the provider be tried again.
    pub(super) fn unblock(&mut self) {
        self.blocked = false;
    }

    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// Whether something of the lane's own is in flight.
    pub(super) fn is_sending(&self) -> bool {
        self.uses.contains(&Use::Own)
    }

    /// Frames from now on report this.
    #[inline]
    pub(super) fn set_progress(&mut self, progress: Progress) {
        self.progress = progress;
    }

    /// What was last reported to the peer.
    #[inline]
    pub(super) fn reported(&self) -> Progress {
        self.reported
    }

    /// What is in flight, by what it is used for.
    pub(super) fn find<T>(&self, wanted: impl Fn(&Use) -> Option<T>) -> Option<T> {
        self.uses.iter().find_map(wanted)
    }

    /// Copies bytes of a slice behind the next frame, from `at` on.
    pub(super) fn copy(&self, at: usize, slice: &Slice, from: usize, length: usize) {
        let Some(context) = self.free.last() else { return };
        debug_assert!(HEADER + at + length <= self.room, "another context's frame follows");
        let place = *context as usize * self.room + HEADER + at;
        let memory = self.buffers.memory();
        memory.copy(place, slice.region().memory(), slice.offset() + from, length);
    }

    /// Sends a frame with the bytes that were copied behind it. `false`: there is no room for it now.
    #[inline]
    pub(super) fn send(
        &mut self,
        frame: Frame,
        copied: usize,
        used: Use,
        endpoint: &Endpoint,
    ) -> Result<bool, Errno> {
        let Some(context) = self.free.last().copied() else { return Ok(false) };
        debug_assert!(HEADER + copied <= self.room, "as much as was copied");
        let place = self.seal(context, frame);
        let iov = [iovec { iov_base: place.cast(), iov_len: HEADER + copied }];
        let (mut desc, note) = ([self.buffers.desc()], self.contexts.at(context as usize));
        // SAFETY: one piece with its descriptor. The buffer and the context are ours, and stay until the provider is done or
        // the lane has closed the endpoint; the lane copies no more than it asked for room in `new`.
        let posted = unsafe { endpoint.send(&iov, &mut desc, note) };
        self.sent(posted, context, used)
    }

    /// Sends a frame with the pieces that follow it. `false`: there is no room for it now.
    #[inline]
    pub(super) fn send_pieces(
        &mut self,
        frame: Frame,
        mut pieces: Gather,
        used: Use,
        endpoint: &Endpoint,
    ) -> Result<bool, Errno> {
        let Some(context) = self.free.last().copied() else { return Ok(false) };
        pieces.put_first(self.seal(context, frame), HEADER, self.buffers.desc());
        let (iov, desc) = pieces.parts();
        let note = self.contexts.at(context as usize);
        // SAFETY: as for `send`; the pieces are the caller's operation's, and their registrations are in `held` then.
        let posted = unsafe { endpoint.send(iov, desc, note) };
        let sent = self.sent(posted, context, used)?;
        if sent {
            self.held[context as usize] = pieces.into_held();
        }
        Ok(sent)
    }

    /// Writes a frame into the buffer of a context; says where.
    #[inline]
    fn seal(&self, context: u32, frame: Frame) -> *mut u8 {
        let at = context as usize * self.room;
        self.buffers.memory().write(at, &sealed(self.token, self.progress, frame));
        self.buffers.memory().address().wrapping_add(at)
    }

    #[inline]
    fn sent(&mut self, posted: Result<(), Errno>, context: u32, used: Use) -> Result<bool, Errno> {
        let sent = self.note(posted, context, used)?;
        if sent {
            self.reported = self.progress;
        }
        Ok(sent)
    }

    /// Begins a transfer, which is used as is told by how many bytes it reads; `false`: there is no room for it now.
    #[inline]
    pub(super) fn transfer(
        &mut self,
        mut pieces: Gather,
        remote: Remote,
        direction: Direction,
        used: impl FnOnce(usize) -> Use,
        endpoint: &Endpoint,
    ) -> Result<bool, Errno> {
        let Some(context) = self.free.last().copied() else { return Ok(false) };
        let reads = if direction == Direction::Read { pieces.total() } else { 0 };
        if reads > 0 && self.reading > 0 && self.reading + reads > MAX_READ {
            return Ok(false);
        }
        let note = self.contexts.at(context as usize);
        // SAFETY: as for `send_pieces`.
        let posted = unsafe { endpoint.transfer(&mut pieces, remote, direction, note) };
        let begun = self.note(posted, context, used(reads))?;
        if begun {
            self.held[context as usize] = pieces.into_held();
            self.reading += reads;
        }
        Ok(begun)
    }

    #[inline]
    fn note(&mut self, posted: Result<(), Errno>, context: u32, used: Use) -> Result<bool, Errno> {
        match posted {
            Ok(()) => {
                self.free.pop();
                self.uses[context as usize] = used;
                self.moves += 1;
                Ok(true)
            }
            Err(Errno(libc::EAGAIN)) => {
                self.blocked = true;
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    /// The provider is done with a context; says whom it worked for.
    #[inline]
    pub(super) fn complete(&mut self, context: usize) -> Use {
        let Some(used) = self.uses.get_mut(context) else { return Use::Free };
        let used = std::mem::replace(used, Use::Free);
        if let Use::Transfer { reads, .. } | Use::Fetch { reads, .. } = used {
            self.reading -= reads;
        }
        if used != Use::Free {
            self.held[context].let_go();
            self.free.push(context as u32);
            self.moves += 1;
        }
        used
    }

    /// The endpoint is closed.
    pub(super) fn abandon(&mut self) {
        self.uses.fill(Use::Free);
        self.held.fill_with(Held::default);
        self.free = (0..self.uses.len() as u32).collect();
        self.reading = 0;
    }
}

/// How many bytes are read at a time. What is written is held up by the network, but a device that is asked for more
/// sends it all at once, and whatever is between loses what it has no room for: soft-RoCE lost most of 32 MiB.
const MAX_READ: usize = 2 << 20;
/// Contexts that operations leave for the lane's own words.
const RESERVED: usize = 2;
