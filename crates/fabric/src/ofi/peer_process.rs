//! Detects the end of the peer's process, if it is on this host: no provider reports the end of an idle peer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use crate::error::Error;
use crate::shm::boot_id;

/// Identifies a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessId {
    /// The kernel's boot id: the same for all processes of a host.
    pub(super) boot: [u8; 16],
    /// Its PID namespace; 0 if unknown.
    pub(super) pid_namespace: u64,
    pub(super) pid: u32,
}

impl ProcessId {
    pub(super) const ENCODED: usize = 28;

    /// This process.
    pub(super) fn ours() -> Result<Self, Error> {
        let pid_namespace =
            std::fs::metadata("/proc/self/ns/pid").map_or(0, |pid_namespace| pid_namespace.ino());
        let pid = getpid().as_raw_nonzero().get().cast_unsigned();
        Ok(ProcessId { boot: boot_id()?, pid_namespace, pid })
    }

    pub(super) fn to_bytes(self) -> [u8; Self::ENCODED] {
        let mut bytes = [0; Self::ENCODED];
        bytes[..16].copy_from_slice(&self.boot);
        bytes[16..24].copy_from_slice(&self.pid_namespace.to_le_bytes());
        bytes[24..].copy_from_slice(&self.pid.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; Self::ENCODED]) -> Self {
        let (boot, rest) = bytes.split_first_chunk().expect("sixteen bytes");
        let (pid_namespace, pid) = rest.split_first_chunk().expect("eight bytes");
        ProcessId {
            boot: *boot,
            pid_namespace: u64::from_le_bytes(*pid_namespace),
            pid: u32::from_le_bytes(pid.try_into().expect("four bytes")),
        }
    }

    /// Whether both PIDs are of the same namespace of the same host.
    fn same_pid_namespace(&self, other: &ProcessId) -> bool {
        self.boot == other.boot
            && self.pid_namespace == other.pid_namespace
            && self.pid_namespace != 0
    }
}

/// A handle to the peer's process (a pidfd).
pub(super) struct PeerProcess(OwnedFd);

impl PeerProcess {
    /// `None` if it is not visible from here, or this process.
    pub(super) fn open(peer: &ProcessId, ours: &ProcessId) -> Option<Self> {
        if !peer.same_pid_namespace(ours) || peer.pid == ours.pid {
            return None;
        }
        let pid = Pid::from_raw(i32::try_from(peer.pid).ok()?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(PeerProcess)
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
    fn the_end_of_a_local_process_is_detected() {
        let ours = ProcessId::ours().unwrap();
        assert_eq!(ProcessId::from_bytes(&ours.to_bytes()), ours);
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let peer = ProcessId { pid: child.id(), ..ours };
        let process = PeerProcess::open(&peer, &ours).expect("it is running");
        assert!(!process.has_ended());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.has_ended());
        assert!(PeerProcess::open(&ProcessId { boot: [0; 16], ..peer }, &ours).is_none());
        assert!(PeerProcess::open(&ProcessId { pid_namespace: 1, ..peer }, &ours).is_none());
        assert!(PeerProcess::open(&ours, &ours).is_none(), "this process");
        for invalid in [0, u32::MAX] {
            assert!(
                PeerProcess::open(&ProcessId { pid: invalid, ..ours }, &ours).is_none(),
                "not a PID"
            );
        }
    }
}
