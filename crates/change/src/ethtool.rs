//! Ring sizes and interrupt coalescing of a net device, set by the ioctl that the program `ethtool` uses.
//!
//! Unsafe here: one ioctl, SIOCETHTOOL. It takes a structure with the device's name and a pointer to a second
//! one, whose first word is the command, which determines its length. Both live on our stack for the
//! duration of the call, and the second is as long as the kernel's own for the two commands that are used.
#![allow(unsafe_code, reason = "calls SIOCETHTOOL")]

use std::os::fd::AsRawFd;

use node::Tree;
use node::queries::Ethtool;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::{Error, State};

/// One of the kernel's structures, as 32-bit words.
pub(super) trait EthtoolStruct {
    /// Its name in errors.
    const NAME: &'static str;
    /// The commands that read and set it.
    const COMMANDS: (u32, u32);
    /// Its length in words.
    const LENGTH: usize;
    /// The indices of our values, in the target's order.
    const INDICES: &'static [usize];
    /// The number of leading values that are `on` or `off`.
    const SWITCHES: usize;
    /// The values in a driver's answer.
    fn values(answer: &Ethtool) -> Option<Vec<u32>>;
}

/// `struct ethtool_ringparam`.
pub(super) enum Rings {}

/// `struct ethtool_coalesce`.
pub(super) enum Coalescing {}

impl EthtoolStruct for Rings {
    const NAME: &'static str = "ring sizes";
    const COMMANDS: (u32, u32) = (0x10, 0x11);
    const LENGTH: usize = 9;
    const INDICES: &'static [usize] = &[5, 8];
    const SWITCHES: usize = 0;

    fn values(answer: &Ethtool) -> Option<Vec<u32>> {
        answer.rings.map(|rings| vec![rings.rx, rings.tx])
    }
}

impl EthtoolStruct for Coalescing {
    const NAME: &'static str = "interrupt coalescing";
    const COMMANDS: (u32, u32) = (0x0e, 0x0f);
    const LENGTH: usize = 23;
    const INDICES: &'static [usize] = &[10, 11, 1, 5];
    const SWITCHES: usize = 2;

    fn values(answer: &Ethtool) -> Option<Vec<u32>> {
        let found = answer.coalescing?;
        Some(vec![
            found.adaptive_rx.into(),
            found.adaptive_tx.into(),
            found.rx_usecs,
            found.tx_usecs,
        ])
    }
}

/// The values that the driver reports.
pub(super) fn read<W: EthtoolStruct>(tree: &Tree, netdev: &str) -> Result<State, Error> {
    let answer = tree.query_results().ethtool().and_then(|answers| answers.get(netdev));
    let words = answer.and_then(W::values).ok_or_else(|| {
        Error::failed(format!("{netdev}: its driver does not report {}", W::NAME))
    })?;
    let values = words.iter().enumerate().map(|(place, word)| Some(format_word::<W>(place, *word)));
    Ok(State::Values(values.collect()))
}

/// Sets the given values; all others keep the value that the driver reports.
pub(super) fn set<W: EthtoolStruct>(netdev: &str, values: &[Option<String>]) -> Result<(), Error> {
    let mut words = [0; MAX_WORDS];
    words[0] = W::COMMANDS.0;
    ioctl::<W>(netdev, &mut words, "read")?;
    for (at, value) in values.iter().enumerate() {
        let (Some(place), Some(value)) = (W::INDICES.get(at), value) else { continue };
        words[*place] = word(value).ok_or_else(|| {
            Error::failed(format!("{netdev}: {value:?} is not a value of {}", W::NAME))
        })?;
    }
    words[0] = W::COMMANDS.1;
    ioctl::<W>(netdev, &mut words, "set")
}

fn format_word<W: EthtoolStruct>(place: usize, word: u32) -> String {
    match (place < W::SWITCHES, word) {
        (true, 0) => "off".to_owned(),
        (true, _) => "on".to_owned(),
        (false, number) => number.to_string(),
    }
}

fn word(value: &str) -> Option<u32> {
    match value {
        "off" => Some(0),
        "on" => Some(1),
        number => number.parse().ok(),
    }
}

fn ioctl<W: EthtoolStruct>(
    netdev: &str,
    words: &mut [u32; MAX_WORDS],
    verb: &str,
) -> Result<(), Error> {
    const { assert!(W::LENGTH <= MAX_WORDS) }
    let call =
        |error: std::io::Error| Error::call(verb, &format!("{} of {netdev}", W::NAME), error);
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let socket = socket.map_err(|errno| call(errno.into()))?;
    let mut name = [0; libc::IFNAMSIZ];
    if netdev.is_empty() || netdev.len() >= name.len() {
        return Err(call(std::io::ErrorKind::InvalidInput.into()));
    }
    for (letter, byte) in name.iter_mut().zip(netdev.bytes()) {
        *letter = libc::c_char::from_ne_bytes([byte]);
    }
    let data = libc::__c_anonymous_ifr_ifru { ifru_data: words.as_mut_ptr().cast() };
    let mut request = libc::ifreq { ifr_name: name, ifr_ifru: data };
    // SAFETY: `request` is a whole `ifreq` with a name that ends in a zero (checked above), and its pointer is
    // to `words`, which outlives the call and is at least as long as the structure that its command names:
    // `EthtoolStruct::LENGTH` is that length, and the assertion above keeps it within `MAX_WORDS`.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if answer == 0 { Ok(()) } else { Err(call(std::io::Error::last_os_error())) }
}

/// Length of the longest structure.
const MAX_WORDS: usize = 24;
