//! Steps of calls, for both clients: each becomes one request.

use kv_proto::limits::MAX_KEY_BYTES;
use kv_proto::wire::{Destination, Request, Source};

use crate::client_buffer::Lease;
use crate::core::ClientCore;
use crate::error::{Error, ErrorKind};
use crate::handle::HandleId;
use crate::options::PutOptions;
use crate::page::Cursor;
use crate::request_id::RequestId;

/// One step of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Reads the key's value; `open_handle`: opens a handle for the rest, if it is longer.
    Get {
        length: u64,
        open_handle: bool,
        checksum: bool,
    },
    /// Reads a part of a value by its handle.
    Read {
        handle: HandleId,
        offset: u64,
        length: u64,
        checksum: bool,
    },
    /// Stores the value by one request.
    Put,
    /// Stores bytes of the caller's registered memory.
    PutFrom {
        region: u32,
        at: u64,
        length: u64,
    },
    /// Stages a value of this length under a handle.
    Begin {
        length: u64,
    },
    /// Writes a part of the value to a handle.
    Chunk {
        handle: HandleId,
        offset: usize,
        length: usize,
    },
    /// Stores the staged value of a handle under the key.
    Commit {
        handle: HandleId,
    },
    Delete,
    Stat,
    /// Lists keys that have the key as prefix.
    List {
        cursor: Cursor,
    },
}

/// The key, value and options of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallArguments<'s> {
    pub(crate) key: &'s [u8],
    pub(crate) value: &'s [u8],
    pub(crate) options: PutOptions,
}

/// What a request has reserved. It is kept if the request must wait, for the next attempt.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    lease: Option<Lease>,
    sequence: Option<u64>,
}

impl<'s> CallArguments<'s> {
    /// A key alone.
    pub(crate) fn of(key: &'s [u8]) -> Self {
        CallArguments { key, value: &[], options: PutOptions::default() }
    }
}

impl ClientCore {
    /// Submits one step of a call.
    #[inline]
    pub(crate) fn submit_step(
        &mut self,
        request_id: RequestId,
        step: Step,
        arguments: &CallArguments<'_>,
        reserved: &mut Reserved,
    ) -> Result<(), Error> {
        let CallArguments { key, value, options } = *arguments;
        let (ttl, condition) = (options.ttl_ms(), options.condition);
        let request = match step {
            Step::Get { length, open_handle, checksum } => Request::Get {
                key,
                offset: 0,
                length,
                destination: Destination::Inline,
                open_handle,
                checksum,
            },
            Step::Read { handle, offset, length, checksum } => {
                let (handle, destination) =
                    (handle.on(self.connection_number()), Destination::Inline);
                Request::Read { handle, offset, length, destination, checksum }
            }
            Step::Put => {
                let (source, length) = (self.source(value, reserved)?, value.len() as u64);
                let sequence = self.sequence_of(reserved);
                Request::Put { key, length, source, ttl, condition, sequence }
            }
            Step::PutFrom { region, at, length } => {
                let source = match length {
                    0 => Source::Inline(&[]),
                    _ => Source::Region { region, at },
                };
                let sequence = self.sequence_of(reserved);
                Request::Put { key, length, source, ttl, condition, sequence }
            }
            Step::Begin { length } => Request::Begin { length },
            Step::Chunk { handle, offset, length } => {
                let source = self.leased(&value[offset..offset + length], reserved)?;
                let (handle, offset, length) =
                    (handle.on(self.connection_number()), offset as u64, length as u64);
                Request::Chunk { handle, offset, length, source }
            }
            Step::Commit { handle } => {
                let (handle, sequence) =
                    (handle.on(self.connection_number()), self.sequence_of(reserved));
                Request::Commit { handle, key, ttl, condition, sequence }
            }
            Step::Delete => {
                Request::Delete { key, condition, sequence: self.sequence_of(reserved) }
            }
            Step::Stat => Request::Stat { key },
            Step::List { cursor } => {
                Request::List { prefix: key, cursor: cursor.0, length: LIST_PAGE_BYTES }
            }
        };
        self.submit(request_id, &request, &mut reserved.lease)
    }

