//! Encoding of numbers and texts in messages between peers; little endian.

/// Reads fields in order; `None` if one is missing.
pub(in crate::link) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(in crate::link) fn new(bytes: &'b [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(in crate::link) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*first)
    }

    pub(in crate::link) fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    pub(in crate::link) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.array()?))
    }

    pub(in crate::link) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    pub(in crate::link) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    /// Bytes with a length prefix, at most `max_bytes` of them.
    pub(in crate::link) fn bytes(&mut self, max_bytes: usize) -> Option<&'b [u8]> {
        let length = usize::from(self.u16()?);
        if length > max_bytes {
            return None;
        }
        let (first, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(first)
    }

    /// A text; control characters are removed.
    pub(in crate::link) fn text(&mut self, max_bytes: usize) -> Option<String> {
        let text = std::str::from_utf8(self.bytes(max_bytes)?).ok()?;
        Some(text.chars().filter(|c| !c.is_control()).collect())
    }

    /// Checks that nothing follows the last field.
    pub(in crate::link) fn end(self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }
}

/// Appends bytes with a length prefix. Longer ones than 64 KiB would be truncated; there are none.
pub(in crate::link) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    to.extend(length.to_le_bytes());
    to.extend(&bytes[..usize::from(length)]);
}

/// Appends a text, truncated to at most `max_bytes` bytes between two characters.
pub(in crate::link) fn put_text(to: &mut Vec<u8>, text: &str, max_bytes: usize) {
    let end =
        (0..=text.len().min(max_bytes)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    put_bytes(to, &text.as_bytes()[..end]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_in_order_and_the_end_is_checked() {
        let mut bytes = vec![7, 1, 2];
        put_text(&mut bytes, "wärme\n", 5);
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.u8(), reader.u16()), (Some(7), Some(0x201)));
        assert_eq!(reader.text(16).as_deref(), Some("wärm"));
        assert_eq!(reader.u8(), None);
        assert_eq!(reader.end(), Some(()));
        assert_eq!(Reader::new(&[1]).end(), None);
        assert_eq!(Reader::new(&[3, 0, 1, 2, 3]).bytes(2), None, "more than allowed");
        assert_eq!(Reader::new(&[3, 0, 1, 2]).bytes(9), None, "less than the length");
    }
}
