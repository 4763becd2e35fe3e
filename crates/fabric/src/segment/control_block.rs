//! State that one end writes and the other reads: its ring, its read position in the peer's ring, whether it
//! sleeps, and which of its grants are valid. It is a lane's own; the slot block of a store's client (`kv_proto::wire`) is another,
//! in memory that the client has granted.
//!
//! Unsafe here: a control block is a mapping of a sealed memfd, mapped once and unmapped in `Drop`; all offsets
//! are constants or checked here. The owner's mapping is the only writable one. What
//! the peer wrote is not trusted: numbers are atomics, checked by their readers, and bytes are
//! copied out before they are parsed. The peer's pages are mapped for reading only, where only relaxed loads are defined: fences
//! order them.
#![allow(unsafe_code, reason = "maps control blocks and copies ring bytes")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::ProtFlags;

use super::access::{self, Word};
use super::mapping::{MappedPages, is_huge};
use super::sleep_flag::SleepFlag;
use crate::iovec::IoVec;
use crate::memory::copy::copy;

/// Our own control block of a lane.
#[derive(Debug)]
pub(crate) struct ControlBlock {
    file: OwnedFd,
    pages: MappedPages,
}

impl ControlBlock {
    /// `probe`: a random number, to verify access to the peer's memory.
    pub(crate) fn new(probe: u64) -> io::Result<Self> {
        let file = memfd_create(
            "wirelane-control-block",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&file, SIZE as u64)?;
        let pages = MappedPages::map(&file, SIZE, ProtFlags::READ | ProtFlags::WRITE)?;
        // After our own mapping: from now on it can be neither mapped for writing nor shortened.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE;
        fcntl_add_seals(&file, seals)?;
        pages.word64(PROBE).store(probe, Ordering::Relaxed);
        Ok(ControlBlock { file, pages })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Sets the mark of the record at this position, the start of a cache line.
    #[inline]
    pub(crate) fn set_mark(&self, at: u64, mark: u64) {
        self.pages.word64(DATA + line(at)).store(mark, Ordering::Release);
    }

    pub(crate) fn set_head(&self, head: u64) {
        self.pages.word64(HEAD).store(head, Ordering::Release);
    }

    /// Announces that nothing more will be written.
    pub(crate) fn set_ended(&self) {
        self.pages.word64(ENDED).store(1, Ordering::Release);
    }

    pub(crate) fn sleeping(&self) -> Sleeping<'_> {
        Sleeping(self.pages.word(SLEEPING))
    }

    /// Marks the grant as valid.
    pub(crate) fn set_granted(&self, grant: GrantId) {
        self.pages.word(SLOT + 4 * grant.slot).store(grant.generation, Ordering::SeqCst);
    }

