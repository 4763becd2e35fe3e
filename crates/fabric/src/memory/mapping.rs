//! A mapped memfd: the owner of the pages.
//!
//! Unsafe here: `Mapping` maps its pages once, in `new`, and unmaps them in `Drop` only. Other
//! processes, devices and our own threads may change the bytes at any time, so they are only ever
//! accessed as atomic words of one size, which no race makes undefined. Every method takes offsets
//! that its caller, `Memory`, has checked against the length; the mapping is whole pages, so the
//! word around any byte of it is inside.
#![allow(unsafe_code, reason = "maps memory and makes atomics of it")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A shared mapping of a memfd of our own.
#[derive(Debug)]
pub(super) struct Mapping {
    file: OwnedFd,
    address: NonNull<u8>,
    /// A multiple of the page size.
    length: usize,
    page_size: usize,
    id: u64,
}

// SAFETY: the pages belong to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: all access is by atomics, in `word`.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn plain(length: usize) -> io::Result<Self> {
        Self::new(length, rustix::param::page_size(), MemfdFlags::empty())
    }

    pub(super) fn huge(length: usize) -> io::Result<Self> {
        Self::new(length, HUGE_PAGE, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)
    }

    fn new(length: usize, page_size: usize, kind: MemfdFlags) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | kind;
        let file = memfd_create("wirelane", flags)?;
        let length =
            length.checked_next_multiple_of(page_size).ok_or(io::ErrorKind::OutOfMemory)?;
        ftruncate(&file, length as u64)?;
        // Whoever maps this file must not find it shorter one day: that would be a SIGBUS.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no mapping of anybody's is replaced.
        let address = unsafe { mmap(null_mut(), length, protection, MapFlags::SHARED, &file, 0) }?;
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(Mapping { file, address, length, page_size, id })
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn page_size(&self) -> usize {
        self.page_size
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        let (head, words, tail) = cut(offset, bytes.len());
        self.write_part(offset, &bytes[..head]);
        let mut at = offset + head;
        for chunk in bytes[head..head + words].chunks_exact(WORD) {
            let word = u64::from_ne_bytes(chunk.try_into().expect("a chunk is a word"));
            self.word(at).store(word, Ordering::Relaxed);
            at += WORD;
        }
        self.write_part(at, &bytes[bytes.len() - tail..]);
        // What is announced after this, was written before it.
        fence(Ordering::Release);
    }

    pub(super) fn read(&self, offset: usize, bytes: &mut [u8]) {
        fence(Ordering::Acquire);
        let length = bytes.len();
        let (head, words, tail) = cut(offset, length);
        self.read_part(offset, &mut bytes[..head]);
        let mut at = offset + head;
        for chunk in bytes[head..head + words].chunks_exact_mut(WORD) {
            chunk.copy_from_slice(&self.word(at).load(Ordering::Relaxed).to_ne_bytes());
            at += WORD;
        }
        self.read_part(at, &mut bytes[length - tail..]);
    }

    /// Changes some bytes of one word and none of their neighbours, whoever writes those.
    fn write_part(&self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = offset % WORD;
        let with = |word: u64| {
            let mut word = word.to_ne_bytes();
            word[at..at + bytes.len()].copy_from_slice(bytes);
            Some(u64::from_ne_bytes(word))
        };
        let word = self.word(offset - at);
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
    }

    fn read_part(&self, offset: usize, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = offset % WORD;
        let word = self.word(offset - at).load(Ordering::Relaxed).to_ne_bytes();
        bytes.copy_from_slice(&word[at..at + bytes.len()]);
    }

    pub(super) fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    pub(super) fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offset is a multiple of eight within the mapping, whose start is one too and
        // whose length is whole pages: `Memory` and the methods above see to it. The pages live as
        // long as `self`, and nothing else ever accesses them but as such words.
        unsafe { AtomicU64::from_ptr(self.address.add(offset).as_ptr().cast()) }
    }

    /// Brings the pages of this range into memory. Start and length are multiples of the page size.
    pub(super) fn populate(&self, start: usize, length: usize) -> io::Result<()> {
        // SAFETY: the range lies within the mapping: `prefault` cuts it from `length()`.
        let from = unsafe { self.address.add(start).as_ptr() };
        // SAFETY: as above; populating changes no byte.
        let populated = unsafe { madvise(from.cast(), length, Advice::LinuxPopulateWrite) };
        match populated {
            // Kernels before 5.14 do not know the advice.
            Err(rustix::io::Errno::INVAL) => {
                self.touch(start, length);
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Adds nothing to a word of every page, which brings it in and cannot undo another's write.
    fn touch(&self, start: usize, length: usize) {
        for page in (start..start + length).step_by(self.page_size) {
            self.word(page).fetch_add(0, Ordering::Relaxed);
        }
    }

    /// How many bytes of it are in memory.
    #[cfg(test)]
    pub(super) fn resident(&self) -> usize {
        let status = rustix::fs::fstat(&self.file).expect("our own file");
        usize::try_from(status.st_blocks).expect("a count") * 512
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, unmapped here only; `Memory` holds the mapping
        // by `Arc`, so nobody uses the pages any more. A failure leaves nothing to be done.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.length) };
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
const HUGE_PAGE: usize = 2 << 20;
const WORD: usize = 8;

/// Cuts a range into bytes before the first whole word, bytes in whole words, and bytes after.
fn cut(offset: usize, length: usize) -> (usize, usize, usize) {
    let head = (offset.next_multiple_of(WORD) - offset).min(length);
    let tail = (length - head) % WORD;
    (head, length - head - tail, tail)
}
