//! What one end writes and the other reads: its ring, how far the peer's ring is read, whether it
//! sleeps, and which of its grants still hold.
//!
//! Unsafe here: a control block is a mapping of a sealed memfd, mapped once and unmapped in `Drop`; all offsets
//! are constants or checked here. The owner's mapping is the only writable one there can ever be. What
//! the peer wrote is never believed: numbers are atomics, checked by who reads them, and bytes are
//! copied out before they are looked at.
#![allow(unsafe_code, reason = "maps control blocks and copies ring bytes")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::ProtFlags;

use super::doorbell::Flag;
use super::mapping::{Pages, is_huge};
use crate::iovec::Part;
use crate::memory::copy::copy;

/// Our own control block.
#[derive(Debug)]
pub(crate) struct ControlBlock {
    file: OwnedFd,
    pages: Pages,
}

impl ControlBlock {
    /// `probe`: any number that is unlikely elsewhere.
    pub(crate) fn new(probe: u64) -> io::Result<Self> {
        let file = memfd_create(
            "wirelane-control-block",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&file, SIZE as u64)?;
        let pages = Pages::map(&file, SIZE, ProtFlags::READ | ProtFlags::WRITE)?;
        // After our own mapping: from now on nobody can map it for writing, or make it shorter.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE;
        fcntl_add_seals(&file, seals)?;
        pages.number(PROBE).store(probe, Ordering::Relaxed);
        Ok(ControlBlock { file, pages })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Sets the mark of the record at this position, which is one of a line.
    #[inline]
    pub(crate) fn set_mark(&self, at: u64, mark: u64) {
        self.pages.number(DATA + line(at)).store(mark, Ordering::Release);
    }

    pub(crate) fn set_head(&self, head: u64) {
        self.pages.number(HEAD).store(head, Ordering::Release);
    }

    /// Nothing more will be written.
    pub(crate) fn set_ended(&self) {
        self.pages.number(ENDED).store(1, Ordering::Release);
    }

    pub(crate) fn sleeping(&self) -> Sleeping<'_> {
        Sleeping(self.pages.word(SLEEPING))
    }

    /// From now on the grant holds.
    pub(crate) fn set_granted(&self, grant: GrantId) {
        self.pages.word(SLOT + 4 * grant.slot).store(grant.generation, Ordering::SeqCst);
    }

