//! Values that can be verified: they contain their key, the stamp of their write, and bytes derived from
//! both.

/// A value of this length for a key and a write.
pub(crate) fn value(key: u64, stamp: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    for word in [key, stamp, length as u64] {
        bytes.extend(word.to_le_bytes());
    }
    let mut at = 0_u64;
    while bytes.len() < length {
        bytes.extend(word(key, stamp, at).to_le_bytes());
        at += 1;
    }
    bytes.truncate(length.max(24));
    bytes
}

/// Verifies a value.
pub(crate) fn verify(key: u64, bytes: &[u8]) -> Result<(), String> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    if bytes.len() < 24 {
        return Err(format!("{} bytes only", bytes.len()));
    }
    let (of, stamp, length) = (number(0), number(8), number(16));
    if of != key {
        return Err(format!("the value of key {of}"));
    }
    if length.max(24) != bytes.len() as u64 {
        return Err(format!("{} bytes of {length}", bytes.len()));
    }
    match value(key, stamp, length as usize) == bytes {
        true => Ok(()),
        false => Err(format!("bytes of another write than {stamp:x}")),
    }
}

fn word(key: u64, stamp: u64, at: u64) -> u64 {
    (key ^ stamp.rotate_left(17)).wrapping_add(at).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Pseudo-random numbers from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }
}
