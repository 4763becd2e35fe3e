//! The part of DER that names in certificates need.

/// Takes an element off: its tag and its content.
pub(super) fn element<'d>(rest: &mut &'d [u8]) -> Option<(u8, &'d [u8])> {
    let (&tag, behind) = rest.split_first()?;
    let (&first, behind) = behind.split_first()?;
    let (length, behind) = match first {
        ..=0x7f => (usize::from(first), behind),
        // The length follows in this many bytes. Three are enough for any certificate.
        0x81..=0x83 => {
            let (bytes, behind) = behind.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), behind)
        }
        _ => return None,
    };
    let (content, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some((tag, content))
}

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const OCTETS: u8 = 0x04;
