//! The descriptor that a lane sleeps on: completions, the device's events, and its failure signal.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rdma_sys::Errno;
use rustix::event::epoll;

pub(super) struct WaitFd(OwnedFd);

impl WaitFd {
    /// Readable when one of `sources` is.
    pub(super) fn new(sources: &[BorrowedFd<'_>]) -> Result<Self, Errno> {
        Self::build(sources).map_err(|error| Errno(error.raw_os_error()))
    }

    fn build(sources: &[BorrowedFd<'_>]) -> rustix::io::Result<Self> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for source in sources {
            epoll::add(&all, source, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(WaitFd(all))
    }

    /// Removes a source.
    pub(super) fn remove(&self, source: BorrowedFd<'_>) {
        // It may have been removed before.
        let _ = epoll::delete(&self.0, source);
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
