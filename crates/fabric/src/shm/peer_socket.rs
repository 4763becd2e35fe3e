//! The socket between two processes: brings descriptors, wakes, and tells when the peer is gone.
//!
//! The wakeup is a message on it, since sending and receiving can be told not to block each time; whether
//! an eventfd blocks is up to everybody who has it.

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

/// Brings grants from one process to the other.
#[derive(Debug)]
pub(super) struct Courier {
    socket: OwnedFd,
    /// Grants that came and were not imported yet, by key.
    waiting: HashMap<u128, Granted>,
    /// The peer has hung up.
    pub(super) gone: bool,
    /// The peer sent what no peer of ours sends.
    pub(super) protocol_error: bool,
}

/// A region as its owner granted it.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) file: OwnedFd,
    pub(super) length: u64,
    pub(super) rights: Rights,
}

impl Courier {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Courier { socket, waiting: HashMap::new(), gone: false, protocol_error: false }
    }

    pub(super) fn send(
        &self,
        key: u128,
        length: u64,
        rights: Rights,
        file: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut message = [0; MESSAGE];
        message[..16].copy_from_slice(&key.to_le_bytes());
        message[16..24].copy_from_slice(&length.to_le_bytes());
        message[24] = rights.bits();
        send(&self.socket, &message, &[file])
    }

    /// Wakes the peer. A socket that is full wakes it anyway.
    pub(super) fn ring(&self) {
        let _ = send(&self.socket, &RING, &[]);
    }

    /// The grant with this key, if it came.
    pub(super) fn take(&mut self, key: u128, control_block: &PeerControlBlock) -> Option<Granted> {
        self.collect(control_block);
        self.waiting.remove(&key)
    }

    /// Takes in what has come, without blocking.
    pub(super) fn collect(&mut self, control_block: &PeerControlBlock) {
        for _ in 0..MAX_AT_ONCE {
            if self.gone || self.protocol_error {
                return;
            }
            let mut message = [0; MESSAGE + 1];
            match receive(&self.socket, &mut message) {
                Ok(Received { count: 0, .. }) => self.gone = true,
                // We have no descriptor left for it: the grant is lost, and its import will say so.
                Ok(Received { cut: true, .. }) => {}
                Ok(Received { count, files, .. })
                    if message[..count] == RING && files.is_empty() => {}
                Ok(Received { count, files, .. }) => match parse(&message[..count], files) {
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

impl Courier {
    /// Keeps a grant until it is imported. Those that were revoked meanwhile make room.
    fn keep(&mut self, key: u128, granted: Granted, control_block: &PeerControlBlock) {
        // Now and then, so that a peer that grants and revokes costs few descriptors.
        if self.waiting.len() % 64 == 63 || self.waiting.len() >= MAX_WAITING {
            self.waiting
                .retain(|key, _| GrantId::of(*key).is_some_and(|grant| control_block.holds(grant)));
        }
        // What finds no room is lost, and its import will say so.
        if self.waiting.len() < MAX_WAITING {
            self.waiting.insert(key, granted);
        }
    }
}

impl AsFd for Courier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn parse(message: &[u8], files: Vec<OwnedFd>) -> Option<(u128, Granted)> {
    let message: &[u8; MESSAGE] = message.try_into().ok()?;
    let [file] = <[OwnedFd; 1]>::try_from(files).ok()?;
    let key = u128::from_le_bytes(message[..16].try_into().ok()?);
    let length = u64::from_le_bytes(message[16..24].try_into().ok()?);
    Some((key, Granted { file, length, rights: Rights::from_bits(message[24])? }))
}

/// Sends a message with descriptors, whole or not at all.
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

/// A message.
pub(super) struct Received {
    /// How many bytes. None: the peer hung up.
    pub(super) count: usize,
    pub(super) files: Vec<OwnedFd>,
    /// Whether descriptors were lost.
    pub(super) cut: bool,
}

/// Receives a message and its descriptors, without blocking.
pub(super) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags)?;
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().collect();
    Ok(Received { count: got.bytes, files, cut: got.flags.contains(ReturnFlags::CTRUNC) })
}

const MESSAGE: usize = 25;
/// Says nothing but that there is something to look for.
const RING: [u8; 1] = [1];
const MAX_FILES: usize = 1;
/// How many grants may wait to be imported, each with a descriptor: as many as hold at once.
const MAX_WAITING: usize = 4096;
/// How many messages are taken in at a time: a peer that never stops must not keep us.
const MAX_AT_ONCE: usize = 4096;

/// What a peer's process says on the socket, with and without a descriptor: a grant, or nothing.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz(bytes: &[u8]) {
    assert!(parse(bytes, Vec::new()).is_none());
    let Ok(file) = rustix::fs::memfd_create("fuzz", rustix::fs::MemfdFlags::CLOEXEC) else {
        return;
    };
    if let Some((_, granted)) = parse(bytes, vec![file]) {
        // Not sealed: whatever the message says, it is not mapped.
        let mapped = crate::segment::mapping::Pages::map_sealed(
            &granted.file,
            usize::try_from(granted.length).unwrap_or(usize::MAX),
            rustix::mm::ProtFlags::READ,
        );
        assert!(mapped.is_err());
    }
}
