//! Memory for operations: pages that a peer or a NIC may write while this process reads them.
//!
//! So it is never a Rust slice: bytes are copied in and out, and single words are read and written
//! atomically. Allocated memory is in a memfd, so that another process on this host can map the
//! same pages. Bytes that the caller passes in are not (private memory), and lanes have slower paths for them.
//!
//! Unsafe here: a `Memory` has an address and a length, and owns the pages or the private memory that make
//! them valid. Other processes, devices and threads may change the bytes at any time: they are copied
//! by `copy`, for which races are defined, and words are accessed as atomics.
#![allow(unsafe_code, reason = "copies to and from its own pages")]

pub(crate) mod aligned_mapping;
pub(crate) mod copy;
mod limits;
mod mapping;
mod prefault;
mod private_bytes;

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, MutexGuard};

use crate::error::{Error, ErrorKind};
use copy::copy;
use mapping::Mapping;
use private_bytes::PrivateBytes;

/// Memory of this process. Clones share it; the last one frees it.
///
/// A peer may write it at any time, so it is never a slice:
/// ```compile_fail,E0308
/// fn as_slice(memory: &fabric::Memory) -> &[u8] {
///     memory
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    backing: Arc<Backing>,
    /// The backing's address, copied here to save an indirection.
    address: NonNull<u8>,
    length: usize,
    id: u64,
}

/// The owner of the bytes.
#[derive(Debug)]
enum Backing {
    Pages(Mapping),
    Private(PrivateBytes),
}

// SAFETY: the bytes belong to the process, not to a thread, and live as long as the backing.
unsafe impl Send for Memory {}
// SAFETY: all access by `&self` is by `copy` and atomics.
unsafe impl Sync for Memory {}

/// Which pages to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// Huge pages if the system has enough reserved, otherwise plain ones.
    #[default]
    Auto,
    /// Plain pages.
    Plain,
    /// Huge pages of 2 MiB, or an error.
    Huge,
}

impl Memory {
    /// Allocates `length` zeroed bytes. Their pages are not faulted in: see [`Memory::prefault`].
    pub fn allocate(length: usize, pages: Pages) -> Result<Self, Error> {
        let call = || format!("allocate {} of memory", size(length as u64));
        if length == 0 {
            return Err(Error::new(
                ErrorKind::Misuse,
                call(),
                "the length is zero",
                "request at least 1 B",
            ));
        }
        let mapping = match pages {
            Pages::Plain => plain(length, &call)?,
            Pages::Huge => Mapping::huge(length).map_err(|error| no_huge_pages(&call, &error))?,
            Pages::Auto if limits::huge_exceeded(Path::new("/"), length as u64) => {
                plain(length, &call)?
            }
            Pages::Auto => match Mapping::huge(length) {
                Ok(mapping) => mapping,
                Err(_) => plain(length, &call)?,
            },
        };
        let address = mapping.address();
        Ok(Self::new(Backing::Pages(mapping), address, length))
    }

    /// Uses the caller's bytes without a copy; [`Memory::into_boxed`] returns them. Other
    /// processes cannot map them: see [`Caps::private_memory`](crate::Caps::private_memory) for how a lane transfers them.
    pub fn from_boxed(bytes: Box<[u8]>) -> Result<Self, Error> {
        Self::from_private(PrivateBytes::boxed(bytes))
    }

    /// As [`Memory::from_boxed`], for bytes that live as long as the process.
    pub fn from_static(bytes: &'static mut [u8]) -> Result<Self, Error> {
        Self::from_private(PrivateBytes::from_static(bytes))
    }

    fn from_private(private: PrivateBytes) -> Result<Self, Error> {
        let (address, length) = (private.address(), private.length());
        if length == 0 {
            let why = "the length is zero";
            return Err(Error::new(
                ErrorKind::Misuse,
                "use the caller's memory",
                why,
                "pass at least 1 B",
            ));
        }
        Ok(Self::new(Backing::Private(private), address, length))
    }