    /// Marks the grant as invalid; a later one in its slot is not changed.
    pub(crate) fn revoke(&self, grant: GrantId) {
        let word = self.pages.word(SLOT + 4 * grant.slot);
        let _ = word.compare_exchange(grant.generation, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(crate) fn is_granted(&self, grant: GrantId) -> bool {
        let word = self.pages.word(SLOT + 4 * grant.slot);
        word.load(Ordering::Relaxed) == grant.generation
    }

    /// The address of the probe in our process: reading it through the kernel must give the value in the control block.
    pub(crate) fn probe_address(&self) -> u64 {
        self.pages.at(PROBE).addr() as u64
    }

    /// Announces which of the peer's grants we are accessing. Its owner waits for the access to end before it reuses the memory.
    #[inline]
    pub(crate) fn start_access(&self, grant: GrantId) {
        access::announce(self.pages.word64(ACCESSING), grant.mark());
    }

    #[inline]
    pub(crate) fn end_access(&self) {
        self.pages.word64(ACCESSING).store(0, Ordering::Release);
    }

    /// Copies parts into the ring from position `at` on, `length` bytes in all.
    ///
    /// # Safety
    /// The parts are readable during the call.
    pub(crate) unsafe fn fill(&self, at: u64, parts: &[IoVec], length: usize) {
        walk(at, parts, length, |offset, part, count| {
            // SAFETY: within the ring, up to its end; the part is readable as the caller guarantees.
            unsafe { copy(self.pages.at(DATA + offset), part, count) };
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
    pages: MappedPages,
}

impl PeerControlBlock {
    /// Maps it for reading, if it is sealed against shrinking.
    pub(crate) fn new(file: &OwnedFd) -> io::Result<Self> {
        if is_huge(file)? {
            let why = "its huge pages could be freed by the peer";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(PeerControlBlock { pages: MappedPages::map_sealed(file, SIZE, ProtFlags::READ)? })
    }

    #[inline]
    pub(crate) fn mark(&self, at: u64) -> u64 {
        self.word64(DATA + line(at))
    }

    pub(crate) fn head(&self) -> u64 {
        self.word64(HEAD)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.word64(ENDED) != 0
    }

    pub(crate) fn sleeping(&self) -> Sleeping<'_> {
        Sleeping(self.pages.word(SLEEPING))
    }

    /// Whether a grant is valid.
    #[inline]
    pub(crate) fn is_granted(&self, grant: GrantId) -> bool {
        access::is_granted(self.pages.word(SLOT + 4 * grant.slot), grant.generation)
    }

    /// Whether the peer is accessing this grant of ours.
    pub(crate) fn is_accessing(&self, grant: GrantId) -> bool {
        self.accessing() == grant.mark()
    }

    /// The mark of the grant that the peer is accessing; zero if none.
    pub(crate) fn accessing(&self) -> u64 {
        access::announced(self.pages.word64(ACCESSING))
    }

    pub(crate) fn probe(&self) -> u64 {
        self.word64(PROBE)
    }

    /// What the peer wrote before this number is visible after it.
    #[inline]
    fn word64(&self, offset: usize) -> u64 {
        let number = self.pages.word64(offset).load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        number
    }

    /// Copies bytes of the ring from position `at` on into parts, `length` bytes in all.
    ///
    /// # Safety
    /// The parts are writable during the call.
    pub(crate) unsafe fn drain(&self, at: u64, parts: &[IoVec], length: usize) {
        walk(at, parts, length, |offset, part, count| {
            // SAFETY: within the ring, up to its end; the part is writable as the caller guarantees.
            unsafe { copy(part, self.pages.at(DATA + offset), count) };
        });
    }
}

/// Visits `length` bytes of the ring from position `at` on and of the parts, in runs that are contiguous
/// in both: offset in the ring, address in memory, length.
#[inline]
fn walk(
    mut at: u64,
    parts: &[IoVec],
    mut length: usize,
    mut run: impl FnMut(usize, *mut u8, usize),
) {
    debug_assert!(length <= RING_BYTES);
    let mut offset = (at % RING_BYTES as u64) as usize;
    if offset + length <= RING_BYTES {
        for part in parts {
            if length == 0 {
                break;
            }
            let count = part.length.min(length);
            run(offset, part.address, count);
            (offset, length) = (offset + count, length - count);
        }
        return;
    }
    for part in parts {
        let mut done = 0;
        let take = part.length.min(length);
        while done < take {
            let offset = (at % RING_BYTES as u64) as usize;
            let count = (take - done).min(RING_BYTES - offset);
            run(offset, part.address.wrapping_add(done), count);
            done += count;
            at += count as u64;
        }
        length -= take;
    }
}

/// The slot of a grant in the control block, and the slot's value while the grant is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GrantId {
    slot: usize,
    generation: u32,
}

impl GrantId {
    /// By the grant's key; `None` if control blocks have no such slot.
    pub(crate) fn of(key: u128) -> Option<Self> {
        let slot = usize::from(key as u16);
        // Zero is the value of a free slot.
        let generation = (key >> 16) as u32 | 1;
        (slot < SLOTS).then_some(GrantId { slot, generation })
    }

    /// As one value, never zero.
    fn mark(self) -> u64 {
        (self.slot as u64) << 32 | u64::from(self.generation)
    }
}

/// The flag of an end that sleeps.
pub(crate) struct Sleeping<'b>(&'b AtomicU32);

impl SleepFlag for Sleeping<'_> {
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

impl Word for AtomicU64 {
    type Value = u64;

    #[inline]
    fn store(&self, value: u64) {
        AtomicU64::store(self, value, Ordering::Release);
    }

    #[inline]
    fn load(&self) -> u64 {
        AtomicU64::load(self, Ordering::Relaxed)
    }

    #[inline]
    fn fence(ordering: Ordering) {
        fence(ordering);
    }
}

impl Word for AtomicU32 {
    type Value = u32;

    #[inline]
    fn store(&self, value: u32) {
        AtomicU32::store(self, value, Ordering::Release);
    }

    #[inline]
    fn load(&self) -> u32 {
        AtomicU32::load(self, Ordering::Relaxed)
    }

    #[inline]
    fn fence(ordering: Ordering) {
        fence(ordering);
    }
}

/// An offset in the ring, rounded to the alignment of a mark, which valid positions already have.
#[inline]
fn line(at: u64) -> usize {
    (at % RING_BYTES as u64) as usize & !7
}

impl MappedPages {
    fn word64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: a constant of this file, or an offset in the ring rounded to eight: aligned, within the
        // pages, which live as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `SLEEPING`, or the slot of a `GrantId`, which `GrantId::of` has checked: aligned, within the pages,
        // which live as long as `self`.
        unsafe { AtomicU32::from_ptr(self.at(offset).cast()) }
    }
}

// Each on its own cache line: they are written at different times by one end and polled by the
// other.
const HEAD: usize = 64;
const SLEEPING: usize = 128;
const ENDED: usize = 192;
const ACCESSING: usize = 256;
const PROBE: usize = 320;
const SLOT: usize = 4096;
/// The maximum number of valid grants of one lane.
const SLOTS: usize = 4096;
const DATA: usize = SLOT + 4 * SLOTS + 4096 - (SLOT + 4 * SLOTS) % 4096;
/// Capacity of the ring: several records of the maximum length, and small compared to a cache.
pub(crate) const RING_BYTES: usize = 256 << 10;
const SIZE: usize = DATA + RING_BYTES;
