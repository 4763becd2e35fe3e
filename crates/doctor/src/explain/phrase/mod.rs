//! Lines that are recognized by their words. In each table specific phrases come before general ones.
//!
//! The tables have a fixed order: what one program prints; the call that failed (`call.rs`); the object and the action in words;
//! the error number alone (`number.rs`); and last, that a program of this field reports a failure at all.

mod call;
mod connection;
mod event;
mod gpu;
mod index;
mod job;
mod kernel;
mod launch;
mod libfabric;
mod memory;
mod mpi;
mod nccl;
mod no_device;
mod number;
mod object;
mod pcie;
mod program;
mod ucx;
mod words;

#[cfg(test)]
mod tests;

use std::cell::LazyCell;
use std::ops::Deref;

use super::ErrorClass;
use super::errno::{self, Errno};
use index::{INDEX, Matches};
use words::{ANY_FAILED, ANY_FAILED_OR_WARNING, FAILED, FAILED_CALL, INFORMS, JOB, RDMA};

/// Words that appear together in a line, and what they mean.
#[derive(Debug)]
pub(super) struct Phrase {
    /// Starts of words that the line must all contain, in lower case; `|` separates alternatives.
    words: &'static [&'static str],
    /// Starts of words that the line must not contain, separated by `|`.
    without: &'static str,
    /// The error numbers with which it applies; none: with any, or without.
    errnos: &'static [u32],
    pub(super) class: ErrorClass,
    pub(super) title: &'static str,
    pub(super) meaning: &'static str,
}

impl Phrase {
    /// The same words mean this only with one of these error numbers.
    const fn only_with(self, errnos: &'static [u32]) -> Self {
        Phrase { errnos, ..self }
    }

    /// The same words mean something else together with one of these.
    const fn unless(self, without: &'static str) -> Self {
        Phrase { without, ..self }
    }

    /// Whether it applies with the line's error number, which is read only if it matters.
    fn fits(&self, errno: &impl Deref<Target = Option<Errno>>) -> bool {
        self.errnos.is_empty() || errno.is_some_and(|errno| self.errnos.contains(&errno.number))
    }
}

/// The phrases that a line matches.
pub(super) struct Found(Matches);

/// Finds the phrases of a line, which is in lower case.
pub(super) fn read(lower: &str) -> Found {
    Found(INDEX.matches(lower))
}

impl Found {
    /// The asynchronous event of a device that the line reports.
    pub(super) fn event(&self) -> Option<&'static Phrase> {
        self.0.events.first().copied()
    }

    /// The first phrase that matches the line, which is in lower case, and the line's error number.
    pub(super) fn phrase(&self, lower: &str) -> Option<(&'static Phrase, Option<Errno>)> {
        // Most lines have no phrase, and need no error number.
        let errno = LazyCell::new(|| errno::read(lower));
        match self.0.phrases.iter().copied().find(|phrase| phrase.fits(&errno)) {
            Some(phrase) => Some((phrase, *errno)),
            None => kernel::is_link_down(lower).then_some((&kernel::LINK_DOWN, None)),
        }
    }
}

const TABLES: &[&[Phrase]] = &[
    memory::LIMITS,
    job::TABLE,
    launch::TABLE,
    nccl::TABLE,
    gpu::TABLE,
    no_device::LIBRARIES,
    program::TABLE,
    ucx::TABLE,
    libfabric::TABLE,
    mpi::TABLE,
    kernel::TABLE,
    object::DESTROY,
    pcie::TABLE,
    memory::TABLE,
    connection::QUEUE_PAIRS,
    call::TABLE,
    object::TABLE,
    connection::TABLE,
    no_device::TABLE,
    kernel::REST,
    program::RESULTS,
    object::ACTIONS,
    connection::ACTIONS,
    no_device::ACTIONS,
    number::TABLE,
    program::ANY_FAILURE,
    launch::ACTIONS,
    job::ANY_PROGRAM,
];

const fn row(
    words: &'static [&'static str],
    class: ErrorClass,
    title: &'static str,
    meaning: &'static str,
) -> Phrase {
    Phrase { words, without: "", errnos: &[], class, title, meaning }
}