    fn new(backing: Backing, address: NonNull<u8>, length: usize) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Memory { backing: Arc::new(backing), address, length, id }
    }

    /// The caller's bytes, if this is the last clone and no region of it lives.
    pub fn into_boxed(self) -> Result<Box<[u8]>, Memory> {
        let Memory { backing, address, length, id } = self;
        let again = |backing| Memory { backing, address, length, id };
        match Arc::try_unwrap(backing) {
            Err(shared) => Err(again(shared)),
            Ok(Backing::Private(private)) => {
                private.into_boxed().map_err(|private| again(Arc::new(Backing::Private(private))))
            }
            Ok(pages) => Err(again(Arc::new(pages))),
        }
    }

    /// Its length in bytes, as requested.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// An id that is unique among all memories of this process: repeated registrations are recognized
    /// by it.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Its address, for devices and the kernel. Valid as long as a clone of this memory lives.
    pub(crate) fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// Its memfd, sealed against shrinking, for the safety of processes that map it; `None`
    /// for private memory.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        match &*self.backing {
            Backing::Pages(mapping) => Some(mapping.file()),
            Backing::Private(_) => None,
        }
    }

    /// Whether the file was passed to another process for writing, locked while it is passed; `None` for private memory.
    pub(crate) fn shared_for_writing(&self) -> Option<MutexGuard<'_, bool>> {
        match &*self.backing {
            Backing::Pages(mapping) => Some(mapping.shared_for_writing()),
            Backing::Private(_) => None,
        }
    }

    /// Whether its pages are huge: a process that may write the file can free those while others map them.
    pub(crate) fn is_huge(&self) -> bool {
        self.page_size() > rustix::param::page_size()
    }

    /// The size of its pages.
    pub fn page_size(&self) -> usize {
        match &*self.backing {
            Backing::Pages(mapping) => mapping.page_size(),
            Backing::Private(_) => rustix::param::page_size(),
        }
    }

    /// Faults in every page now, on `threads` threads, so that no operation waits for a page fault
    /// later. Calls `progress` with the number of bytes so far, up to [`Memory::len`].
    ///
    /// Where the kernel can, plain pages become huge ones. Returns how many bytes are in huge pages: none in private memory.
    pub fn prefault(&self, threads: usize, progress: impl FnMut(usize)) -> Result<usize, Error> {
        match &*self.backing {
            Backing::Pages(mapping) => prefault::run(mapping, self.length, threads, progress),
            // Their owner has initialized them.
            Backing::Private(_) => Ok(0),
        }
    }

    /// Copies `bytes` in at `offset`.
    ///
    /// # Panics
    /// If the range is out of bounds, as for slices.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: in bounds as just checked; `bytes` is borrowed and no part of this memory.
        unsafe { copy(self.address().add(offset), bytes.as_ptr(), bytes.len()) };
        // Orders the bytes before whatever announces them.
        fence(Ordering::Release);
    }

    /// Copies bytes out from `offset` on. If a peer writes there at the same time, some are old and some new.
    ///
    /// # Panics
    /// If the range is out of bounds, as for slices.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.check(offset, bytes.len());
        fence(Ordering::Acquire);
        // SAFETY: in bounds as just checked; `bytes` is borrowed and no part of this memory.
        unsafe { copy(bytes.as_mut_ptr(), self.address().add(offset), bytes.len()) };
    }

    /// Copies bytes of another memory, or of this one, to `offset` on. If the ranges overlap, the copy
    /// may read what it wrote.
    #[track_caller]
    pub(crate) fn copy(&self, offset: usize, from: &Memory, at: usize, count: usize) {
        self.check(offset, count);
        from.check(at, count);
        fence(Ordering::Acquire);
        // SAFETY: in bounds of both memories, as just checked, and both are borrowed. They may be the same.
        unsafe { copy(self.address().add(offset), from.address().add(at), count) };
        fence(Ordering::Release);
    }

    /// Reads the eight bytes at `offset` atomically. What another thread or
    /// process stored before this value is visible after it. This is not true of devices: only
    /// a completion guarantees that their data has arrived.
    ///
    /// # Panics
    /// If `offset` is out of range or not aligned to eight.
    pub fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Writes eight bytes atomically, after everything that this thread wrote before.
    ///
    /// # Panics
    /// If `offset` is out of range or not aligned to eight.
    pub fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// Atomically adds to the value at `offset`; returns the old value.
    #[track_caller]
    pub(crate) fn fetch_add(&self, offset: usize, add: u64) -> u64 {
        self.word(offset).fetch_add(add, Ordering::AcqRel)
    }

    /// Atomically replaces the value at `offset` if it is `expect`; returns the old value.
    #[track_caller]
    pub(crate) fn compare_swap(&self, offset: usize, expect: u64, new: u64) -> u64 {
        let swapped =
            self.word(offset).compare_exchange(expect, new, Ordering::AcqRel, Ordering::Acquire);
        swapped.unwrap_or_else(|actual| actual)
    }

    #[track_caller]
    fn check(&self, offset: usize, count: usize) {
        let fits = offset.checked_add(count).is_some_and(|end| end <= self.length);
        assert!(fits, "{count} bytes at {offset} in a memory of {}", self.length);
    }

    #[track_caller]
    fn word(&self, offset: usize) -> &AtomicU64 {
        self.check(offset, 8);
        // SAFETY: in bounds as just checked.
        let word = unsafe { self.address().add(offset) };
        assert!(word.addr().is_multiple_of(8), "the word at {offset} is not aligned to eight");
        // SAFETY: eight aligned bytes that live as long as `self`; all access is by atomics and `copy`.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }
}

