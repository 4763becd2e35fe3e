//! A packet socket, which receives every packet of a net device.
//!
//! Unsafe here: `bind` with a link-layer address and `getsockopt` for statistics, which have no safe
//! wrapper. Both get a libc structure on our stack, and its size.
#![allow(unsafe_code, reason = "binds a packet socket and reads its statistics")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use doctor::capture::Packet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with, sockopt};

/// A packet socket on one net device.
pub(super) struct Socket {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Socket {
    pub(super) fn open(netdev: &str) -> io::Result<Socket> {
        // Without a protocol nothing arrives until it is bound to the one device.
        let kind = (AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC);
        let socket = socket_with(kind.0, kind.1, kind.2, None)?;
        // Large, for bursts that arrive while packets are written. A smaller buffer is not a failure.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES);
        let index = rustix::net::netdevice::name_to_index(&socket, netdev)?;
        bind(&socket, index)?;
        Ok(Socket { socket, buffer: vec![0; MAX_FRAME_BYTES] })
    }

    /// Packets that have arrived, or arrive within this time; may be empty.
    pub(super) fn next(&mut self, wait: Duration) -> io::Result<Vec<Packet>> {
        let timeout = Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
            other => other?,
        };
        let mut packets = Vec::new();
        while packets.len() < MAX_BATCH {
            match recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((stored, length)) => packets.push(packet(&self.buffer[..stored], length)),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(packets)
    }

    /// The number of packets dropped since the last call, because the buffer was full.
    pub(super) fn dropped(&self) -> Option<u64> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the socket is open for as long as `self`; `statistics` has `length` writable bytes, and the
        // kernel writes at most as many.
        let answer = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        (answer == 0).then_some(statistics.tp_drops.into())
    }
}

fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: i32::try_from(index).map_err(|_| Errno::NODEV)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the socket is open while it is borrowed; `address` is a whole `sockaddr_ll` of `length` bytes,
    // which the kernel only reads.
    let answer = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The time is that of reading, not of arrival: a few microseconds later, or more in a burst.
fn packet(bytes: &[u8], length: usize) -> Packet {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Packet {
        seconds: u32::try_from(now.as_secs()).unwrap_or(u32::MAX),
        nanoseconds: now.subsec_nanos(),
        length: u32::try_from(length).unwrap_or(u32::MAX),
        bytes: bytes.to_vec(),
    }
}

/// The longest frame of a net device.
const MAX_FRAME_BYTES: usize = 65_536 + 64;
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// Packets between checks of the time limit.
const MAX_BATCH: usize = 256;
