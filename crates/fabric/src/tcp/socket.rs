//! A socket as the engine's stream.
//!
//! Unsafe here: the parts are raw places that the engine answers for; the kernel reads or fills them
//! during the call and not after it.
#![allow(unsafe_code, reason = "hands raw parts to the kernel")]

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::engine::Stream;
use crate::iovec::Part;

pub(super) struct Socket(TcpStream);

impl Socket {
    /// A connected socket that does not block.
    pub(super) fn new(socket: TcpStream) -> Self {
        Socket(socket)
    }

    fn message(parts: &[Part]) -> libc::msghdr {
        // SAFETY: a struct of numbers and pointers, for which all zero bits are a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        message
    }
}

// A part is handed to the kernel as it is.
const _: () = {
    assert!(size_of::<Part>() == size_of::<libc::iovec>());
    assert!(std::mem::offset_of!(Part, length) == std::mem::offset_of!(libc::iovec, iov_len));
};

impl Stream for Socket {
    const NUMBERS_ALONE: bool = false;

    /// A write of up to 4 KiB is read in one call with its header, and with the link's message behind it, and
    /// copied from there; of longer ones the rest goes straight to its place.
    const AHEAD: usize = 4096 + 512;

    unsafe fn write(&mut self, parts: &[Part]) -> io::Result<usize> {
        let message = Self::message(parts);
        // SAFETY: an open socket; the parts are readable by the caller's word.
        count(unsafe { libc::sendmsg(self.0.as_raw_fd(), &message, libc::MSG_NOSIGNAL) })
    }

    unsafe fn read(&mut self, parts: &[Part]) -> io::Result<usize> {
        let mut message = Self::message(parts);
        // SAFETY: an open socket; the parts are writable by the caller's word.
        count(unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut message, 0) })
    }

    fn finish(&mut self) {
        // A socket that is gone already says no more either.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    fn close(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads the kernel's answer; an interrupted call is one that moved nothing yet.
fn count(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| {
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => io::ErrorKind::WouldBlock.into(),
            _ => error,
        }
    })
}
