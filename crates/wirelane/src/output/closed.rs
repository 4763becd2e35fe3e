//! Which of stdin, stdout and stderr were closed when the program started, or open for the other direction only.
//!
//! Rust opens `/dev/null` in place of closed ones before `main`, and takes EBADF for success. So a value read from them would
//! be empty, and an answer written to them would be lost, both without an error.

#![allow(
    unsafe_code,
    reason = "a function that runs before Rust's own start, to see the descriptors as they were"
)]

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Whether stdin was closed, or cannot be read.
pub(crate) fn stdin() -> bool {
    was_closed(0)
}

/// Whether stdout was closed, or cannot be written.
pub(crate) fn stdout() -> bool {
    was_closed(1)
}

fn was_closed(descriptor: u8) -> bool {
    CLOSED.load(Relaxed) & (1 << descriptor) != 0
}

/// A bit for each closed descriptor.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look() {
    for (descriptor, useless) in [(0, libc::O_WRONLY), (1, libc::O_RDONLY), (2, libc::O_RDONLY)] {
        // SAFETY: F_GETFL takes no third argument and changes nothing; it fails if the descriptor is not open.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
        if flags == -1 || flags & libc::O_ACCMODE == useless {
            CLOSED.fetch_or(1 << descriptor, Relaxed);
        }
    }
}

// SAFETY: the C library calls each function of this section once, before `main`, with arguments that `look` ignores;
// `look` uses no part of Rust's library that needs to be started.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
