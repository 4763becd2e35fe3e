//! Bringing pages into memory on several threads.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use super::mapping::Mapping;
use super::size;
use crate::error::{Error, Kind};

/// Populates the mapping in pieces; `progress` is told the sum, at most `length`.
pub(super) fn run(
    mapping: &Mapping,
    length: usize,
    threads: usize,
    mut progress: impl FnMut(usize),
) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let (report, reports) = channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (next, report) = (&next, report.clone());
            scope.spawn(move || {
                while let Some((start, piece)) = take(next, mapping.length()) {
                    let done = mapping.populate(start, piece).map(|()| piece);
                    let failed = done.is_err();
                    if report.send(done).is_err() || failed {
                        return;
                    }
                }
            });
        }
        drop(report);
        let mut sum = 0;
        for done in &reports {
            sum += done.map_err(|error| explain(&error, sum, length))?;
            progress(sum.min(length));
        }
        Ok(())
    })
}

/// The next piece nobody has taken yet.
fn take(next: &AtomicUsize, length: usize) -> Option<(usize, usize)> {
    let start = next.fetch_add(PIECE, Ordering::Relaxed);
    (start < length).then(|| (start, PIECE.min(length - start)))
}

fn explain(error: &io::Error, done: usize, length: usize) -> Error {
    let call = format!("bring {} of memory in", size(length as u64));
    let why = format!("{error} after {}", size(done as u64));
    Error::new(Kind::Full, call, why, "ask for less, or free memory on this machine")
}

/// Large enough that threads rarely meet, small enough to share the work and show progress; a
/// multiple of every page size.
const PIECE: usize = 64 << 20;