fn plain(length: usize, call: &impl Fn() -> String) -> Result<Mapping, Error> {
    // The kernel overcommits: it would accept the request, and kill a process later.
    if let Some(limit) = limits::exceeded(Path::new("/"), length as u64) {
        return Err(Error::new(
            ErrorKind::Full,
            call(),
            format!("only {} available ({})", size(limit.left), limit.name),
            limit.fix,
        ));
    }
    Mapping::plain(length).map_err(|error| {
        Error::new(ErrorKind::System, call(), error, "request less, or see the kernel log")
    })
}

fn no_huge_pages(call: &impl Fn() -> String, error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::Full,
        call(),
        format!("not enough huge pages of 2 MiB ({error})"),
        "reserve some: `sysctl vm.nr_hugepages=N`, or use plain pages",
    )
}

/// A size with a binary unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn written_bytes_are_read() {
        let memory = Memory::allocate(3 * MIB + 5, Pages::Plain).unwrap();
        assert_eq!(memory.len(), 3 * MIB + 5);
        memory.write(3 * MIB, b"12345");
        let mut bytes = [0; 5];
        memory.read(3 * MIB, &mut bytes);
        assert_eq!(&bytes, b"12345");
        memory.store(16, 0xfeed);
        assert_eq!(memory.load(16), 0xfeed);
        memory.read(0, &mut []);
    }

    #[test]
    fn writes_change_exactly_their_range() {
        let memory = Memory::allocate(64, Pages::Plain).unwrap();
        for offset in 0..20 {
            for length in 0..20 {
                memory.write(0, &[0xaa; 64]);
                let bytes: Vec<u8> = (1..=length as u8).collect();
                memory.write(offset, &bytes);
                let mut all = [0; 64];
                memory.read(0, &mut all);
                let mut expected = [0xaa; 64];
                expected[offset..offset + length].copy_from_slice(&bytes);
                assert_eq!(all, expected, "{length} bytes at {offset}");
                let mut part = vec![0; length];
                memory.read(offset, &mut part);
                assert_eq!(part, bytes);
            }
        }
    }

    #[test]
    fn only_the_last_clone_returns_caller_owned_bytes() {
        let memory = Memory::from_boxed(vec![7; 11].into_boxed_slice()).unwrap();
        let clone = memory.clone();
        clone.write(9, &[1, 2]);
        let memory = memory.into_boxed().expect_err("a clone lives");
        drop(clone);
        assert_eq!(*memory.into_boxed().unwrap(), [7, 7, 7, 7, 7, 7, 7, 7, 7, 1, 2]);
        Memory::from_boxed(Box::new([])).expect_err("no bytes");
        let leaked = Memory::from_static(vec![1; 3].leak()).unwrap();
        leaked.into_boxed().expect_err("a static slice is no box");
        Memory::allocate(1, Pages::Plain)
            .unwrap()
            .into_boxed()
            .expect_err("allocated pages are no box");
    }

    #[test]
    fn threads_that_write_neighbouring_bytes_do_not_undo_each_other() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let memory = &memory;
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        memory.write(usize::from(thread), &[thread + 1]);
                    }
                });
            }
        });
        let mut bytes = [0; 4];
        memory.read(0, &mut bytes);
        assert_eq!(bytes, [1, 2, 3, 4]);
    }

    #[test]
    fn new_memory_is_zero_and_clones_share_it() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let clone = memory.clone();
        assert_eq!(memory.load(4088), 0);
        clone.store(0, 1);
        drop(clone);
        assert_eq!(memory.load(0), 1);
    }

    #[test]
    fn prefault_counts_every_byte() {
        let memory = Memory::allocate(150 * MIB + 1, Pages::Plain).unwrap();
        let mut steps = Vec::new();
        memory.prefault(3, |done| steps.push(done)).unwrap();
        assert!(steps.is_sorted() && steps.len() > 1, "{steps:?}");
        assert_eq!(steps.last(), Some(&memory.len()));
        let Backing::Pages(mapping) = &*memory.backing else { panic!("pages of our own") };
        assert_eq!(mapping.resident(), 150 * MIB + 4096);
    }

    #[test]
    fn prefaulting_memory_in_use_keeps_its_bytes() {
        let memory = Memory::allocate(70 * MIB + 5, Pages::Plain).unwrap();
        let places = [0, 2 * MIB - 8, 2 * MIB, 63 * MIB, 64 * MIB, 70 * MIB - 8];
        places.iter().for_each(|at| memory.store(*at, *at as u64 + 1));
        let huge = memory.prefault(2, |_| ()).unwrap();
        assert!(huge <= 70 * MIB && huge.is_multiple_of(2 * MIB), "{huge}");
        assert!(places.iter().all(|at| memory.load(*at) == *at as u64 + 1));
        assert_eq!(memory.load(MIB), 0);
    }

    #[test]
    fn more_than_the_available_memory_is_refused_with_the_limits_name() {
        let error = Memory::allocate(1 << 50, Pages::Auto).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full);
        let text = error.to_string();
        assert!(text.starts_with("allocate 1024.0 TiB of memory: only "), "{text}");
        assert!(text.contains("available ("), "{text}");
    }

    #[test]
    fn a_length_of_zero_is_misuse() {
        assert_eq!(Memory::allocate(0, Pages::Auto).unwrap_err().kind(), ErrorKind::Misuse);
    }

    #[test]
    fn huge_pages_are_used_or_refused_with_a_fix() {
        match Memory::allocate(2 * MIB, Pages::Huge) {
            Ok(memory) => assert_eq!(memory.page_size(), 2 * MIB),
            Err(error) => assert!(error.to_string().contains("vm.nr_hugepages"), "{error}"),
        }
        // `Auto` falls back to plain pages.
        Memory::allocate(2 * MIB, Pages::Auto).unwrap().store(0, 1);
    }

    #[test]
    #[should_panic(expected = "2 bytes at 4095 in a memory of 4096")]
    fn a_write_out_of_bounds_panics() {
        Memory::allocate(4096, Pages::Plain).unwrap().write(4095, &[0, 0]);
    }

    #[test]
    fn the_memfd_cannot_be_resized() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let file = std::fs::File::from(memory.file().unwrap().try_clone_to_owned().unwrap());
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(8192).is_err());
    }
}
