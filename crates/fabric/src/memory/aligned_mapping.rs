//! Shared mappings of files at addresses where the kernel can map huge pages.
//!
//! Unsafe here: an address range is reserved first, and only pages of that reservation are replaced and unmapped.
#![allow(unsafe_code, reason = "maps files")]

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Maps a file, all of it, for sharing. From one huge page on it begins at a multiple of their size: otherwise the kernel maps
/// it page by page, even where it has huge pages in memory.
pub(crate) fn map_shared(
    file: impl AsFd,
    length: usize,
    rights: ProtFlags,
) -> io::Result<*mut c_void> {
    if length < HUGE_PAGE {
        // SAFETY: the kernel chooses the address, so no mapping is replaced.
        return Ok(unsafe { mmap(null_mut(), length, rights, MapFlags::SHARED, file, 0) }?);
    }
    let length = length.next_multiple_of(rustix::param::page_size());
    let reserved = length.checked_add(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses the address, so no mapping is replaced.
    let start = unsafe { mmap_anonymous(null_mut(), reserved, ProtFlags::empty(), flags) }?;
    let before = start.addr().next_multiple_of(HUGE_PAGE) - start.addr();
    let address = start.wrapping_byte_add(before);
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: the range is part of the reservation, since `before` is less than a huge page; nothing else uses it.
    let mapped = unsafe { mmap(address, length, rights, flags, file, 0) };
    let after = (address.wrapping_byte_add(length), HUGE_PAGE - before);
    let unused = match mapped {
        Ok(_) => [(start, before), after],
        Err(_) => [(start, reserved), (start, 0)],
    };
    for (from, length) in unused.into_iter().filter(|(_, length)| *length > 0) {
        // SAFETY: pages of the reservation that the file does not occupy; nothing uses them. A failure only leaves them reserved.
        let _ = unsafe { munmap(from, length) };
    }
    Ok(mapped?)
}

/// The size of the huge pages that are used: 2 MiB.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn files_from_one_huge_page_on_are_mapped_at_a_multiple_of_it() {
        let page = rustix::param::page_size();
        for pages in [1, 511, 512, 513, 1024, 1537] {
            let file = memfd_create("aligned", MemfdFlags::CLOEXEC).unwrap();
            let length = pages * page;
            ftruncate(&file, length as u64).unwrap();
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            let address = map_shared(&file, length, rights).unwrap();
            assert!(length < HUGE_PAGE || address.addr().is_multiple_of(HUGE_PAGE), "{pages}");
            for at in [0, length - 1] {
                // SAFETY: within the mapping, which is this test's.
                unsafe { address.cast::<u8>().add(at).write(at as u8) };
            }
            let mut last = [0];
            rustix::io::pread(&file, &mut last, length as u64 - 1).unwrap();
            assert_eq!(last, [(length - 1) as u8], "it is the file");
            // SAFETY: mapped above, and not used any more.
            unsafe { munmap(address, length) }.unwrap();
        }
    }

    #[test]
    fn a_file_that_cannot_be_mapped_leaves_no_reservation() {
        let file = std::fs::File::open("/proc/self/statm").unwrap();
        let pages = || -> usize {
            let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
            sizes.split(' ').next().unwrap().parse().unwrap()
        };
        let before = pages();
        for _ in 0..100 {
            assert!(map_shared(&file, 1 << 30, ProtFlags::READ).is_err());
        }
        let more = (pages().saturating_sub(before)) * rustix::param::page_size();
        assert!(more < 50 << 30, "{more} bytes are still reserved");
    }
}
