//! Asking a net device's driver: one ioctl with many questions.
//!
//! Unsafe here: the ioctl hands the kernel an address, and the kernel writes there as much as the question's
//! answer has. So every question is a function of this file that knows how long its answer is.
#![allow(unsafe_code, reason = "calls ioctl(SIOCETHTOOL)")]

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// A socket, by which any net device's driver can be asked.
#[derive(Debug)]
pub(super) struct DriverSocket(OwnedFd);

/// One net device.
pub(super) struct Driver<'a> {
    socket: &'a DriverSocket,
    name: [libc::c_char; libc::IFNAMSIZ],
}

/// The port's settings and the modes it has, as bits: supported, advertised, told by the partner.
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
        // The last stays zero: C's end of the name.
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

    /// First the kernel is asked how many words its bit masks have, which it answers negated.
    pub(super) fn link_settings(&self) -> Option<LinkSettings> {
        const COMMAND: u32 = 0x4c;
        const HEADER: usize = 12;
        // The count of words is the last byte of the fourth word, and is at most 127.
        const COUNT: usize = 15;
        let mut answer = [0; HEADER + 3 * 127];
        answer[0] = COMMAND;
        self.ask(&mut answer)?;
        let count = bytes(&answer)[COUNT].cast_signed().checked_neg().filter(|count| *count > 0)?;
        answer.fill(0);
        answer[0] = COMMAND;
        let mut fourth = answer[3].to_ne_bytes();
        fourth[3] = count.cast_unsigned();
        answer[3] = u32::from_ne_bytes(fourth);
        self.ask(&mut answer)?;
        let count = usize::from(count.cast_unsigned());
        let mask = |number: usize| answer[HEADER + number * count..][..count].to_vec();
        Some(LinkSettings {
            speed: answer[1],
            autonegotiation: bytes(&answer)[11] != 0,
            modes: [mask(0), mask(1), mask(2)],
        })
    }

    /// Entries of the rings: the most, then now.
    pub(super) fn rings(&self) -> Option<[u32; 9]> {
        self.words(0x10)
    }

    pub(super) fn coalescing(&self) -> Option<[u32; 23]> {
        self.words(0x0e)
    }

    pub(super) fn pause(&self) -> Option<[u32; 4]> {
        self.words(0x12)
    }

    /// What the cable or transceiver has written about itself. Needs CAP_NET_ADMIN.
    pub(super) fn module_memory(&self) -> Option<Vec<u8>> {
        let information = self.words::<11>(0x42)?;
        let length = information[2].min(MAX_MODULE_BYTES);
        let mut answer = vec![0; 4 + length.div_ceil(4) as usize];
        answer[0] = 0x43;
        answer[3] = length;
        self.ask(&mut answer)?;
        Some(bytes(&answer[4..])[..length as usize].to_vec())
    }

    /// The names of the driver's own counters, in their order; what is no name is `None`.
    pub(super) fn statistic_names(&self) -> Option<Vec<Option<String>>> {
        let count = self.statistics_count()?;
        let answer = self.counted(0x1b, &[STATISTICS, count as u32], count, NAME)?;
        Some(bytes(&answer[3..]).chunks_exact(NAME).take(count).map(text).collect())
    }

    /// The values of the driver's own counters, in the order of their names. Nothing, if there are not as many of them.
    pub(super) fn statistic_values(&self, count: usize) -> Option<Vec<u64>> {
        if self.statistics_count()? != count {
            return None;
        }
        let answer = self.counted(0x1d, &[count as u32], count, VALUE)?;
        let pairs = answer[2..].chunks_exact(VALUE / 4).take(count);
        Some(pairs.filter_map(|pair| pair.first_chunk().copied()).map(long).collect())
    }

    fn statistics_count(&self) -> Option<usize> {
        // The set is asked for by its bit, and its size stands behind the header if it has one.
        let mut answer = [0x37, 0, 1 << STATISTICS, 0, 0];
        self.ask(&mut answer)?;
        let known = u64::from(answer[2]) | u64::from(answer[3]) << 32;
        let count = answer[4] as usize;
        (known != 0 && count <= MAX_STATISTICS).then_some(count)
    }

    /// An answer whose length the driver chooses. It was asked for just before; should the driver have more by
    /// now, old kernels write them all, so there is room for as many again as any driver has.
    fn counted(&self, command: u32, head: &[u32], count: usize, size: usize) -> Option<Vec<u32>> {
        let mut answer = vec![0; 3 + (count + MAX_STATISTICS) * size / 4];
        answer[0] = command;
        answer[1..=head.len()].copy_from_slice(head);
        self.ask(&mut answer)?;
        let told = answer[head.len()] as usize;
        (told == count).then_some(answer)
    }

    fn words<const N: usize>(&self, command: u32) -> Option<[u32; N]> {
        let mut answer = [0; N];
        answer[0] = command;
        self.ask(&mut answer).map(|()| answer)
    }

    /// `answer` begins with the command and is as long as what the kernel answers to it.
    fn ask(&self, answer: &mut [u32]) -> Option<()> {
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

/// A number of eight bytes, as the machine writes it.
fn long([first, second]: [u32; 2]) -> u64 {
    let [[a, b, c, d], [e, f, g, h]] = [first.to_ne_bytes(), second.to_ne_bytes()];
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// Text in a field of fixed length, ended by a zero.
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
/// Two pages and the lower half of them.
const MAX_MODULE_BYTES: u32 = 640;
