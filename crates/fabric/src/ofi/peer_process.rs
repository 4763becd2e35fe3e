//! Whether the peer's process lives, where that can be seen: no provider tells of the end of one that is idle.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use crate::error::Error;
use crate::shm::boot_id;

/// Where a process is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Home {
    /// One start of one kernel: the same for all processes of a host.
    pub(super) boot: [u8; 16],
    /// Its namespace of processes, where its number means it; 0 where that is not known.
    pub(super) space: u64,
    pub(super) pid: u32,
}

impl Home {
    pub(super) const ENCODED: usize = 28;

    /// This process.
    pub(super) fn ours() -> Result<Self, Error> {
        let space = std::fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino());
        let pid = getpid().as_raw_nonzero().get().cast_unsigned();
        Ok(Home { boot: boot_id()?, space, pid })
    }

    pub(super) fn to_bytes(self) -> [u8; Self::ENCODED] {
        let mut bytes = [0; Self::ENCODED];
        bytes[..16].copy_from_slice(&self.boot);
        bytes[16..24].copy_from_slice(&self.space.to_le_bytes());
        bytes[24..].copy_from_slice(&self.pid.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; Self::ENCODED]) -> Self {
        let (boot, rest) = bytes.split_first_chunk().expect("sixteen bytes");
        let (space, pid) = rest.split_first_chunk().expect("eight bytes");
        Home {
            boot: *boot,
            space: u64::from_le_bytes(*space),
            pid: u32::from_le_bytes(pid.try_into().expect("four bytes")),
        }
    }

    /// Whether its number means there what it means here.
    fn shares_numbers_with(&self, other: &Home) -> bool {
        self.boot == other.boot && self.space == other.space && self.space != 0
    }
}

/// The peer's process.
pub(super) struct Life(OwnedFd);

impl Life {
    /// `None` where it cannot be seen from here, or is our own.
    pub(super) fn of(peer: &Home, ours: &Home) -> Option<Self> {
        if !peer.shares_numbers_with(ours) || peer.pid == ours.pid {
            return None;
        }
        let pid = Pid::from_raw(i32::try_from(peer.pid).ok()?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(Life)
    }

    pub(super) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    /// Readable once it has ended.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_seen_and_one_elsewhere_is_not() {
        let ours = Home::ours().unwrap();
        assert_eq!(Home::from_bytes(&ours.to_bytes()), ours);
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let peer = Home { pid: child.id(), ..ours };
        let life = Life::of(&peer, &ours).expect("it lives");
        assert!(!life.has_ended());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(life.has_ended());
        assert!(Life::of(&Home { boot: [0; 16], ..peer }, &ours).is_none());
        assert!(Life::of(&Home { space: 1, ..peer }, &ours).is_none());
        assert!(Life::of(&ours, &ours).is_none(), "who looks, lives");
        for nobody in [0, u32::MAX] {
            assert!(Life::of(&Home { pid: nobody, ..ours }, &ours).is_none(), "no number of one");
        }
    }
}
