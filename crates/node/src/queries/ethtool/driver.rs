//! Queries to a net device's driver: one ioctl with many commands.
//!
//! Unsafe here: the ioctl passes an address to the kernel, and the kernel writes the answer there, whose length depends on
//! the command. So every command is a function of this file that knows the length of its answer.
#![allow(unsafe_code, reason = "calls ioctl(SIOCETHTOOL)")]

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// A socket for queries to the driver of any net device.
#[derive(Debug)]
pub(super) struct DriverSocket(OwnedFd);

/// One net device.
pub(super) struct Driver<'a> {
    socket: &'a DriverSocket,
    name: [libc::c_char; libc::IFNAMSIZ],
}

/// The port's settings and link modes, as bits: supported, advertised, advertised by the link partner.
pub(super) struct LinkSettings {
    pub(super) speed: u32,
    pub(super) autonegotiation: bool,
    pub(super) modes: [Vec<u32>; 3],
}

impl DriverSocket {
    pub(super) fn open() -> Option<Self> {
        let kind = (AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC);
        rustix::net::socket_with(kind.0, kind.1, kind.2, None).ok().map(DriverSocket)
    }

    pub(super) fn driver(&self, netdev: &str) -> Option<Driver<'_>> {
        let mut name = [0; libc::IFNAMSIZ];
        // The last byte stays zero, which terminates the name.
        if netdev.len() >= name.len() {
            return None;
        }
        for (to, from) in name.iter_mut().zip(netdev.bytes()) {
            *to = from.cast_signed() as libc::c_char;
        }
        Some(Driver { socket: self, name })
    }
}

impl Driver<'_> {
    /// The driver's name and the firmware's version.
    pub(super) fn identity(&self) -> Option<(Option<String>, Option<String>)> {
        let answer = self.words::<49>(0x03)?;
        let bytes = bytes(&answer);
        Some((text(&bytes[4..36]), text(&bytes[68..100])))
    }

    /// The first query returns the length of the bit masks in words, negated.
    pub(super) fn link_settings(&self) -> Option<LinkSettings> {
        const COMMAND: u32 = 0x4c;
        const HEADER: usize = 12;
        // The number of words is in the last byte of the fourth word, at most 127.
        const COUNT: usize = 15;
        let mut answer = [0; HEADER + 3 * 127];
        answer[0] = COMMAND;
        self.query(&mut answer)?;
        let count = bytes(&answer)[COUNT].cast_signed().checked_neg().filter(|count| *count > 0)?;
        answer.fill(0);
        answer[0] = COMMAND;
        let mut fourth = answer[3].to_ne_bytes();
        fourth[3] = count.cast_unsigned();
        answer[3] = u32::from_ne_bytes(fourth);
        self.query(&mut answer)?;
        let count = usize::from(count.cast_unsigned());
        let mask = |number: usize| answer[HEADER + number * count..][..count].to_vec();
        Some(LinkSettings {
            speed: answer[1],
            autonegotiation: bytes(&answer)[11] != 0,
            modes: [mask(0), mask(1), mask(2)],
        })
    }

    /// Entries of the rings: the maximum, then the current number.
    pub(super) fn rings(&self) -> Option<[u32; 9]> {
        self.words(0x10)
    }

    pub(super) fn coalescing(&self) -> Option<[u32; 23]> {
        self.words(0x0e)
    }

    pub(super) fn pause(&self) -> Option<[u32; 4]> {
        self.words(0x12)
    }

    /// The EEPROM of the cable or transceiver. Needs CAP_NET_ADMIN.
    pub(super) fn module_memory(&self) -> Option<Vec<u8>> {
        let information = self.words::<11>(0x42)?;
        let length = information[2].min(MAX_MODULE_BYTES);
        let mut answer = vec![0; 4 + length.div_ceil(4) as usize];
        answer[0] = 0x43;
        answer[3] = length;
        self.query(&mut answer)?;
        Some(bytes(&answer[4..])[..length as usize].to_vec())
    }

    /// The names of the driver's own counters, in their order; `None` for invalid ones.
    pub(super) fn statistic_names(&self) -> Option<Vec<Option<String>>> {
        let count = self.statistics_count()?;
        let answer = self.counted(0x1b, &[STATISTICS, count as u32], count, NAME)?;
        Some(bytes(&answer[3..]).chunks_exact(NAME).take(count).map(text).collect())
    }

    /// The values of the driver's own counters, in the order of their names. `None` if their number is not `count`.
    pub(super) fn statistic_values(&self, count: usize) -> Option<Vec<u64>> {
        if self.statistics_count()? != count {
            return None;
        }
        let answer = self.counted(0x1d, &[count as u32], count, VALUE)?;
        let pairs = answer[2..].chunks_exact(VALUE / 4).take(count);
        Some(pairs.filter_map(|pair| pair.first_chunk().copied()).map(long).collect())
    }

    fn statistics_count(&self) -> Option<usize> {
        // The set is selected by its bit, and its size follows the header if it exists.
        let mut answer = [0x37, 0, 1 << STATISTICS, 0, 0];
        self.query(&mut answer)?;
        let known = u64::from(answer[2]) | u64::from(answer[3]) << 32;
        let count = answer[4] as usize;
        (known != 0 && count <= MAX_STATISTICS).then_some(count)
    }

    /// An answer whose length the driver determines. The length was queried just before; if the driver has more
    /// now, old kernels write them all, so there is space for as many more as any driver has.
    fn counted(&self, command: u32, head: &[u32], count: usize, size: usize) -> Option<Vec<u32>> {
        let mut answer = vec![0; 3 + (count + MAX_STATISTICS) * size / 4];
        answer[0] = command;
        answer[1..=head.len()].copy_from_slice(head);
        self.query(&mut answer)?;
        let returned = answer[head.len()] as usize;
        (returned == count).then_some(answer)
    }

    fn words<const N: usize>(&self, command: u32) -> Option<[u32; N]> {
        let mut answer = [0; N];
        answer[0] = command;
        self.query(&mut answer).map(|()| answer)
    }

    /// `answer` starts with the command and is as long as the kernel's answer to it.
    fn query(&self, answer: &mut [u32]) -> Option<()> {
        // SAFETY: all zero is a valid ifreq, which is plain data.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
        // SAFETY: the socket is open while `socket` lives; the request and the answer outlive the call; the
        // functions above give each command as many words as the kernel writes for it.
        let outcome =
            unsafe { libc::ioctl(self.socket.0.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        (outcome == 0).then_some(())
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A number of eight bytes in native byte order.
fn long([first, second]: [u32; 2]) -> u64 {
    let [[a, b, c, d], [e, f, g, h]] = [first.to_ne_bytes(), second.to_ne_bytes()];
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// Text in a field of fixed length, terminated by a zero.
pub(super) fn text(field: &[u8]) -> Option<String> {
    let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = str::from_utf8(text).ok()?.trim();
    (!text.is_empty() && !text.contains(char::is_control)).then(|| text.to_owned())
}

const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// ETH_SS_STATS.
const STATISTICS: u32 = 1;
/// Bytes of a statistic's name.
const NAME: usize = 32;
/// Bytes of its value.
const VALUE: usize = 8;
/// Drivers with counters for each of hundreds of queues have a few thousand.
const MAX_STATISTICS: usize = 16384;
/// The lower half page and four upper ones.
const MAX_MODULE_BYTES: u32 = 640;
