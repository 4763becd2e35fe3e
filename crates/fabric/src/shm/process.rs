//! Access to another process's memory through the kernel, for memory that cannot be mapped.
//!
//! Unsafe here: the local parts are memory that the operation owns; the remote address is in the other
//! process and checked by the kernel.
#![allow(unsafe_code, reason = "calls process_vm_readv, process_vm_writev and getsockopt")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::iovec::IoVec;
use crate::region::Slice;

/// The process at the other end of a socket, as reported by the kernel.
pub(super) struct PeerCredentials {
    /// `None` if the process is not visible, in another pid namespace.
    pub(super) pid: Option<Pid>,
    pub(super) uid: u32,
}

impl PeerCredentials {
    pub(super) fn of(socket: &OwnedFd) -> io::Result<Self> {
        let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        let (at, level, option) =
            ((&raw mut credentials).cast(), libc::SOL_SOCKET, libc::SO_PEERCRED);
        // SAFETY: an open socket, and a buffer of the given length. The pid may be zero, which
        // is no valid `Pid`.
        let answer =
            unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, at, &mut length) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(PeerCredentials { pid: Pid::from_raw(credentials.pid), uid: credentials.uid })
    }

    /// Whether it runs as our user, and so has at least our rights.
    pub(super) fn is_our_user(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }
}

/// The peer's process.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    /// Readable after the process has ended; only then may its pid be reused.
    pidfd: OwnedFd,
}

impl Process {
    /// `None` if the process is not visible.
    pub(super) fn new(pid: Pid) -> Option<Self> {
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Process { pid, pidfd })
    }

    pub(super) fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    pub(super) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.pidfd.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    /// The value at an address of its memory, if we have access.
    pub(super) fn read_word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let part = IoVec::of_bytes(&mut bytes);
        // SAFETY: eight writable bytes of ours.
        let count = unsafe { self.transfer(&[part], address, 8, Direction::Read) }.ok()?;
        (count == 8).then(|| u64::from_ne_bytes(bytes))
    }

    /// Copies local slices to its memory, or from it, completely.
    pub(super) fn copy(
        &self,
        slices: &[Slice],
        address: u64,
        direction: Direction,
    ) -> io::Result<()> {
        let mut address = address;
        for slice in slices {
            let mut done = 0;
            while done < slice.len() {
                // After it has ended its pid may mean another process. Between this check and the copy
                // all pids would have to be used once, which is accepted as a risk.
                if self.has_ended() {
                    return Err(io::ErrorKind::NotConnected.into());
                }
                let local = slice.address().wrapping_add(done);
                let part = IoVec { address: local, length: slice.len() - done };
                // SAFETY: the rest of a slice, which owns its memory.
                let count = unsafe { self.transfer(&[part], address, part.length, direction) }?;
                if count == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                done += count;
                address = address.wrapping_add(count as u64);
            }
        }
        Ok(())
    }

    /// # Safety
    /// The parts are readable, or writable for `Direction::Read`.
    unsafe fn transfer(
        &self,
        parts: &[IoVec],
        address: u64,
        length: usize,
        direction: Direction,
    ) -> io::Result<usize> {
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
        let pid = self.pid.as_raw_nonzero().get();
        let (local, count) = (parts.as_ptr().cast(), parts.len() as libc::c_ulong);
        // SAFETY: the caller guarantees the local parts; the remote one is checked by the kernel.
        let moved = unsafe {
            match direction {
                Direction::Read => libc::process_vm_readv(pid, local, count, &remote, 1, 0),
                Direction::Write => libc::process_vm_writev(pid, local, count, &remote, 1, 0),
            }
        };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}
