//! One end of a shared-memory lane before it is connected.
//!
//! The accepting end listens on an abstract socket with a random name. The dialling end says the
//! token, and both pass what the other needs: the control block, and where it lies. A process of another user is
//! turned away by its credentials.

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
use super::peer_socket::{Courier, Received, receive, send};
use super::process::{Credentials, Process};
use crate::error::{Error, Kind};
use crate::grants::random;
use crate::lane::Lane;
use crate::segment::control_block::{ControlBlock, PeerControlBlock};
use crate::setup::{Half, Side, deadline};

pub(super) struct ShmHalf {
    config: Config,
    offer: Offer,
    listener: Option<OwnedFd>,
    control_block: ControlBlock,
}

impl ShmHalf {
    pub(super) fn new(config: &Config, side: Side) -> Result<Self, Error> {
        let accepts = side == Side::Accept;
        let offer = Offer { accepts, boot: boot_id()?, name: random()?, token: random()? };
        let probe = random()? as u64;
        let prepared = || {
            let listener = accepts.then(|| listener(offer.name)).transpose()?;
            Ok((listener, ControlBlock::new(probe)?))
        };
        let (listener, control_block) = prepared().map_err(|error: io::Error| {
            let fix = "see the limits of this process (`ulimit -n`) and its memory";
            Error::new(Kind::System, "prepare a shared-memory lane", error, fix)
        })?;
        Ok(ShmHalf { config: config.clone(), offer, listener, control_block })
    }

    /// What it says to the other end, with the control block.
    fn introduce(&self, socket: &OwnedFd, token: u128) -> io::Result<()> {
        let mut hello = [0; HELLO];
        hello[..4].copy_from_slice(MAGIC);
        hello[4..20].copy_from_slice(&token.to_le_bytes());
        hello[20..].copy_from_slice(&self.control_block.probe_address().to_le_bytes());
        send(socket, &hello, &[self.control_block.file()])
    }

    fn lane(self, socket: OwnedFd, peer: Introduction) -> Result<Box<dyn Lane>, Error> {
        let who = Credentials::of(&socket).ok();
        let equal = who.as_ref().is_some_and(Credentials::is_our_equal);
        let process = who.and_then(|who| Process::new(who.pid?));
        // The peer's memory can be reached by the kernel if that gives what the control block says. One with
        // fewer rights than ours is not reached so: it could have become another program by now.
        let reached = process.as_ref().and_then(|process| process.peek(peer.probe_address));
        let reachable = equal && reached == Some(peer.control_block.probe());
        let connection = Connection {
            control_block: Arc::new(self.control_block),
            peer: Arc::new(peer.control_block),
            courier: Courier::new(socket),
            process: process.map(Arc::new),
            reachable,
            equal,
        };
        Ok(Box::new(ShmLane::new(connection, self.config.patience)?))
    }
}

impl Half for ShmHalf {
    fn offer(&self) -> Vec<u8> {
        self.offer.to_bytes()
    }

    fn connect(self: Box<Self>, offer: &[u8], limit: Duration) -> Result<Box<dyn Lane>, Error> {
        let peer = Offer::from_bytes(offer)?;
        let call = "connect by shared memory";
        if peer.boot != self.offer.boot {
            let why = "the peer runs on another host";
            return Err(Error::new(Kind::Unsupported, call, why, "use TCP or verbs to reach it"));
        }
        if peer.accepts == self.offer.accepts {
            let why = "both ends dial, or both accept";
            let fix = "let one end dial and the other accept";
            return Err(Error::new(Kind::Misuse, call, why, fix));
        }
        let deadline = deadline(limit);
        let (socket, introduction) = match &self.listener {
            Some(listener) => self.accept(listener, &peer, deadline),
            None => self.dial(&peer, deadline),
        }
        .map_err(|error| {
            let fix = "see that the peer is up, of the same user, and in the same network \
                          namespace (containers often are not); else use TCP";
            Error::new(Kind::Gone, call, error, fix)
        })?;
        self.lane(socket, introduction)
    }
}

