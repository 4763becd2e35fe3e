//! The socket between two processes: it passes descriptors, wakes the peer, and closes when the peer ends.
//!
//! A wakeup is a message on it, since each send and receive can be non-blocking; whether
//! an eventfd blocks is up to every process that has it.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::region::Rights;
use crate::segment::control_block::{GrantId, PeerControlBlock};

/// Passes grants from one process to the other.
#[derive(Debug)]
pub(super) struct PeerSocket {
    socket: OwnedFd,
    /// Received grants that are not imported yet, by key.
    waiting: HashMap<u128, ReceivedGrant>,
    /// The peer has closed the socket.
    pub(super) gone: bool,
    /// The peer sent an invalid message.
    pub(super) protocol_error: bool,
}

/// A region as its owner granted it.
#[derive(Debug)]
pub(super) struct ReceivedGrant {
    pub(super) file: OwnedFd,
    pub(super) length: u64,
    pub(super) rights: Rights,
}

impl PeerSocket {
    pub(super) fn new(socket: OwnedFd) -> Self {
        PeerSocket { socket, waiting: HashMap::new(), gone: false, protocol_error: false }
    }

    pub(super) fn send(
        &self,
        key: u128,
        length: u64,
        rights: Rights,
        file: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut message = [0; GRANT_BYTES];
        message[..16].copy_from_slice(&key.to_le_bytes());
        message[16..24].copy_from_slice(&length.to_le_bytes());
        message[24] = rights.bits();
        send(&self.socket, &message, &[file])
    }

    /// Wakes the peer. If the socket is full, it is readable anyway.
    pub(super) fn wake(&self) {
        let _ = send(&self.socket, &WAKEUP, &[]);
    }

    /// The grant with this key, if it was received.
    pub(super) fn take(
        &mut self,
        key: u128,
        control_block: &PeerControlBlock,
    ) -> Option<ReceivedGrant> {
        self.collect(control_block);
        self.waiting.remove(&key)
    }

    /// Receives messages without blocking.
    pub(super) fn collect(&mut self, control_block: &PeerControlBlock) {
        for _ in 0..MAX_MESSAGES_PER_POLL {
            if self.gone || self.protocol_error {
                return;
            }
            let mut message = [0; GRANT_BYTES + 1];
            match receive(&self.socket, &mut message) {
                Ok(Message { count: 0, .. }) => self.gone = true,
                // We have no descriptor left for it: the grant is lost, and importing it fails.
                Ok(Message { truncated: true, .. }) => {}
                Ok(Message { count, files, .. })
                    if message[..count] == WAKEUP && files.is_empty() => {}
                Ok(Message { count, files, .. }) => match parse(&message[..count], files) {
                    Some((key, granted)) => self.keep(key, granted, control_block),
                    None => self.protocol_error = true,
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.gone = true,
            }
        }
    }
}

impl PeerSocket {
    /// Keeps a grant until it is imported. Removes revoked ones.
    fn keep(&mut self, key: u128, granted: ReceivedGrant, control_block: &PeerControlBlock) {
        // Occasionally, so that a peer that grants and revokes uses few descriptors.
        if self.waiting.len() % 64 == 63 || self.waiting.len() >= MAX_WAITING {
            self.waiting.retain(|key, _| {
                GrantId::of(*key).is_some_and(|grant| control_block.is_granted(grant))
            });
        }
        // When full, the grant is lost, and importing it fails.
        if self.waiting.len() < MAX_WAITING {
            self.waiting.insert(key, granted);
        }
    }
}

impl AsFd for PeerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn parse(message: &[u8], files: Vec<OwnedFd>) -> Option<(u128, ReceivedGrant)> {
    let message: &[u8; GRANT_BYTES] = message.try_into().ok()?;
    let [file] = <[OwnedFd; 1]>::try_from(files).ok()?;
    let key = u128::from_le_bytes(message[..16].try_into().ok()?);
    let length = u64::from_le_bytes(message[16..24].try_into().ok()?);
    Some((key, ReceivedGrant { file, length, rights: Rights::from_bits(message[24])? }))
}

/// Sends a message with descriptors, completely or not at all.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(files));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)?;
    Ok(())
}

/// A received message.
pub(super) struct Message {
    /// The number of bytes. Zero: the peer closed the socket.
    pub(super) count: usize,
    pub(super) files: Vec<OwnedFd>,
    /// Whether descriptors were lost.
    pub(super) truncated: bool,
}

/// Receives a message and its descriptors, without blocking.
pub(super) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<Message> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags)?;
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().collect();
    Ok(Message { count: got.bytes, files, truncated: got.flags.contains(ReturnFlags::CTRUNC) })
}

const GRANT_BYTES: usize = 25;
/// A message without content, which makes the socket readable.
const WAKEUP: [u8; 1] = [1];
const MAX_FILES: usize = 1;
/// The maximum number of grants that are not imported, each with a descriptor: the same as of valid grants.
const MAX_WAITING: usize = 4096;
/// The maximum number of messages received at a time, in case the peer never stops sending.
const MAX_MESSAGES_PER_POLL: usize = 4096;

/// Any message, with and without a descriptor, is a grant or refused.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz(bytes: &[u8]) {
    assert!(parse(bytes, Vec::new()).is_none());
    let Ok(file) = rustix::fs::memfd_create("fuzz", rustix::fs::MemfdFlags::CLOEXEC) else {
        return;
    };
    if let Some((_, granted)) = parse(bytes, vec![file]) {
        // Not sealed, so it must not be mapped.
        let mapped = crate::segment::mapping::MappedPages::map_sealed(
            &granted.file,
            usize::try_from(granted.length).unwrap_or(usize::MAX),
            rustix::mm::ProtFlags::READ,
        );
        assert!(mapped.is_err());
    }
}
