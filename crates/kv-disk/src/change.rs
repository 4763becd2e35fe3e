//! Changes to be saved.

/// One change; several are saved together.
#[derive(Debug, Clone, Copy)]
pub enum Change<'c> {
    /// Sets the value of a key.
    Put {
        /// The key.
        key: &'c [u8],
        /// Its version.
        version: u64,
        /// When it expires, in milliseconds since 1970.
        expires: Option<u64>,
        /// Its length in bytes.
        length: u64,
        /// Its bytes.
        body: Body<'c>,
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: &'c [u8],
        /// The version of this change.
        version: u64,
    },
    /// A chunk of a value that will be put later. Until then it is not visible.
    Chunk {
        /// Identifies the value that the chunks belong to.
        owner: u64,
        /// The index of the chunk, from 0.
        number: u32,
        /// Its bytes: [`CHUNK_BYTES`](crate::CHUNK_BYTES) of them, fewer in the last chunk.
        bytes: &'c [u8],
    },
}

/// Where a value's bytes are.
#[derive(Debug, Clone, Copy)]
pub enum Body<'c> {
    /// In the change itself.
    Inline(&'c [u8]),
    /// In chunks that were saved before, under this owner.
    Chunks(u64),
}
