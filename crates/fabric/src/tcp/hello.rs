//! The first bytes of every connection: whom it is for. They prove nothing.

/// How connections of TCP lanes begin, and no others.
pub const MAGIC: [u8; 4] = *b"WLT1";

/// How many bytes a hello has: [`MAGIC`], the number of the stream, and the id of the accepting end.
pub const HELLO: usize = 4 + 1 + 16;

pub(super) fn hello(stream: u8, id: u128) -> [u8; HELLO] {
    let mut hello = [0; HELLO];
    hello[..4].copy_from_slice(&MAGIC);
    hello[4] = stream;
    hello[5..].copy_from_slice(&id.to_le_bytes());
    hello
}

/// For whom it is.
pub(super) fn id(hello: &[u8; HELLO]) -> Option<u128> {
    let id = hello.strip_prefix(&MAGIC)?.get(1..)?;
    Some(u128::from_le_bytes(id.try_into().ok()?))
}
