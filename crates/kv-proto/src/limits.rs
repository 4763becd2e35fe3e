//! Limits of one message, reported to clients in `Limits` of the .proto.

/// Bytes of a key; at least one.
pub const MAX_KEY_BYTES: usize = 4096;

/// Bytes of one gRPC message. It is the default limit of gRPC's libraries, so that no client
/// has to configure one.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Bytes of a value in one message: leaves space for the longest key and all other fields.
pub const MAX_UNARY_BYTES: usize = MAX_MESSAGE_BYTES - (8 << 10);

/// Default bytes of a chunk of `Read`.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Maximum bytes of a chunk of `Read`.
pub const MAX_CHUNK_BYTES: usize = 1 << 20;

/// Keys of one `ListReply`: as many of the longest keys fit in a message.
pub const MAX_LIST_KEYS: usize = 1000;

/// Keys of `MultiGet`, items of `MultiPut`.
pub const MAX_ITEMS: usize = 1000;

/// The longest time to live, a hundred years. More is a mistake in units.
pub const MAX_TTL_MS: u64 = 36_525 * 24 * 3_600 * 1000;

/// The size of the chunks of a `Read` for the requested size.
pub fn chunk_bytes(requested: u32) -> usize {
    effective(requested, CHUNK_BYTES, MAX_CHUNK_BYTES)
}

/// The maximum number of keys of a `ListReply` for the requested number.
pub fn list_keys(requested: u32) -> usize {
    effective(requested, MAX_LIST_KEYS, MAX_LIST_KEYS)
}

fn effective(requested: u32, default: usize, max: usize) -> usize {
    match requested as usize {
        0 => default,
        requested => requested.min(max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_means_default_and_too_much_is_lowered() {
        assert_eq!(chunk_bytes(0), CHUNK_BYTES);
        assert_eq!(chunk_bytes(1000), 1000);
        assert_eq!(chunk_bytes(u32::MAX), MAX_CHUNK_BYTES);
        assert_eq!((list_keys(0), list_keys(7)), (MAX_LIST_KEYS, 7));
    }
}
