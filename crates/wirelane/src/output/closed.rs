//! Which of stdin, stdout and stderr were closed when the program started.
//!
//! Rust opens `/dev/null` in their place before `main`, so that a value read from a closed stdin would be empty, and an
//! answer written to a closed stdout would be lost, both without an error.

#![allow(
    unsafe_code,
    reason = "a function that runs before Rust's own start, to see the descriptors as they were"
)]

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Whether stdin was closed.
pub(crate) fn stdin() -> bool {
    was_closed(0)
}

/// Whether stdout was closed.
pub(crate) fn stdout() -> bool {
    was_closed(1)
}

fn was_closed(descriptor: u8) -> bool {
    CLOSED.load(Relaxed) & (1 << descriptor) != 0
}

/// A bit for each closed descriptor.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look() {
    for descriptor in 0..3 {
        // SAFETY: F_GETFD takes no third argument and changes nothing; it fails if the descriptor is not open.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Relaxed);
        }
    }
}

// SAFETY: the C library calls each function of this section once, before `main`, with arguments that `look` ignores;
// `look` uses no part of Rust's library that needs to be started.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
