//! Another process's memory by way of the kernel, for memory that cannot be mapped.
//!
//! Unsafe here: the local parts are memory that the operation holds; the remote place is the other
//! process's, which the kernel checks.
#![allow(unsafe_code, reason = "calls process_vm_readv, process_vm_writev and getsockopt")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::iovec::Part;
use crate::region::Slice;

/// Who is at the other end of a socket, by the kernel's word.
pub(super) struct Credentials {
    /// None where its process cannot be seen from here.
    pub(super) pid: Option<Pid>,
    pub(super) uid: u32,
}

impl Credentials {
    pub(super) fn of(socket: &OwnedFd) -> io::Result<Self> {
        let mut who = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        let (at, level, option) = ((&raw mut who).cast(), libc::SOL_SOCKET, libc::SO_PEERCRED);
        // SAFETY: an open socket, and room for the answer of the length said. Its pid may be zero, which
        // a `Pid` may not.
        let answer =
            unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, at, &mut length) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Credentials { pid: Pid::from_raw(who.pid), uid: who.uid })
    }

    /// Whether it has no fewer rights than we have: then it may be shown what we may see.
    pub(super) fn is_our_equal(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }
}

/// The peer's process.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    /// Readable once it has ended; only then may its number mean another process.
    life: OwnedFd,
}

impl Process {
    /// `None` where the process cannot be seen from here.
    pub(super) fn new(pid: Pid) -> Option<Self> {
        let life = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Process { pid, life })
    }

    pub(super) fn life(&self) -> &OwnedFd {
        &self.life
    }

    pub(super) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.life.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    /// The number at an address of its memory, where we may look.
    pub(super) fn peek(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let part = Part::of_bytes(&mut bytes);
        // SAFETY: eight writable bytes of ours.
        let count = unsafe { self.transfer(&[part], address, 8, Direction::Read) }.ok()?;
        (count == 8).then(|| u64::from_ne_bytes(bytes))
    }

    /// Copies slices of ours to its memory, or from it, all of them.
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
                // Its number may mean another process once it has ended. Between this look and the copy
                // all numbers would have to come round, which we take the chance of.
                if self.has_ended() {
                    return Err(io::ErrorKind::NotConnected.into());
                }
                let place = slice.address().wrapping_add(done);
                let part = Part { address: place, length: slice.len() - done };
                // SAFETY: the rest of a slice, which holds its memory.
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
        parts: &[Part],
        address: u64,
        length: usize,
        direction: Direction,
    ) -> io::Result<usize> {
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
        let pid = self.pid.as_raw_nonzero().get();
        let (local, count) = (parts.as_ptr().cast(), parts.len() as libc::c_ulong);
        // SAFETY: the local parts by the caller's word; the remote one is checked by the kernel.
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
