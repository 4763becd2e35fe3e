//! A key: by what name a value is known.

use std::fmt;

use crate::BadKey;

/// A key as a caller hands it in: 1 to [`Key::MAX`] bytes of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key<'k>(&'k [u8]);

impl<'k> Key<'k> {
    /// The longest key, in bytes.
    pub const MAX: usize = 4096;

    /// The only constructor for keys: what is inside the crate need not check again.
    pub fn new(bytes: &'k [u8]) -> Result<Key<'k>, BadKey> {
        match bytes.len() {
            0 => Err(BadKey::Empty),
            length if length > Key::MAX => Err(BadKey::TooLong { length }),
            _ => Ok(Key(bytes)),
        }
    }

    /// The bytes of the key.
    pub fn as_bytes(self) -> &'k [u8] {
        self.0
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A key as the index keeps it. Short ones, which most are, lie within the entry and cost no
/// allocation of their own.
#[derive(Debug)]
pub(crate) enum KeptKey {
    Short { length: u8, bytes: [u8; KeptKey::SHORT] },
    Long(Box<[u8]>),
}

impl KeptKey {
    /// What fits beside the tag and the length in 24 bytes.
    const SHORT: usize = 22;

    pub(crate) fn new(key: Key<'_>) -> KeptKey {
        let from = key.as_bytes();
        if from.len() > KeptKey::SHORT {
            return KeptKey::Long(from.into());
        }
        let mut bytes = [0; KeptKey::SHORT];
        bytes[..from.len()].copy_from_slice(from);
        KeptKey::Short { length: from.len() as u8, bytes }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            KeptKey::Short { length, bytes } => &bytes[..usize::from(*length)],
            KeptKey::Long(bytes) => bytes,
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap(&self) -> usize {
        match self {
            KeptKey::Short { .. } => 0,
            KeptKey::Long(bytes) => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_to_4096_bytes() {
        assert_eq!(Key::new(b""), Err(BadKey::Empty));
        assert_eq!(Key::new(&[0; 4097]), Err(BadKey::TooLong { length: 4097 }));
        assert_eq!(Key::new(&[0xff; 4096]).unwrap().as_bytes().len(), 4096);
    }

    #[test]
    fn keys_are_kept_as_they_came() {
        for length in [1, 21, 22, 23, 4096] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let kept = KeptKey::new(Key::new(&bytes).unwrap());
            assert_eq!(kept.as_bytes(), bytes);
            assert_eq!(kept.heap(), if length > 22 { length } else { 0 });
        }
        assert_eq!(size_of::<KeptKey>(), 24);
    }
}
