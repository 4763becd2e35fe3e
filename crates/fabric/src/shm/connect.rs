//! Connecting a shared-memory lane.
//!
//! The accepting end listens on an abstract socket with a random name. The dialling end sends the lane
//! secret, and both pass the control block and the address of its probe. A process of another user is
//! refused by its credentials, with a message, so that it need not wait.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind, connect, listen,
    socket_with,
};

use super::Config;
use super::lane::{Connection, ShmLane};
use super::offer::{Offer, boot_id};
use super::peer_socket::{Message, PeerSocket, receive, send};
use super::process::{PeerCredentials, Process};
use crate::error::{Error, ErrorKind};
use crate::grants::random;
use crate::lane::Lane;
use crate::segment::control_block::{ControlBlock, PeerControlBlock};
use crate::setup::{Side, UnconnectedLane, deadline};

pub(super) struct UnconnectedShmLane {
    config: Config,
    offer: Offer,
    listener: Option<OwnedFd>,
    control_block: ControlBlock,
}

impl UnconnectedShmLane {
    pub(super) fn new(config: &Config, side: Side) -> Result<Self, Error> {
        let accepts = side == Side::Accept;
        let offer = Offer { accepts, boot: boot_id()?, name: random()?, secret: random()? };
        let probe = random()? as u64;
        let prepared = || {
            let listener = accepts.then(|| listener(offer.name)).transpose()?;
            Ok((listener, ControlBlock::new(probe)?))
        };
        let (listener, control_block) = prepared().map_err(|error: io::Error| {
            let fix = "see the limits of this process (`ulimit -n`) and its memory";
            Error::new(ErrorKind::System, "prepare a shared-memory lane", error, fix)
        })?;
        Ok(UnconnectedShmLane { config: config.clone(), offer, listener, control_block })
    }

    /// Sends our hello to the other end, with the control block.
    fn send_hello(&self, socket: &OwnedFd, secret: u128) -> io::Result<()> {
        let mut hello = [0; HELLO_BYTES];
        hello[..4].copy_from_slice(MAGIC);
        hello[4..20].copy_from_slice(&secret.to_le_bytes());
        hello[20..].copy_from_slice(&self.control_block.probe_address().to_le_bytes());
        send(socket, &hello, &[self.control_block.file()])
    }

    fn lane(self, socket: OwnedFd, peer: PeerHello) -> Result<Box<dyn Lane>, Error> {
        let credentials = PeerCredentials::of(&socket).ok();
        let same_user = credentials.as_ref().is_some_and(PeerCredentials::is_our_user);
        let process = credentials.and_then(|credentials| Process::new(credentials.pid?));
        // The kernel can copy from the peer's memory if the probe has the control block's value. Not for a peer with
        // fewer rights than ours: its pid could mean another program now.
        let probe = process.as_ref().and_then(|process| process.read_word(peer.probe_address));
        let reachable = same_user && probe == Some(peer.control_block.probe());
        let connection = Connection {
            control_block: Arc::new(self.control_block),
            peer: Arc::new(peer.control_block),
            socket: PeerSocket::new(socket),
            process: process.map(Arc::new),
            reachable,
            same_user,
        };
        Ok(Box::new(ShmLane::new(connection, self.config.receive_timeout)?))
    }
}

impl UnconnectedLane for UnconnectedShmLane {
    fn offer(&self) -> Vec<u8> {
        self.offer.to_bytes()
    }

    fn connect(self: Box<Self>, offer: &[u8], limit: Duration) -> Result<Box<dyn Lane>, Error> {
        let peer = Offer::from_bytes(offer)?;
        let call = "connect over shared memory";
        if peer.boot != self.offer.boot {
            let why = "the peer runs on another host";
            return Err(Error::new(
                ErrorKind::Unsupported,
                call,
                why,
                "use TCP or verbs to reach it",
            ));
        }
        if peer.accepts == self.offer.accepts {
            let why = "both ends dial, or both accept";
            let fix = "let one end dial and the other accept";
            return Err(Error::new(ErrorKind::Misuse, call, why, fix));
        }
        let deadline = deadline(limit);
        let (socket, hello) = match &self.listener {
            Some(listener) => self.accept(listener, &peer, deadline),
            None => self.dial(&peer, deadline),
        }
        .map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                let fix = "run both ends as the same user; otherwise use TCP";
                Error::new(ErrorKind::Denied, call, error, fix)
            }
            _ => {
                let fix = "check that the peer is running, as the same user, and in the same network \
                namespace (containers often are not); otherwise use TCP";
                Error::new(ErrorKind::Gone, call, error, fix)
            }
        })?;
        self.lane(socket, hello)
    }
}

