//! What is saved.

/// One change; several are saved together.
#[derive(Debug, Clone, Copy)]
pub enum Change<'c> {
    /// A key has this value from now on.
    Put {
        /// Whose it is.
        key: &'c [u8],
        /// Its version.
        version: u64,
        /// When it expires, in milliseconds since 1970.
        expires: Option<u64>,
        /// How long it is.
        length: u64,
        /// Its bytes.
        body: Body<'c>,
    },
    /// A key goes.
    Delete {
        /// Which.
        key: &'c [u8],
    },
    /// A piece of a value that will be put later. Until then it is nobody's.
    Piece {
        /// What the value's pieces have in common.
        owner: u64,
        /// Which piece, from 0.
        number: u32,
        /// Its bytes: as many as [`PIECE`](crate::PIECE), but for the last.
        bytes: &'c [u8],
    },
}

/// Where a value's bytes are.
#[derive(Debug, Clone, Copy)]
pub enum Body<'c> {
    /// Here.
    Here(&'c [u8]),
    /// In pieces that were saved before, under this owner.
    Pieces(u64),
}
