//! The frames and transfers submitted to the provider, each with a context and a buffer.
//!
//! Unsafe here: a provider uses buffers and contexts that `Outgoing` owns, and memory of operations that
//! its caller owns. They are freed when the provider has finished, or after the lane closed the endpoint.
#![allow(unsafe_code, reason = "posts operations")]

use std::sync::Arc;

use libc::iovec;
use rdma_sys::Errno;

use super::contexts::Contexts;
use super::endpoint::{Direction, Endpoint, Remote};
use super::fid_domain::FidDomain;
use super::frame::{Frame, HEADER_BYTES, Progress, encode_frame};
use super::gather::{Gather, HeldRegistrations};
use super::mr;
use crate::error::Error;
use crate::memory::{Memory, Pages};
use crate::region::{Rights, Slice};
use crate::registration::ofi::Mr;

pub(super) struct Outgoing {
    /// A buffer for each context: a frame, and space for a copied payload.
    buffers: Arc<Mr>,
    buffer_bytes: usize,
    /// The peer's secret, with which frames start.
    secret: u64,
    /// The progress that frames report to the peer, and the last one reported.
    progress: Progress,
    reported: Progress,
    contexts: Arc<Contexts>,
    /// The use of each context, and the registrations that the provider uses with it.
    uses: Vec<ContextUse>,
    registrations: Vec<HeldRegistrations>,
    free: Vec<u32>,
    /// The number of bytes being read.
    reading: usize,
    /// Counts submissions and completions, to detect progress.
    activity: u64,
    /// The provider's queue is full.
    blocked: bool,
}

/// What a context is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContextUse {
    Free,
    /// A transfer of an operation, and the number of bytes it reads.
    Transfer {
        at: u32,
        reads: usize,
    },
    /// A read of a fragment of the peer's message, and its number of bytes.
    Fetch {
        at: u32,
        reads: usize,
    },
    /// A frame of an operation.
    Frame(u32),
    /// A frame of the lane itself.
    Control,
}

impl Outgoing {
    /// For `window` operations at a time, with space for `payload` bytes after each frame header.
    pub(super) fn new(
        fid_domain: &Arc<FidDomain>,
        window: usize,
        payload: usize,
        secret: u64,
    ) -> Result<Self, Error> {
        let buffer_bytes = HEADER_BYTES + payload;
        let memory = Memory::allocate(window * buffer_bytes, Pages::Plain)?;
        Ok(Outgoing {
            buffers: Arc::new(mr::register(fid_domain.clone(), &memory, Rights::NONE)?),
            buffer_bytes,
            secret,
            progress: Progress::default(),
            reported: Progress::default(),
            contexts: Arc::new(Contexts::new(window)),
            uses: vec![ContextUse::Free; window],
            registrations: (0..window).map(|_| HeldRegistrations::default()).collect(),
            free: (0..window as u32).rev().collect(),
            reading: 0,
            activity: 0,
            blocked: false,
        })
    }

    /// The resources that the endpoint uses as long as it is open.
    pub(super) fn used(&self) -> (Arc<Mr>, Arc<Contexts>) {
        (self.buffers.clone(), self.contexts.clone())
    }

    pub(super) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// Whether operations must wait. Some contexts are reserved for control frames.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.len() <= RESERVED_CONTEXTS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.uses.len()
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Allows another attempt to submit.
    pub(super) fn unblock(&mut self) {
        self.blocked = false;
    }

    pub(super) fn activity(&self) -> u64 {
        self.activity
    }

    /// Whether a control frame is in flight.
    pub(super) fn is_sending(&self) -> bool {
        self.uses.contains(&ContextUse::Control)
    }

    /// Sets the progress that the following frames report.
    #[inline]
    pub(super) fn set_progress(&mut self, progress: Progress) {
        self.progress = progress;
    }

    /// The progress last reported to the peer.
    #[inline]
    pub(super) fn reported(&self) -> Progress {
        self.reported
    }

    /// The first match among the uses of contexts.
    pub(super) fn find<T>(&self, wanted: impl Fn(&ContextUse) -> Option<T>) -> Option<T> {
        self.uses.iter().find_map(wanted)
    }

    /// Copies bytes of a slice into the next frame's payload, at `at`.
    pub(super) fn copy(&self, at: usize, slice: &Slice, from: usize, length: usize) {
        let Some(context) = self.free.last() else { return };
        debug_assert!(
            HEADER_BYTES + at + length <= self.buffer_bytes,
            "overflows the context's buffer"
        );
        let offset = *context as usize * self.buffer_bytes + HEADER_BYTES + at;
        let memory = self.buffers.memory();
        memory.copy(offset, slice.region().memory(), slice.offset() + from, length);
    }

