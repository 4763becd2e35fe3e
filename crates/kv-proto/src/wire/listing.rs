//! The data of a listing: keys with length, version and expiry of their values.

use super::{ProtocolError, Reader};

/// One key of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'m> {
    /// The key.
    pub key: &'m [u8],
    /// Its value's length.
    pub length: u64,
    /// Its version.
    pub version: u64,
    /// Milliseconds until it expires, if it does.
    pub expires_in: Option<u64>,
}

impl Entry<'_> {
    /// The bytes of an entry without its key.
    pub const OVERHEAD: usize = 2 + 3 * 8;

    /// Appends the entry.
    pub fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend((self.key.len() as u16).to_le_bytes());
        // An expiry is below its limit, so the largest number can mean none.
        for number in [self.length, self.version, self.expires_in.unwrap_or(u64::MAX)] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.key);
    }
}

/// Iterates over the keys of a listing.
#[derive(Debug)]
pub struct Entries<'m> {
    reader: &'m [u8],
}

impl<'m> Entries<'m> {
    /// The entries encoded in these bytes.
    pub fn new(bytes: &'m [u8]) -> Self {
        Entries { reader: bytes }
    }
}

impl<'m> Iterator for Entries<'m> {
    type Item = Result<Entry<'m>, ProtocolError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let mut reader = Reader { bytes: std::mem::take(&mut self.reader) };
        let entry = (|| {
            let key = usize::from(reader.u16()?);
            let (length, version, expires) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let expires_in = (expires != u64::MAX).then_some(expires);
            Ok(Entry { key: reader.take(key)?, length, version, expires_in })
        })();
        if entry.is_ok() {
            self.reader = reader.bytes;
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_truncation_is_reported_once() {
        let entries = [
            Entry { key: b"one", length: 1, version: 2, expires_in: None },
            Entry { key: &[0; 4096], length: u64::MAX, version: 3, expires_in: Some(9) },
        ];
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.put(&mut bytes));
        let back: Vec<_> = Entries::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(back, entries);
        let cut: Vec<_> = Entries::new(&bytes[..bytes.len() - 1]).collect();
        assert!(cut.len() == 2 && cut[0].is_ok() && cut[1].is_err());
    }
}
