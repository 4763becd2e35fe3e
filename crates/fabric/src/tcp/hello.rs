//! The first bytes of every connection: which lane it is for. They are not authenticated.

/// The first bytes of connections of TCP lanes.
pub const MAGIC: [u8; 4] = *b"WLT1";

/// The length of a hello: [`MAGIC`], the stream's index, and the id of the accepting end.
pub const HELLO_BYTES: usize = 4 + 1 + 16;

pub(super) fn hello(stream: u8, id: u128) -> [u8; HELLO_BYTES] {
    let mut hello = [0; HELLO_BYTES];
    hello[..4].copy_from_slice(&MAGIC);
    hello[4] = stream;
    hello[5..].copy_from_slice(&id.to_le_bytes());
    hello
}

/// The id of the accepting end.
pub(super) fn id(hello: &[u8; HELLO_BYTES]) -> Option<u128> {
    let id = hello.strip_prefix(&MAGIC)?.get(1..)?;
    Some(u128::from_le_bytes(id.try_into().ok()?))
}
