//! Copying bytes that another process, a device or another thread may be writing.
//!
//! Unsafe here: source and destination are raw pointers that the caller guarantees. The copy itself is written in
//! assembly, about which the compiler makes no assumptions: the result of a race is
//! a mix of old and new bytes, not undefined behaviour. `std::ptr::copy` does not guarantee that.
#![allow(unsafe_code, reason = "copies between raw pointers")]

/// Copies `length` bytes. If source and destination overlap, the copy may read bytes that it wrote: which ones is not defined.
///
/// # Safety
/// `from` is readable and `to` writable for `length` bytes during the call.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // Measured (Xeon, 2026-11): the string instruction is as fast as memcpy from 4 KiB on, and
    // its start is too slow below 2 KiB.
    if length >= 2048 {
        // SAFETY: guaranteed by the caller.
        unsafe { string_copy(to, from, length) };
    } else if length >= 64 && std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: guaranteed by the caller; the CPU has the instructions.
        unsafe { wide_copy(to, from, length) };
    } else {
        // SAFETY: guaranteed by the caller.
        unsafe { short_copy(to, from, length) };
    }
}

/// By 64 bytes, each with one instruction, then the rest.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn wide_copy(to: *mut u8, from: *const u8, length: usize) {
    let (rest_to, rest_from): (*mut u8, *const u8);
    // SAFETY: reads and writes whole lines of the caller's `length` bytes, at least one.
    unsafe {
        std::arch::asm!(
            "2:",
            "vmovups zmm31, [{s}]",
            "vmovups [{t}], zmm31",
            "add {s}, 64",
            "add {t}, 64",
            "dec {n}",
            "jnz 2b",
            n = inout(reg) length / 64 => _,
            s = inout(reg) from => rest_from, t = inout(reg) to => rest_to,
            out("zmm31") _,
            options(nostack),
        );
    }
    // SAFETY: what is left of both.
    unsafe { short_copy(rest_to, rest_from, length % 64) };
}

#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn string_copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: reads and writes `length` bytes of the caller's; the direction flag is clear by the
    // calling convention.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") length => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}

/// By 64 bytes, then the rest by 32, 16, 8, 4, 2 and 1. An aligned word is copied with one instruction.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn short_copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: reads and writes `length` bytes of the caller's, each once.
    unsafe {
        std::arch::asm!(
            "cmp {n}, 64",
            "jb 3f",
            "2:",
            "movups {a}, [{s}]",
            "movups {b}, [{s} + 16]",
            "movups {c}, [{s} + 32]",
            "movups {d}, [{s} + 48]",
            "movups [{t}], {a}",
            "movups [{t} + 16], {b}",
            "movups [{t} + 32], {c}",
            "movups [{t} + 48], {d}",
            "add {s}, 64",
            "add {t}, 64",
            "sub {n}, 64",
            "cmp {n}, 64",
            "jae 2b",
            "3:",
            "test {n:l}, 32",
            "jz 4f",
            "movups {a}, [{s}]",
            "movups {b}, [{s} + 16]",
            "movups [{t}], {a}",
            "movups [{t} + 16], {b}",
            "add {s}, 32",
            "add {t}, 32",
            "4:",
            "test {n:l}, 16",
            "jz 5f",
            "movups {a}, [{s}]",
            "movups [{t}], {a}",
            "add {s}, 16",
            "add {t}, 16",
            "5:",
            "test {n:l}, 8",
            "jz 6f",
            "mov {w}, [{s}]",
            "mov [{t}], {w}",
            "add {s}, 8",
            "add {t}, 8",
            "6:",
            "test {n:l}, 7",
            "jz 9f",
            "test {n:l}, 4",
            "jz 7f",
            "mov {w:e}, [{s}]",
            "mov [{t}], {w:e}",
            "add {s}, 4",
            "add {t}, 4",
            "7:",
            "test {n:l}, 2",
            "jz 8f",
            "mov {w:x}, [{s}]",
            "mov [{t}], {w:x}",
            "add {s}, 2",
            "add {t}, 2",
            "8:",
            "test {n:l}, 1",
            "jz 9f",
            "mov {w:l}, [{s}]",
            "mov [{t}], {w:l}",
            "9:",
            n = inout(reg) length => _, s = inout(reg) from => _, t = inout(reg) to => _,
            w = out(reg) _,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// On other architectures by relaxed atomics: words where both sides are aligned, otherwise bytes.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { atomic_copy(to, from, length) };
}

#[cfg(any(test, not(target_arch = "x86_64")))]
unsafe fn atomic_copy(to: *mut u8, from: *const u8, length: usize) {
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
    let mut at = 0;
    while at < length {
        // SAFETY: within the caller's `length` bytes.
        let (to, from) = unsafe { (to.add(at), from.add(at)) };
        if length - at >= 8 && to.addr() % 8 == 0 && from.addr() % 8 == 0 {
            // SAFETY: eight bytes of the caller's at either end, aligned as just seen.
            let (to, from) = unsafe {
                (AtomicU64::from_ptr(to.cast()), AtomicU64::from_ptr(from.cast_mut().cast()))
            };
            to.store(from.load(Relaxed), Relaxed);
            at += 8;
        } else {
            // SAFETY: one byte of the caller's at either end.
            let (to, from) =
                unsafe { (AtomicU8::from_ptr(to), AtomicU8::from_ptr(from.cast_mut())) };
            to.store(from.load(Relaxed), Relaxed);
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths around the thresholds, with different alignments; bytes outside must not change.
    #[test]
    fn every_length_and_alignment_is_copied() {
        let from: Vec<u8> = (0..5000u32).map(|n| (n % 251) as u8).collect();
        for copy in [copy, atomic_copy] {
            for length in (0..200).chain([255, 256, 1023, 2047, 2048, 2049, 4096]) {
                for (skip, start) in [(0, 0), (1, 0), (0, 1), (3, 5), (8, 16), (7, 7)] {
                    let mut to = vec![0xee; 5000];
                    // SAFETY: both ends are vectors of ours, long enough.
                    unsafe { copy(to.as_mut_ptr().add(start), from.as_ptr().add(skip), length) };
                    assert_eq!(to[start..start + length], from[skip..skip + length]);
                    assert!(to[..start].iter().all(|byte| *byte == 0xee));
                    assert!(to[start + length..].iter().all(|byte| *byte == 0xee));
                }
            }
        }
    }

    /// Only the destination changes, and only to bytes of the source.
    #[test]
    fn overlapping_ranges_are_copied_in_some_order() {
        for copy in [copy, atomic_copy] {
            for length in [1, 8, 63, 64, 200, 2048, 3000] {
                for (skip, start) in [(500, 501), (501, 500), (500, 508), (516, 500), (500, 500)] {
                    let mut bytes: Vec<u8> = vec![0xee; 5000];
                    bytes[skip..skip + length].fill(7);
                    let (before, after) =
                        (bytes[..start].to_vec(), bytes[start + length..].to_vec());
                    let at = bytes.as_mut_ptr();
                    // SAFETY: both ranges are within one vector of ours.
                    unsafe { copy(at.add(start), at.add(skip), length) };
                    assert!(bytes[start..start + length].iter().all(|byte| *byte == 7));
                    assert_eq!(
                        (&bytes[..start], &bytes[start + length..]),
                        (&before[..], &after[..])
                    );
                }
            }
        }
    }
}