    /// Where the store finds the value. Short values are part of the request; longer ones are copied into the client
    /// buffer first, and stay in the lease if the request must wait.
    #[inline]
    fn source<'v>(&self, value: &'v [u8], reserved: &mut Reserved) -> Result<Source<'v>, Error> {
        let inline_bytes =
            if self.store_maps_our_memory() { LOCAL_INLINE_BYTES } else { REMOTE_INLINE_BYTES };
        match value.len() <= inline_bytes && reserved.lease.is_none() {
            true => Ok(Source::Inline(value)),
            false => self.leased(value, reserved),
        }
    }

    fn leased(&self, bytes: &[u8], reserved: &mut Reserved) -> Result<Source<'static>, Error> {
        let lease = match &mut reserved.lease {
            Some(lease) => lease,
            none => {
                let lease = none.insert(self.client_buffer().lease(bytes.len())?);
                lease.client_buffer().memory().write(lease.offset(), bytes);
                lease
            }
        };
        Ok(Source::Region { region: 0, at: lease.offset() as u64 })
    }

    /// A write has the same sequence however often it is sent, so that it is done once.
    #[inline]
    fn sequence_of(&mut self, reserved: &mut Reserved) -> u64 {
        *reserved.sequence.get_or_insert_with(|| self.next_sequence())
    }

    /// The maximum length of a value that one request stores.
    pub(crate) fn max_put_bytes(&self) -> usize {
        let max_bytes = self.limits().map_or(usize::MAX, |limits| limits.transfer as usize);
        (self.client_buffer().len() / 4).min(max_bytes)
    }

    /// The length of the chunks of longer values: long enough to be worth a request, and short enough that several
    /// fit into the client buffer.
    pub(crate) fn chunk(&self) -> usize {
        (self.client_buffer().len() / 16).clamp(64 << 10, 4 << 20)
    }
}

/// Checks the length of a key.
#[inline]
pub(crate) fn check(key: &[u8]) -> Result<(), Error> {
    match key.len() {
        1..=MAX_KEY_BYTES => Ok(()),
        length => Err(invalid(length)),
    }
}

#[cold]
fn invalid(length: usize) -> Error {
    let text = match length {
        0 => "the key is empty — use at least one byte".to_owned(),
        length => format!("the key has {length} bytes — the limit is {MAX_KEY_BYTES}"),
    };
    Error::new(ErrorKind::Misuse, text)
}

/// A call and its key, for errors.
pub(crate) fn describe(call: &str, key: &[u8]) -> String {
    let start = String::from_utf8_lossy(&key[..key.len().min(60)]);
    let more = if key.len() > 60 { "…" } else { "" };
    format!("{call} {start:?}{more}")
}

/// How many chunks of a value are in flight at once.
pub(crate) const CHUNKS_IN_FLIGHT: usize = 4;
/// The maximum bytes of a page of a listing.
const LIST_PAGE_BYTES: u64 = 64 << 10;
/// Values up to this length are part of the request. A store on the same host reads longer ones from our memory at
/// no cost; a remote store needs a round trip for that.
const LOCAL_INLINE_BYTES: usize = 512;
const REMOTE_INLINE_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_to_4096_bytes() {
        check(&[0]).unwrap();
        check(&[0; 4096]).unwrap();
        assert!(check(b"").unwrap_err().to_string().contains("empty"));
        let error = check(&[0; 4097]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
        assert!(error.to_string().contains("4097 bytes"), "{error}");
    }

    #[test]
    fn a_long_or_binary_key_is_shortened_and_escaped_in_errors() {
        assert_eq!(describe("get", b"user/7"), r#"get "user/7""#);
        assert_eq!(describe("get", &[b'x'; 61]), format!("get {:?}…", "x".repeat(60)));
        assert_eq!(describe("get", b"a\n\xff"), "get \"a\\n\u{fffd}\"");
    }
}
