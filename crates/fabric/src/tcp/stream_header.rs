//! The stream header, the first bytes of every connection: which lane it is for. It is not authenticated.

/// The first bytes of connections of TCP lanes.
pub const MAGIC: [u8; 4] = *b"WLT1";

/// The length of a stream header: [`MAGIC`], the stream's index, and the id of the accepting end.
pub const STREAM_HEADER_BYTES: usize = 4 + 1 + 16;

pub(super) fn stream_header(stream: u8, id: u128) -> [u8; STREAM_HEADER_BYTES] {
    let mut header = [0; STREAM_HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[4] = stream;
    header[5..].copy_from_slice(&id.to_le_bytes());
    header
}

/// The id of the accepting end.
pub(super) fn id(header: &[u8; STREAM_HEADER_BYTES]) -> Option<u128> {
    let id = header.strip_prefix(&MAGIC)?.get(1..)?;
    Some(u128::from_le_bytes(id.try_into().ok()?))
}
