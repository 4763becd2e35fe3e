//! Lines that are recognized by their words. In each table specific phrases come before general ones, and tables for
//! one program before those for any.

mod connection;
mod event;
mod gpu;
mod index;
mod kernel;
mod libfabric;
mod memory;
mod mpi;
mod nccl;
mod no_device;
mod object;
mod program;
mod ucx;

use std::cell::LazyCell;
use std::ops::Deref;

use super::Subject;
use super::errno::{self, Errno};
use index::INDEX;

/// Words that appear together in a line, and what they mean.
#[derive(Debug)]
pub(super) struct Phrase {
    /// Starts of words that the line must all contain, in lower case; `|` separates alternatives.
    words: &'static [&'static str],
    /// The error numbers with which it applies; none: with any, or without.
    errnos: &'static [u32],
    pub(super) subject: Subject,
    pub(super) title: &'static str,
    pub(super) meaning: &'static str,
}

impl Phrase {
    /// The same words mean this only with one of these error numbers.
    const fn only_with(self, errnos: &'static [u32]) -> Self {
        Phrase { errnos, ..self }
    }

    /// Whether it applies with the line's error number, which is read only if it matters.
    fn fits(&self, errno: &impl Deref<Target = Option<Errno>>) -> bool {
        self.errnos.is_empty() || errno.is_some_and(|errno| self.errnos.contains(&errno.number))
    }
}

/// The asynchronous event of a device that the line, in lower case, reports.
pub(super) fn find_event(lower: &str) -> Option<&'static Phrase> {
    let present = INDEX.words_in(lower);
    INDEX.events.iter().find(|row| row.has_words(&present)).map(|row| row.phrase)
}

/// The first phrase that matches the line, which is in lower case, and the line's error number.
pub(super) fn find(lower: &str) -> Option<(&'static Phrase, Option<Errno>)> {
    let present = INDEX.words_in(lower);
    // Most lines have no phrase, and need no error number.
    let errno = LazyCell::new(|| errno::read(lower));
    let row = INDEX.phrases.iter().find(|row| row.has_words(&present) && row.phrase.fits(&errno));
    match row {
        Some(row) => Some((row.phrase, *errno)),
        None => kernel::is_link_down(lower).then_some((&kernel::LINK_DOWN, None)),
    }
}

const TABLES: &[&[Phrase]] = &[
    memory::LIMITS,
    nccl::TABLE,
    gpu::TABLE,
    no_device::LIBRARIES,
    program::TABLE,
    ucx::TABLE,
    libfabric::TABLE,
    mpi::TABLE,
    kernel::TABLE,
    memory::TABLE,
    connection::QUEUE_PAIRS,
    object::TABLE,
    connection::TABLE,
    no_device::TABLE,
    kernel::REST,
    program::RESULTS,
];

const fn row(
    words: &'static [&'static str],
    subject: Subject,
    title: &'static str,
    meaning: &'static str,
) -> Phrase {
    Phrase { words, errnos: &[], subject, title, meaning }
}

/// Words of lines about RDMA.
const RDMA: &str = "rdma|roce|ibv_|ib_|ibverbs|libibverbs|infiniband|mlx4|mlx5|verbs|hca|rnic|ucx|\
             ucp_|uct_|nccl|rccl|net/ib|net/ofi|libfabric|ofi|efa|openib|nvshmem|ibgda|ibrc|\
             mooncake|transfer_engine|transfer_metadata|transferengine|nixl|deepep|deep_ep|\
             uccl|psm2|hfi1|gpi2|qp|qpair|ib device|ib devices|o2ib|gpudirect|spdk|perftest|\
             bnxt_re|irdma|erdma";
/// Words of failures.
const FAILED: &str = "fail|unable|could not|couldn't|cannot|can't|can not|error|err|not ";
