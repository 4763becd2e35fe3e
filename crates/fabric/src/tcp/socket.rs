//! A socket as the engine's stream.
//!
//! Unsafe here: the parts are raw pointers that the engine guarantees; the kernel uses them only
//! during the call.
#![allow(unsafe_code, reason = "passes raw parts to the kernel")]

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::iovec::IoVec;
use crate::stream_engine::Stream;

pub(super) struct Socket(TcpStream);

impl Socket {
    /// A connected, non-blocking socket.
    pub(super) fn new(socket: TcpStream) -> Self {
        Socket(socket)
    }

    fn message(parts: &[IoVec]) -> libc::msghdr {
        // SAFETY: a struct of numbers and pointers, for which all zero bits are valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        message
    }
}

// An `IoVec` is passed to the kernel as an `iovec`.
const _: () = {
    assert!(size_of::<IoVec>() == size_of::<libc::iovec>());
    assert!(std::mem::offset_of!(IoVec, length) == std::mem::offset_of!(libc::iovec, iov_len));
};

impl Stream for Socket {
    const IMM_WITHOUT_DATA: bool = false;

    const WRITES_AT_ONCE: bool = false;

    /// A write of up to 4 KiB is read in one call with its header and the link's message after it, and
    /// copied; the rest of longer ones is read directly into its destination.
    const READ_AHEAD_BYTES: usize = 4096 + 512;

    unsafe fn write(&mut self, parts: &[IoVec]) -> io::Result<usize> {
        let message = Self::message(parts);
        // SAFETY: an open socket; the parts are readable as the caller guarantees.
        count(unsafe { libc::sendmsg(self.0.as_raw_fd(), &message, libc::MSG_NOSIGNAL) })
    }

    unsafe fn read(&mut self, parts: &[IoVec]) -> io::Result<usize> {
        let mut message = Self::message(parts);
        // SAFETY: an open socket; the parts are writable as the caller guarantees.
        count(unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut message, 0) })
    }

    fn finish(&mut self) {
        // Fails if the socket is already closed.
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

/// The kernel's result; an interrupted call has transferred nothing, as with `WouldBlock`.
fn count(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| {
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => io::ErrorKind::WouldBlock.into(),
            _ => error,
        }
    })
}
