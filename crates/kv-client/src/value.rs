//! A received value.

use std::fmt;
use std::iter::repeat_n;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fabric::Memory;

use crate::client_buffer::Lease;

/// A value, or a part of one, in the client buffer. Dropping the last clone frees that part of the buffer.
///
/// It dereferences to its bytes. The store can write to the client buffer at any time, so there are no references into the
/// buffer: the first dereference copies the bytes, once for all clones made later. Use [`Value::read`] to copy
/// them into your own memory instead, whole or in parts, and a [`RegisteredBuffer`](crate::RegisteredBuffer) to
/// receive values there without any copy.
///
/// ```no_run
/// # fn main() -> Result<(), kv_client::Error> {
/// let mut client = kv_client::Client::connect(kv_client::Settings::new("localhost:50051"))?;
/// if let Some(value) = client.get(b"greeting")? {
///     assert!(value.starts_with(b"hello"));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Value {
    bytes: Received,
    metadata: Metadata,
    /// A copy of the bytes, made on the first dereference.
    copy: OnceLock<Arc<[u8]>>,
}

/// A part of a lease that the store has written to.
#[derive(Clone)]
pub(crate) struct Received {
    pub(crate) lease: Lease,
    /// The offset in the client buffer.
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

/// Length, version and expiry of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The whole value's length in bytes.
    pub length: u64,
    /// Its version: every write of the key increases it.
    pub version: u64,
    /// The remaining time to live, if it expires.
    pub expires_in: Option<Duration>,
}

impl Value {
    #[inline]
    pub(crate) fn new(bytes: Received, metadata: Metadata) -> Self {
        Value { bytes, metadata, copy: OnceLock::new() }
    }

    /// The number of bytes: less than [`Metadata::length`] for a part of a value.
    pub fn len(&self) -> usize {
        self.bytes.length
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The metadata of the whole value.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Copies the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.read(0, &mut bytes);
        bytes
    }

    /// Fills a slice with the bytes from `offset` on.
    ///
    /// # Panics
    /// If the value is too short.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        let fits = offset <= self.len() && bytes.len() <= self.len() - offset;
        assert!(fits, "{} bytes from {offset} of a value of {}", bytes.len(), self.len());
        self.bytes.lease.client_buffer().memory().read(self.bytes.offset + offset, bytes);
    }

    /// CRC32C of the bytes.
    pub(crate) fn checksum(&self) -> u32 {
        let Received { lease, offset, length } = &self.bytes;
        checksum(lease.client_buffer().memory(), *offset, *length)
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.copy.get_or_init(|| {
            let mut bytes: Arc<[u8]> = repeat_n(0, self.len()).collect();
            if let Some(bytes) = Arc::get_mut(&mut bytes) {
                self.read(0, bytes);
            }
            bytes
        })
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl fmt::Debug for Value {
    /// Shows the length, not the bytes, which may be many and private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value")
            .field("length", &self.len())
            .field("metadata", &self.metadata)
            .finish()
    }
}

/// CRC32C of memory that a peer may write: copied chunk by chunk.
pub(crate) fn checksum(memory: &Memory, offset: usize, length: usize) -> u32 {
    let mut chunk = [0; 4096];
    (0..length).step_by(chunk.len()).fold(0, |sum, from| {
        let part = &mut chunk[..(length - from).min(4096)];
        memory.read(offset + from, part);
        crc32c::crc32c_append(sum, part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_buffer::tests::client_buffer;

    fn value(bytes: &[u8]) -> Value {
        let lease = client_buffer(8192).lease(bytes.len()).unwrap();
        lease.client_buffer().memory().write(lease.offset(), bytes);
        let (offset, length) = (lease.offset(), bytes.len());
        let metadata = Metadata { length: length as u64, version: 3, expires_in: None };
        Value::new(Received { lease, offset, length }, metadata)
    }

    #[test]
    fn a_value_is_used_like_its_bytes() {
        let value = value(b"hello world");
        assert!(value.starts_with(b"hello") && value == *b"hello world");
        assert_eq!(value.as_ref(), b"hello world");
        assert_eq!(std::str::from_utf8(&value), Ok("hello world"));
        assert_eq!(value.clone().to_vec(), b"hello world");
        let mut part = [0; 5];
        value.read(6, &mut part);
        assert_eq!(&part, b"world");
    }

    #[test]
    fn a_reference_does_not_change_when_the_store_writes_again() {
        let value = value(b"first");
        let bytes: &[u8] = &value;
        let Received { lease, offset, .. } = &value.bytes;
        lease.client_buffer().memory().write(*offset, b"later");
        assert_eq!(bytes, b"first");
        assert_eq!(value.to_vec(), b"later");
    }

    #[test]
    fn debug_shows_the_length_and_not_the_bytes() {
        let text = format!("{:?}", value(b"secret"));
        assert!(
            text.contains("length: 6") && !text.contains("secret") && !text.contains("115"),
            "{text}"
        );
    }

    #[test]
    #[should_panic(expected = "6 bytes from 1 of a value of 6")]
    fn reading_beyond_the_end_panics() {
        value(b"sixsix").read(1, &mut [0; 6]);
    }
}
