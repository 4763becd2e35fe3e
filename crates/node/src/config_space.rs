//! A PCI function's configuration space, as far as its file may be read.
//!
//! Anyone reads its first 64 bytes, root all of it.

use crate::tree::Halves;
use crate::{Acs, Seen, Tree};

/// What matters of it, with zeros between; refused where only root may read more than the header.
pub(crate) fn read(tree: &Tree, path: &str) -> Seen<Vec<u8>> {
    let parts = tree.parts(path, |read| {
        read(HEADER);
        max_read_request_by(read);
        acs_by(read);
    });
    parts.and_then(|bytes| match bytes.len() {
        0..=HEADER => Seen::Refused(rustix::io::Errno::ACCESS.raw_os_error()),
        _ => Seen::Value(bytes),
    })
}

/// The most bytes that it asks for in one read: three bits of Device Control (PCIe 7.5.3.4).
pub(crate) fn max_read_request(config: &[u8]) -> Option<u32> {
    max_read_request_by(&mut |at| half(config, at))
}

/// Access control, which is an extended capability (PCIe 7.7.11).
pub(crate) fn acs(config: &[u8]) -> Seen<Acs> {
    acs_by(&mut |at| half(config, at)).map_or(Seen::Absent, Seen::Value)
}

fn max_read_request_by(read: &mut Halves) -> Option<u32> {
    let at = capability(read)?;
    let code = u32::from(read(at + 8)? >> 12 & 7);
    (code <= 5).then(|| 128 << code)
}

fn acs_by(read: &mut Halves) -> Option<Acs> {
    let at = extended(read, ACS)?;
    let control = read(at + 6)?;
    let bit = |bit: u32| control >> bit & 1 == 1;
    Some(Acs {
        source_validation: bit(0),
        request_redirect: bit(2),
        completion_redirect: bit(3),
        upstream_forwarding: bit(4),
    })
}

/// Where the PCI Express capability is, in the list that begins at 0x34.
fn capability(read: &mut Halves) -> Option<usize> {
    let mut at = read(0x34)? & 0xfc;
    // The list has room for no more; one in a ring ends here too.
    for _ in 0..48 {
        let place = usize::from(at);
        if place < HEADER {
            return None;
        }
        let [id, next] = read(place)?.to_le_bytes();
        if id == PCI_EXPRESS {
            return Some(place);
        }
        at = u16::from(next & 0xfc);
    }
    None
}

/// Where an extended capability is, in the list that begins at 0x100.
fn extended(read: &mut Halves, wanted: u16) -> Option<usize> {
    let mut at = 0x100;
    for _ in 0..512 {
        if read(at)? == wanted {
            return Some(at);
        }
        at = usize::from(read(at + 2)? >> 4 & !3);
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

    /// As a file of the kernel: all of it for root, the header for others.
    #[test]
    fn of_a_file_only_what_matters_is_read() {
        let whole = config(0x5936, 0x001d);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("root"), &whole).expect("a file");
        std::fs::write(folder.path().join("user"), &whole[..HEADER]).expect("a file");
        let tree = Tree::at(folder.path()).expect("a tree");
        let parts = read(&tree, "/root").into_value().expect("parts");
        assert_eq!(
            (max_read_request(&parts), acs(&parts)),
            (max_read_request(&whole), acs(&whole))
        );
        assert_eq!(parts.len(), 0x158, "no further than access control");
        assert_eq!(read(&tree, "/user"), Seen::Refused(13));
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
