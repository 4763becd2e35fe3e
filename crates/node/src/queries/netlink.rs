//! Netlink requests and answers.
//!
//! Parsing is separate from the socket: [`messages`] and [`attributes`] take any bytes, stop at the first invalid
//! ones, and are fuzzed. A request ends after [`TIMEOUT`], whether or not the kernel answers.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

/// A socket to one part of the kernel.
pub(super) struct Socket {
    socket: OwnedFd,
    sequence: u32,
}

/// Whether one object is requested or all of its kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    One,
    All,
}

impl Socket {
    /// To the RDMA subsystem, if the kernel has it.
    pub(super) fn rdma() -> Result<Self, Errno> {
        Socket::open(Some(rustix::net::netlink::RDMA))
    }

    /// To the network (NETLINK_ROUTE, protocol 0, which is `None`).
    pub(super) fn route() -> Result<Self, Errno> {
        Socket::open(None)
    }

    fn open(protocol: Option<Protocol>) -> Result<Self, Errno> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Socket { socket, sequence: 0 })
    }

    /// Sends a request, and returns the body of each answer.
    pub(super) fn query(
        &mut self,
        kind: u16,
        want: Want,
        body: &[u8],
    ) -> Result<Vec<Vec<u8>>, Errno> {
        self.sequence += 1;
        let request = request(kind, want, self.sequence, body);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        let deadline = Instant::now() + TIMEOUT;
        let (mut buffer, mut answers, mut total) = (vec![0; BUFFER], Vec::new(), 0);
        while Instant::now() < deadline {
            let (length, whole) =
                rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::TRUNC)?;
            total += whole;
            if whole > length || total > MAX_BYTES {
                return Err(Errno::MSGSIZE);
            }
            // Skips late answers to an earlier request.
            let ours =
                messages(&buffer[..length]).filter(|message| message.sequence == self.sequence);
            for message in ours {
                match message.kind {
                    DONE => return Ok(answers),
                    ERROR => return message.error().map(|()| answers),
                    _ => answers.push(message.body.to_vec()),
                }
            }
        }
        Err(Errno::TIMEDOUT)
    }
}

fn request(kind: u16, want: Want, sequence: u32, body: &[u8]) -> Vec<u8> {
    let flags: u16 = match want {
        Want::One => FLAG_REQUEST | FLAG_ACKNOWLEDGE,
        Want::All => FLAG_REQUEST | FLAG_DUMP,
    };
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

/// An attribute of a request.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(aligned(bytes.len()), 0);
    bytes
}

/// One message of a datagram.
pub(super) struct Message<'b> {
    kind: u16,
    sequence: u32,
    body: &'b [u8],
}

impl<'b> Message<'b> {
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn body(&self) -> &'b [u8] {
        self.body
    }

    /// The error number of an error message; zero is an acknowledgement.
    fn error(&self) -> Result<(), Errno> {
        match self.body.first_chunk().map(|number| i32::from_ne_bytes(*number)) {
            Some(0) => Ok(()),
            Some(number) => Err(Errno::from_raw_os_error(number.saturating_neg())),
            None => Err(Errno::BADMSG),
        }
    }
}

/// The messages of a datagram, up to the first invalid one.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header: &[u8; HEADER] = rest.first_chunk()?;
        let [l0, l1, l2, l3, k0, k1, _, _, s0, s1, s2, s3, ..] = *header;
        let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        let body = rest.get(HEADER..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        let sequence = u32::from_ne_bytes([s0, s1, s2, s3]);
        Some(Message { kind: u16::from_ne_bytes([k0, k1]), sequence, body })
    })
}

/// Kinds and values of attributes, up to the first invalid one.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let [l0, l1, k0, k1] = *rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(ATTRIBUTE..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        // The two highest bits are flags (nested, network byte order).
        Some((u16::from_ne_bytes([k0, k1]) & 0x3fff, value))
    })
}

/// The value of the first attribute of a kind.
pub(super) fn find(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// A value as zero-terminated text.
pub(super) fn text(value: &[u8]) -> Option<String> {
    let text = value.split(|byte| *byte == 0).next()?;
    let text = str::from_utf8(text).ok()?;
    (!text.is_empty() && !text.contains(char::is_control)).then(|| text.to_owned())
}

/// A value as a number of four bytes.
pub(super) fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// A value as a number of eight bytes.
pub(super) fn long(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// A busy machine answers within this time.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The kernel's datagrams are not larger.
const BUFFER: usize = 64 << 10;
/// More than a thousand net devices with all their attributes.
const MAX_BYTES: usize = 16 << 20;

const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const FLAG_REQUEST: u16 = 1;
const FLAG_ACKNOWLEDGE: u16 = 4;
const FLAG_DUMP: u16 = 0x300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_request_is_parsed() {
        let body = [attribute(1, b"eth0\0"), attribute(2, &7u32.to_ne_bytes())].concat();
        let bytes = request(78, Want::One, 9, &body);
        let read: Vec<(u16, u32, Vec<u8>)> = messages(&bytes)
            .map(|message| (message.kind, message.sequence, message.body.to_vec()))
            .collect();
        assert_eq!(read, [(78, 9, body.clone())]);
        assert_eq!(find(&body, 1).and_then(text), Some("eth0".to_owned()));
        assert_eq!(find(&body, 2).and_then(number), Some(7));
        assert_eq!(find(&body, 3), None);
    }

    #[test]
    fn invalid_lengths_end_parsing() {
        let body = attribute(1, b"eth0\0");
        for length in [0u16, 3, 200] {
            let mut invalid = body.clone();
            invalid[..2].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(attributes(&invalid).count(), 0, "{length}");
        }
        let bytes = request(1, Want::All, 1, &body);
        for length in [0u32, 15, u32::MAX] {
            let mut invalid = bytes.clone();
            invalid[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(messages(&invalid).count(), 0, "{length}");
        }
    }
}
