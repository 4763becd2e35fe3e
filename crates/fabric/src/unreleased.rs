//! Objects that a device or a provider did not release. It may still access their memory, which is therefore kept until the
//! process ends, and counted.

use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// The number of queue pairs, shared receive queues, endpoints and memory registrations in this process that a device or provider refused to release.
/// Their memory is never freed: it may still be written. The reason is usually in the kernel log.
pub fn unreleased() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Counts an object that was not released, and keeps what it may access.
#[cold]
pub(crate) fn leak_counted<T>(accessed: T) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    std::mem::forget(accessed);
}