    /// The grant does not hold any more; a later one in its slot is left alone.
    pub(crate) fn revoke(&self, grant: GrantId) {
        let word = self.pages.word(SLOT + 4 * grant.slot);
        let _ = word.compare_exchange(grant.generation, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(crate) fn still_holds(&self, grant: GrantId) -> bool {
        let word = self.pages.word(SLOT + 4 * grant.slot);
        word.load(Ordering::Relaxed) == grant.generation
    }

    /// Where the peer's kernel finds a number that the peer can read in the control block too.
    pub(crate) fn probe_address(&self) -> u64 {
        self.pages.at(PROBE).addr() as u64
    }

    /// Says which grant of the peer's we touch right now. Its owner takes it back only in between.
    #[inline]
    pub(crate) fn touch(&self, grant: GrantId) {
        self.pages.number(TOUCHING).store(grant.mark(), Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn let_go(&self) {
        self.pages.number(TOUCHING).store(0, Ordering::Release);
    }

    /// Copies parts into the ring from position `at` on, `length` bytes in all.
    ///
    /// # Safety
    /// The parts are readable during the call.
    pub(crate) unsafe fn fill(&self, at: u64, parts: &[Part], length: usize) {
        walk(at, parts, length, |place, part, count| {
            // SAFETY: within the ring, up to its end; the part is readable by the caller's word.
            unsafe { copy(self.pages.at(DATA + place), part, count) };
        });
    }
}

#[cfg(test)]
impl ControlBlock {
    pub(crate) fn head_for_test(&self) -> *mut u8 {
        self.pages.at(HEAD)
    }
}

/// The peer's control block.
#[derive(Debug)]
pub(crate) struct PeerControlBlock {
    pages: Pages,
}

impl PeerControlBlock {
    /// Maps it for reading, if nobody can shorten it.
    pub(crate) fn new(file: &OwnedFd) -> io::Result<Self> {
        if is_huge(file)? {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "huge pages can be torn out"));
        }
        Ok(PeerControlBlock { pages: Pages::map_sealed(file, SIZE, ProtFlags::READ)? })
    }

    #[inline]
    pub(crate) fn mark(&self, at: u64) -> u64 {
        self.pages.number(DATA + line(at)).load(Ordering::Acquire)
    }

    pub(crate) fn head(&self) -> u64 {
        self.pages.number(HEAD).load(Ordering::Acquire)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.pages.number(ENDED).load(Ordering::Acquire) != 0
    }

    pub(crate) fn sleeping(&self) -> Sleeping<'_> {
        Sleeping(self.pages.word(SLEEPING))
    }

    /// Whether a grant still holds.
    #[inline]
    pub(crate) fn holds(&self, grant: GrantId) -> bool {
        self.pages.word(SLOT + 4 * grant.slot).load(Ordering::SeqCst) == grant.generation
    }

    /// Whether the peer touches this grant of ours right now.
    pub(crate) fn touches(&self, grant: GrantId) -> bool {
        self.touching() == grant.mark()
    }

    /// Which grant of ours the peer touches right now: none if zero.
    pub(crate) fn touching(&self) -> u64 {
        self.pages.number(TOUCHING).load(Ordering::SeqCst)
    }

    pub(crate) fn probe(&self) -> u64 {
        self.pages.number(PROBE).load(Ordering::Relaxed)
    }

    /// Copies bytes of the ring from position `at` on into parts, `length` bytes in all.
    ///
    /// # Safety
    /// The parts are writable during the call.
    pub(crate) unsafe fn drain(&self, at: u64, parts: &[Part], length: usize) {
        walk(at, parts, length, |place, part, count| {
            // SAFETY: within the ring, up to its end; the part is writable by the caller's word.
            unsafe { copy(part, self.pages.at(DATA + place), count) };
        });
    }
}

/// Goes through `length` bytes of the ring from position `at` on and of the parts, in runs that are whole
/// in both: where in the ring, where in memory, how many.
#[inline]
fn walk(
    mut at: u64,
    parts: &[Part],
    mut length: usize,
    mut run: impl FnMut(usize, *mut u8, usize),
) {
    debug_assert!(length <= RING);
    for part in parts {
        let mut done = 0;
        let take = part.length.min(length);
        while done < take {
            let place = (at % RING as u64) as usize;
            let count = (take - done).min(RING - place);
            run(place, part.address.wrapping_add(done), count);
            done += count;
            at += count as u64;
        }
        length -= take;
    }
}

/// Which slot of a control block tells whether a grant holds, and what stands there while it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GrantId {
    slot: usize,
    generation: u32,
}

impl GrantId {
    /// By the grant's key; `None` if control blocks have no such slot.
    pub(crate) fn of(key: u128) -> Option<Self> {
        let slot = usize::from(key as u16);
        // Zero stands in slots of grants that do not hold.
        let generation = (key >> 16) as u32 | 1;
        (slot < SLOTS).then_some(GrantId { slot, generation })
    }

    /// As one number, never zero.
    fn mark(self) -> u64 {
        (self.slot as u64) << 32 | u64::from(self.generation)
    }
}

/// The word that tells whether an end sleeps.
pub(crate) struct Sleeping<'b>(&'b AtomicU32);

impl Flag for Sleeping<'_> {
    fn store(&self, value: u32) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn load(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// A position of the ring, rounded to a number's alignment: positions of marks are so anyway.
#[inline]
fn line(at: u64) -> usize {
    (at % RING as u64) as usize & !7
}

impl Pages {
    fn number(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: a constant of this file, or a place in the ring rounded to eight: aligned, within the
        // pages, which live as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as above; slots by `GrantId::of`.
        unsafe { AtomicU32::from_ptr(self.at(offset).cast()) }
    }
}

// Each on a cache line of its own: they are written at different times by one end and watched by the
// other.
const HEAD: usize = 64;
const SLEEPING: usize = 128;
const ENDED: usize = 192;
const TOUCHING: usize = 256;
const PROBE: usize = 320;
const SLOT: usize = 4096;
/// How many grants of one lane may hold at once.
const SLOTS: usize = 4096;
const DATA: usize = SLOT + 4 * SLOTS + 4096 - (SLOT + 4 * SLOTS) % 4096;
/// Bytes of the ring: a few of the pieces that large messages are cut into, and small beside a cache.
pub(crate) const RING: usize = 256 << 10;
const SIZE: usize = DATA + RING;
