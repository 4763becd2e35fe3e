//! Faulting in pages on several threads.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use super::aligned_mapping::HUGE_PAGE;
use super::mapping::Mapping;
use super::size;
use crate::error::{Error, ErrorKind};

/// Populates the mapping in chunks; calls `progress` with the sum, at most `length`. Returns the number of bytes in huge pages.
pub(super) fn run(
    mapping: &Mapping,
    length: usize,
    threads: usize,
    mut progress: impl FnMut(usize),
) -> Result<usize, Error> {
    let next = AtomicUsize::new(0);
    // Until a whole chunk stays in plain pages.
    let collapses = AtomicBool::new(true);
    let (report, reports) = channel();
    let threads = threads.clamp(1, mapping.length().div_ceil(CHUNK_BYTES));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (next, collapses, report) = (&next, &collapses, report.clone());
            scope.spawn(move || {
                while let Some((start, chunk)) = take(next, mapping.length()) {
                    let done = mapping.populate(start, chunk).map(|()| {
                        let tries = collapses.load(Ordering::Relaxed);
                        let huge = if tries { mapping.collapse(start, chunk) } else { 0 };
                        collapses.fetch_and(huge > 0 || chunk < HUGE_PAGE, Ordering::Relaxed);
                        (chunk, huge)
                    });
                    if done.is_err() {
                        // The other threads skip the rest.
                        next.store(mapping.length(), Ordering::Relaxed);
                    }
                    // The receiver lives until all senders are dropped.
                    let _ = report.send(done);
                }
            });
        }
        drop(report);
        let (mut sum, mut huge) = (0, 0);
        for done in &reports {
            let (chunk, in_huge_pages) = done.map_err(|error| explain(&error, sum, length))?;
            (sum, huge) = (sum + chunk, huge + in_huge_pages);
            progress(sum.min(length));
        }
        Ok(huge)
    })
}

/// The next chunk that no thread has taken.
fn take(next: &AtomicUsize, length: usize) -> Option<(usize, usize)> {
    let start = next.fetch_add(CHUNK_BYTES, Ordering::Relaxed);
    (start < length).then(|| (start, CHUNK_BYTES.min(length - start)))
}

fn explain(error: &io::Error, done: usize, length: usize) -> Error {
    let call = format!("prefault {} of memory", size(length as u64));
    let why = format!("out of memory after {} ({error})", size(done as u64));
    let fix = "request less, free memory, or raise the control group's limits (memory.max, and \
                  hugetlb.2MB.max for huge pages)";
    Error::new(ErrorKind::Full, call, why, fix)
}

/// Large enough that threads rarely contend, small enough to balance the work and report progress; a
/// multiple of every page size.
const CHUNK_BYTES: usize = 64 << 20;