impl ShmHalf {
    fn dial(&self, peer: &Offer, deadline: Instant) -> io::Result<(OwnedFd, Introduction)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(FAMILY, SocketType::SEQPACKET, flags, None)?;
        let address = address(peer.name)?;
        // Where others stand in line already, there is nothing to wait on but time.
        while let Err(error) = connect(&socket, &address) {
            if error != rustix::io::Errno::AGAIN || Instant::now() >= deadline {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.check(&socket)?;
        self.introduce(&socket, peer.token)?;
        loop {
            match Introduction::receive(&socket, self.offer.token) {
                Ok(Some(introduction)) => return Ok((socket, introduction)),
                Ok(None) => return Err(io::Error::other("somebody else answers there")),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    rest(std::iter::once(&socket), deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Unknown peers may call too, and say nothing: they cost a place among the callers, never the lane.
    fn accept(
        &self,
        listener: &OwnedFd,
        peer: &Offer,
        deadline: Instant,
    ) -> io::Result<(OwnedFd, Introduction)> {
        let mut callers: Vec<OwnedFd> = Vec::new();
        loop {
            rest(std::iter::once(listener).chain(&callers), deadline)?;
            match acceptfrom_with(listener, SocketFlags::CLOEXEC) {
                Ok((socket, _)) => {
                    callers.extend(Some(socket).filter(|socket| self.check(socket).is_ok()));
                }
                Err(rustix::io::Errno::AGAIN) => {}
                // Without descriptors the caller stays at the listener, which stays readable.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            for at in (0..callers.len()).rev() {
                match Introduction::receive(&callers[at], self.offer.token) {
                    Ok(Some(introduction)) => {
                        let socket = callers.remove(at);
                        if self.introduce(&socket, peer.token).is_ok() {
                            return Ok((socket, introduction));
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(None) | Err(_) => drop(callers.remove(at)),
                }
            }
            // After all were read: the peer sends as soon as it is there, so the oldest is not it.
            if callers.len() > MAX_CALLERS {
                callers.remove(0);
            }
        }
    }

    /// Who is at the other end, by the kernel's word.
    fn check(&self, socket: &OwnedFd) -> io::Result<()> {
        let who = Credentials::of(socket)?;
        if self.config.any_user || who.is_our_equal() || who.uid == 0 {
            return Ok(());
        }
        let ours = rustix::process::geteuid().as_raw();
        let why = format!("the peer is of user {}, we are {ours}", who.uid);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

/// What the other end passed.
struct Introduction {
    control_block: PeerControlBlock,
    probe_address: u64,
}

impl Introduction {
    /// `None` for one that does not know our token, or brings something else than it should.
    fn receive(socket: &OwnedFd, token: u128) -> io::Result<Option<Self>> {
        let mut hello = [0; HELLO + 1];
        let Received { count, files, .. } = receive(socket, &mut hello)?;
        let known = count == HELLO && hello[..4] == *MAGIC && hello[4..20] == token.to_le_bytes();
        let (true, Ok([control_block])) = (known, <[OwnedFd; 1]>::try_from(files)) else {
            return Ok(None);
        };
        let probe_address = u64::from_le_bytes(hello[20..28].try_into().expect("eight bytes"));
        let Ok(control_block) = PeerControlBlock::new(&control_block) else { return Ok(None) };
        Ok(Some(Introduction { control_block, probe_address }))
    }
}

fn listener(name: u128) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(FAMILY, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &address(name)?)?;
    listen(&socket, 16)?;
    Ok(socket)
}

/// A name outside the file system, which ends with the socket.
fn address(name: u128) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("wirelane-{name:032x}").as_bytes())?)
}

/// Sleeps until one of them has something.
fn rest<'f>(fds: impl Iterator<Item = &'f OwnedFd>, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer did not come in time"));
    }
    let mut fds: Vec<PollFd<'_>> =
        fds.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
    let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
    Ok(())
}

const FAMILY: AddressFamily = AddressFamily::UNIX;
const MAGIC: &[u8; 4] = b"WLS1";
const HELLO: usize = 28;
/// How many may be connected before they have said who they are.
const MAX_CALLERS: usize = 16;

#[cfg(test)]
impl ShmHalf {
    /// Where our control block says how far we have read.
    pub(super) fn control_block_for_test(&self) -> *mut u8 {
        self.control_block.head_for_test()
    }
}