impl UnconnectedShmLane {
    fn dial(&self, peer: &Offer, deadline: Instant) -> io::Result<(OwnedFd, PeerHello)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(FAMILY, SocketType::SEQPACKET, flags, None)?;
        let address = address(peer.name)?;
        // A full backlog cannot be waited for, so retry.
        while let Err(error) = connect(&socket, &address) {
            if error != rustix::io::Errno::AGAIN || Instant::now() >= deadline {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.check(&socket)?;
        self.send_hello(&socket, peer.secret)?;
        loop {
            match PeerHello::receive(&socket, self.offer.secret) {
                Ok(Some(hello)) => return Ok((socket, hello)),
                Ok(None) => return Err(io::Error::other("another process answered")),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_readable(std::iter::once(&socket), deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Accepts connections until one proves to be the peer. Others may connect too, and send nothing: they count as pending,
    /// but cannot prevent the lane.
    fn accept(
        &self,
        listener: &OwnedFd,
        peer: &Offer,
        deadline: Instant,
    ) -> io::Result<(OwnedFd, PeerHello)> {
        let (mut pending, mut refused): (Vec<OwnedFd>, Vec<OwnedFd>) = (Vec::new(), Vec::new());
        loop {
            wait_readable(std::iter::once(listener).chain(&pending), deadline)?;
            match acceptfrom_with(listener, SocketFlags::CLOEXEC) {
                Ok((socket, _)) if self.check(&socket).is_ok() => pending.push(socket),
                Ok((socket, _)) => {
                    let _ = send(&socket, REFUSED, &[]);
                    // Open for a while: a closed socket would report a lost connection before the refusal.
                    refused.push(socket);
                }
                Err(rustix::io::Errno::AGAIN) => {}
                // Without descriptors the connection stays in the backlog, and the listener stays readable.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            for at in (0..pending.len()).rev() {
                match PeerHello::receive(&pending[at], self.offer.secret) {
                    Ok(Some(hello)) => {
                        let socket = pending.remove(at);
                        if self.send_hello(&socket, peer.secret).is_ok() {
                            return Ok((socket, hello));
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(None) | Err(_) => drop(pending.remove(at)),
                }
            }
            // After all were read: the peer sends its hello immediately, so the oldest is not the peer.
            for connections in [&mut pending, &mut refused] {
                if connections.len() > MAX_PENDING_CONNECTIONS {
                    connections.remove(0);
                }
            }
        }
    }

    /// Checks the user of the other end, as reported by the kernel.
    fn check(&self, socket: &OwnedFd) -> io::Result<()> {
        let credentials = PeerCredentials::of(socket)?;
        if self.config.any_user || credentials.is_our_user() || credentials.uid == 0 {
            return Ok(());
        }
        let ours = rustix::process::geteuid().as_raw();
        let why = format!("the peer runs as user {}, this process as {ours}", credentials.uid);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

/// The hello of the other end.
struct PeerHello {
    control_block: PeerControlBlock,
    probe_address: u64,
}

impl PeerHello {
    /// `None` for one without our secret, or with an invalid control block.
    fn receive(socket: &OwnedFd, secret: u128) -> io::Result<Option<Self>> {
        let mut hello = [0; HELLO_BYTES + 1];
        let Message { count, files, .. } = receive(socket, &mut hello)?;
        if hello[..count] == *REFUSED {
            return Err(refusal(socket));
        }
        let known =
            count == HELLO_BYTES && hello[..4] == *MAGIC && hello[4..20] == secret.to_le_bytes();
        let (true, Ok([control_block])) = (known, <[OwnedFd; 1]>::try_from(files)) else {
            return Ok(None);
        };
        let probe_address = u64::from_le_bytes(hello[20..28].try_into().expect("eight bytes"));
        let Ok(control_block) = PeerControlBlock::new(&control_block) else { return Ok(None) };
        Ok(Some(PeerHello { control_block, probe_address }))
    }
}

/// The peer has refused our user.
fn refusal(socket: &OwnedFd) -> io::Error {
    let peer = PeerCredentials::of(socket)
        .map_or(String::new(), |peer| format!(" runs as user {} and", peer.uid));
    let ours = rustix::process::geteuid().as_raw();
    let why =
        format!("the peer{peer} accepts only its own user and root; this process runs as {ours}");
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn listener(name: u128) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(FAMILY, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &address(name)?)?;
    listen(&socket, 16)?;
    Ok(socket)
}

/// An abstract name, which disappears with the socket.
fn address(name: u128) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("wirelane-{name:032x}").as_bytes())?)
}

/// Sleeps until one of them is readable.
fn wait_readable<'f>(fds: impl Iterator<Item = &'f OwnedFd>, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer did not connect in time"));
    }
    let mut fds: Vec<PollFd<'_>> =
        fds.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
    let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
    Ok(())
}

const FAMILY: AddressFamily = AddressFamily::UNIX;
const MAGIC: &[u8; 4] = b"WLS1";
const HELLO_BYTES: usize = 28;
/// Instead of a hello: the peer may not run as this user.
const REFUSED: &[u8] = b"WLS1 user";
/// The maximum number of unauthenticated connections.
const MAX_PENDING_CONNECTIONS: usize = 16;

#[cfg(test)]
impl UnconnectedShmLane {
    /// The address of our read position in the control block.
    pub(super) fn control_block_for_test(&self) -> *mut u8 {
        self.control_block.head_for_test()
    }
}
