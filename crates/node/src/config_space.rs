//! The configuration space of a PCI function.
//!
//! Anyone may read its first 64 bytes, root all of it.

use crate::tree::ReadU16;
use crate::{Acs, Reading, Tree};

/// The relevant parts, with zeros between; refused if only the header is readable.
pub(crate) fn read(tree: &Tree, path: &str) -> Reading<Vec<u8>> {
    let parts = tree.parts(path, |read| {
        read(HEADER);
        find_max_read_request(read);
        find_acs(read);
    });
    parts.and_then(|bytes| match bytes.len() {
        0..=HEADER => Reading::Refused(rustix::io::Errno::ACCESS.raw_os_error()),
        _ => Reading::Value(bytes),
    })
}

/// The maximum read request size: three bits of Device Control (PCIe 7.5.3.4).
pub(crate) fn max_read_request(config: &[u8]) -> Option<u32> {
    find_max_read_request(&mut |at| u16_at(config, at))
}

/// Access control, which is an extended capability (PCIe 7.7.11).
pub(crate) fn acs(config: &[u8]) -> Reading<Acs> {
    find_acs(&mut |at| u16_at(config, at)).map_or(Reading::Absent, Reading::Value)
}

fn find_max_read_request(read: &mut ReadU16) -> Option<u32> {
    let at = capability(read)?;
    let code = u32::from(read(at + 8)? >> 12 & 7);
    (code <= 5).then(|| 128 << code)
}

fn find_acs(read: &mut ReadU16) -> Option<Acs> {
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

/// The offset of the PCI Express capability, in the list that starts at 0x34.
fn capability(read: &mut ReadU16) -> Option<usize> {
    let mut at = read(0x34)? & 0xfc;
    // The list cannot be longer; this also ends a loop.
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

/// The offset of an extended capability, in the list that starts at 0x100.
fn extended(read: &mut ReadU16, wanted: u16) -> Option<usize> {
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

fn u16_at(config: &[u8], at: usize) -> Option<u16> {
    let bytes = config.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

/// The bytes that anyone may read.
const HEADER: usize = 64;
/// The id of the PCI Express capability.
const PCI_EXPRESS: u8 = 0x10;
/// The id of access control services.
const ACS: u16 = 0x000d;

#[cfg(test)]
mod tests {
    use super::*;

    /// A function with the PCI Express capability at 0x60 and access control at 0x150, each second in its list.
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
    fn registers_are_found_in_their_lists() {
        let config = config(0x5936, 0x001d);
        assert_eq!(max_read_request(&config), Some(4096));
        let all = Acs {
            source_validation: true,
            request_redirect: true,
            completion_redirect: true,
            upstream_forwarding: true,
        };
        assert_eq!(acs(&config), Reading::Value(all));
    }

    /// Like a file of the kernel: all of it for root, the header for others.
    #[test]
    fn only_relevant_parts_of_a_file_are_read() {
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
        assert_eq!(read(&tree, "/user"), Reading::Refused(13));
    }

    #[test]
    fn lists_with_a_loop_end() {
        let mut looped = config(0, 0);
        looped[0x41] = 0x40;
        looped[0x102..0x104].copy_from_slice(&[0x02, 0x10]);
        assert_eq!(max_read_request(&looped), None);
        assert_eq!(acs(&looped), Reading::Absent);
        assert_eq!(max_read_request(&[0xff; 65]), None);
        assert_eq!(acs(&[0xff; 4096]), Reading::Absent);
    }
}