    /// Sends a frame with the copied payload. `false` if the queue is full.
    #[inline]
    pub(super) fn send(
        &mut self,
        frame: Frame,
        copied: usize,
        used: ContextUse,
        endpoint: &Endpoint,
    ) -> Result<bool, Errno> {
        let Some(context) = self.free.last().copied() else { return Ok(false) };
        debug_assert!(HEADER_BYTES + copied <= self.buffer_bytes, "overflows the context's buffer");
        let start = self.write_frame(context, frame);
        let iov = [iovec { iov_base: start.cast(), iov_len: HEADER_BYTES + copied }];
        let (mut desc, context_ptr) = ([self.buffers.desc()], self.contexts.at(context as usize));
        // SAFETY: one `iovec` with its descriptor. `self` owns the buffer and the context until the provider has finished or
        // the lane has closed the endpoint; the lane copies no more than the payload size passed to `new`.
        let posted = unsafe { endpoint.send(&iov, &mut desc, context_ptr) };
        self.sent(posted, context, used)
    }

    /// Sends a frame with the gathered memory as its payload. `false` if the queue is full.
    #[inline]
    pub(super) fn send_gathered(
        &mut self,
        frame: Frame,
        mut gather: Gather,
        used: ContextUse,
        endpoint: &Endpoint,
    ) -> Result<bool, Errno> {
        let Some(context) = self.free.last().copied() else { return Ok(false) };
        gather.put_first(self.write_frame(context, frame), HEADER_BYTES, self.buffers.desc());
        let (iov, desc) = gather.parts();
        let context_ptr = self.contexts.at(context as usize);
        // SAFETY: as many descriptors as `iovec`s. `self` owns the header's buffer and the context until the provider has finished or the
        // lane has closed the endpoint; the memory belongs to the caller's operation, and `registrations` owns their registrations.
        let posted = unsafe { endpoint.send(iov, desc, context_ptr) };
        let sent = self.sent(posted, context, used)?;
        if sent {
            self.registrations[context as usize] = gather.into_registrations();
        }
        Ok(sent)
    }

    /// Writes a frame into the buffer of a context; returns its address.
    #[inline]
    fn write_frame(&self, context: u32, frame: Frame) -> *mut u8 {
        let at = context as usize * self.buffer_bytes;
        self.buffers.memory().write(at, &encode_frame(self.secret, self.progress, frame));
        self.buffers.memory().address().wrapping_add(at)
    }

    #[inline]
    fn sent(
        &mut self,
        posted: Result<(), Errno>,
        context: u32,
        used: ContextUse,
    ) -> Result<bool, Errno> {
        let sent = self.record(posted, context, used)?;
        if sent {
            self.reported = self.progress;
        }
        Ok(sent)
    }

    /// Starts a transfer; `used` maps the number of bytes that it reads to the context's use. `false` if the queue is full.
    #[inline]
    pub(super) fn transfer(
        &mut self,
        mut gather: Gather,
        remote: Remote,
        direction: Direction,
        used: impl FnOnce(usize) -> ContextUse,
        endpoint: &Endpoint,
    ) -> Result<bool, Errno> {
        let Some(context) = self.free.last().copied() else { return Ok(false) };
        let reads = if direction == Direction::Read { gather.total() } else { 0 };
        if reads > 0 && self.reading > 0 && self.reading + reads > MAX_READ_BYTES {
            return Ok(false);
        }
        let context_ptr = self.contexts.at(context as usize);
        // SAFETY: as many descriptors as `iovec`s. `self` owns the context until the provider has finished or the lane has closed the
        // endpoint; the memory belongs to the caller's operation, and `registrations` owns their registrations.
        let posted = unsafe { endpoint.transfer(&mut gather, remote, direction, context_ptr) };
        let started = self.record(posted, context, used(reads))?;
        if started {
            self.registrations[context as usize] = gather.into_registrations();
            self.reading += reads;
        }
        Ok(started)
    }

    #[inline]
    fn record(
        &mut self,
        posted: Result<(), Errno>,
        context: u32,
        used: ContextUse,
    ) -> Result<bool, Errno> {
        match posted {
            Ok(()) => {
                self.free.pop();
                self.uses[context as usize] = used;
                self.activity += 1;
                Ok(true)
            }
            Err(Errno(libc::EAGAIN)) => {
                self.blocked = true;
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    /// The provider has finished with a context; returns its use.
    #[inline]
    pub(super) fn complete(&mut self, context: usize) -> ContextUse {
        let Some(used) = self.uses.get_mut(context) else { return ContextUse::Free };
        let used = std::mem::replace(used, ContextUse::Free);
        if let ContextUse::Transfer { reads, .. } | ContextUse::Fetch { reads, .. } = used {
            self.reading -= reads;
        }
        if used != ContextUse::Free {
            self.registrations[context].release();
            self.free.push(context as u32);
            self.activity += 1;
        }
        used
    }

    /// The endpoint is closed.
    pub(super) fn abandon(&mut self) {
        self.uses.fill(ContextUse::Free);
        self.registrations.fill_with(HeldRegistrations::default);
        self.free = (0..self.uses.len() as u32).collect();
        self.reading = 0;
    }
}

/// The maximum number of bytes being read at a time. The network throttles writes, but a device sends all requested bytes
/// immediately, and overflowing buffers on the path drop packets: soft-RoCE lost most of 32 MiB.
const MAX_READ_BYTES: usize = 2 << 20;
/// Contexts that are reserved for control frames.
const RESERVED_CONTEXTS: usize = 2;
