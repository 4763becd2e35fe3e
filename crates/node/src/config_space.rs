//! A PCI function's configuration space, as far as its file may be read.
//!
//! Anyone reads its first 64 bytes, root all of it.

use crate::{Acs, Seen, Tree};

/// The bytes; those that only root may read are refused.
pub(crate) fn read(tree: &Tree, path: &str) -> Seen<Vec<u8>> {
    tree.bytes(path).and_then(|bytes| match bytes.len() {
        0..=HEADER => Seen::Refused(rustix::io::Errno::ACCESS.raw_os_error()),
        _ => Seen::Value(bytes),
    })
}

/// The most bytes that it asks for in one read: three bits of Device Control (PCIe 7.5.3.4).
pub(crate) fn max_read_request(config: &[u8]) -> Option<u32> {
    let control = half(config, capability(config)? + 8)?;
    let code = u32::from(control >> 12 & 7);
    (code <= 5).then(|| 128 << code)
}

/// Access control, which is an extended capability (PCIe 7.7.11).
pub(crate) fn acs(config: &[u8]) -> Seen<Acs> {
    let control = extended(config, ACS).and_then(|at| half(config, at + 6));
    let bit = |control: u16, bit: u32| control >> bit & 1 == 1;
    control.map_or(Seen::Absent, |control| {
        Seen::Value(Acs {
            source_validation: bit(control, 0),
            request_redirect: bit(control, 2),
            completion_redirect: bit(control, 3),
            upstream_forwarding: bit(control, 4),
        })
    })
}

/// Where the PCI Express capability is, in the list that begins at 0x34.
fn capability(config: &[u8]) -> Option<usize> {
    let mut at = usize::from(*config.get(0x34)? & !3);
    // The list has room for no more; one in a ring ends here too.
    for _ in 0..48 {
        if at < HEADER {
            return None;
        }
        if *config.get(at)? == PCI_EXPRESS {
            return Some(at);
        }
        at = usize::from(*config.get(at + 1)? & !3);
    }
    None
}

/// Where an extended capability is, in the list that begins at 0x100.
fn extended(config: &[u8], wanted: u16) -> Option<usize> {
    let mut at = 0x100;
    for _ in 0..512 {
        let (id, next) = (half(config, at)?, half(config, at + 2)? >> 4);
        if id == wanted {
            return Some(at);
        }
        at = usize::from(next & !3);
        if at < 0x100 {
            return None;
        }
    }
    None
}

fn half(config: &[u8], at: usize) -> Option<u16> {
    let bytes = config.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

/// What anyone may read.
const HEADER: usize = 64;
/// The id of the PCI Express capability.
const PCI_EXPRESS: u8 = 0x10;
/// The id of access control services.
const ACS: u16 = 0x000d;

#[cfg(test)]
mod tests {
    use super::*;

    /// A function with the PCI Express capability at 0x60 and access control at 0x150, behind another.
    fn config(device_control: u16, acs_control: u16) -> Vec<u8> {
        let mut config = vec![0; 4096];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x34, &[0x40]);
        put(0x40, &[0x01, 0x60]);
        put(0x60, &[PCI_EXPRESS, 0x00]);
        put(0x68, &device_control.to_le_bytes());
        put(0x100, &[0x01, 0x00, 0x02, 0x15]);
        put(0x150, &[0x0d, 0x00, 0x01, 0x00]);
        put(0x156, &acs_control.to_le_bytes());
        config
    }

    #[test]
    fn the_registers_are_found_in_their_lists() {
        let config = config(0x5936, 0x001d);
        assert_eq!(max_read_request(&config), Some(4096));
        let all = Acs {
            source_validation: true,
            request_redirect: true,
            completion_redirect: true,
            upstream_forwarding: true,
        };
        assert_eq!(acs(&config), Seen::Value(all));
    }

    #[test]
    fn lists_that_lead_nowhere_end() {
        let mut ring = config(0, 0);
        ring[0x41] = 0x40;
        ring[0x102..0x104].copy_from_slice(&[0x02, 0x10]);
        assert_eq!(max_read_request(&ring), None);
        assert_eq!(acs(&ring), Seen::Absent);
        assert_eq!(max_read_request(&[0xff; 65]), None);
        assert_eq!(acs(&[0xff; 4096]), Seen::Absent);
    }
}
