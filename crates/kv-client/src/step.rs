//! Requests as both clients make them.

use kv_proto::limits::MAX_KEY_BYTES;
use kv_proto::wire::{Place, Request, Source};

use crate::core::Core;
use crate::error::{Error, Kind};
use crate::handle::HandleId;
use crate::options::PutOptions;
use crate::page::Cursor;
use crate::receive_buffer::Lease;
use crate::token::Token;

/// One request of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// The key's value; `keep`: and a handle for the rest, if it is longer.
    Get {
        length: u64,
        keep: bool,
        checksum: bool,
    },
    /// A part of a value with a handle.
    Read {
        handle: HandleId,
        offset: u64,
        length: u64,
        checksum: bool,
    },
    /// The value becomes the key's, by one request.
    Put,
    /// Bytes of the caller's registered memory become the key's value.
    PutFrom {
        region: u32,
        at: u64,
        length: u64,
    },
    /// Room for a value of this length, with a handle.
    Begin {
        length: u64,
    },
    /// A part of the value is written to a handle.
    Piece {
        handle: HandleId,
        offset: usize,
        length: usize,
    },
    /// What was written to a handle becomes the key's value.
    Commit {
        handle: HandleId,
    },
    Delete,
    Stat,
    /// Keys that begin with the key.
    List {
        cursor: Cursor,
    },
}

/// What a call is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'s> {
    pub(crate) key: &'s [u8],
    pub(crate) value: &'s [u8],
    pub(crate) options: PutOptions,
}

/// What a request keeps if there is no room for it yet, until it is asked again.
#[derive(Debug, Default)]
pub(crate) struct Held {
    lease: Option<Lease>,
    sequence: Option<u64>,
}

impl<'s> Subject<'s> {
    /// A key alone.
    pub(crate) fn of(key: &'s [u8]) -> Self {
        Subject { key, value: &[], options: PutOptions::default() }
    }
}

impl Core {
    /// Asks for one step of a call.
    #[inline]
    pub(crate) fn ask_step(
        &mut self,
        token: Token,
        step: Step,
        subject: &Subject<'_>,
        held: &mut Held,
    ) -> Result<(), Error> {
        let Subject { key, value, options } = *subject;
        let (ttl, condition) = (options.ttl_ms(), options.condition);
        let request = match step {
            Step::Get { length, keep, checksum } => {
                Request::Get { key, offset: 0, length, place: Place::Inline, keep, checksum }
            }
            Step::Read { handle, offset, length, checksum } => {
                let (handle, place) = (handle.on(self.connection()), Place::Inline);
                Request::Read { handle, offset, length, place, checksum }
            }
            Step::Put => {
                let (source, length) = (self.source(value, held)?, value.len() as u64);
                let sequence = self.sequence_of(held);
                Request::Put { key, length, source, ttl, condition, sequence }
            }
            Step::PutFrom { region, at, length } => {
                let source = match length {
                    0 => Source::Inline(&[]),
                    _ => Source::Region { region, at },
                };
                let sequence = self.sequence_of(held);
                Request::Put { key, length, source, ttl, condition, sequence }
            }
            Step::Begin { length } => Request::Begin { length },
            Step::Piece { handle, offset, length } => {
                let source = self.leased(&value[offset..offset + length], held)?;
                let (handle, offset, length) =
                    (handle.on(self.connection()), offset as u64, length as u64);
                Request::Piece { handle, offset, length, source }
            }
            Step::Commit { handle } => {
                let (handle, sequence) = (handle.on(self.connection()), self.sequence_of(held));
                Request::Commit { handle, key, ttl, condition, sequence }
            }
            Step::Delete => Request::Delete { key, condition, sequence: self.sequence_of(held) },
            Step::Stat => Request::Stat { key },
            Step::List { cursor } => {
                Request::List { prefix: key, cursor: cursor.0, length: LISTING }
            }
        };
        self.ask(token, &request, &mut held.lease)
    }

    /// Where the store finds the value. Short values are part of the request; longer ones are copied into the receive
    /// buffer first, where the lease keeps them also if there is no room for the request yet.
    #[inline]
    fn source<'v>(&self, value: &'v [u8], held: &mut Held) -> Result<Source<'v>, Error> {
        let along = if self.is_near() { NEAR_ALONG } else { FAR_ALONG };
        match value.len() <= along && held.lease.is_none() {
            true => Ok(Source::Inline(value)),
            false => self.leased(value, held),
        }
    }

    fn leased(&self, bytes: &[u8], held: &mut Held) -> Result<Source<'static>, Error> {
        let lease = match &mut held.lease {
            Some(lease) => lease,
            none => {
                let lease = none.insert(self.receive_buffer().lease(bytes.len())?);
                lease.receive_buffer().memory().write(lease.offset(), bytes);
                lease
            }
        };
        Ok(Source::Region { region: 0, at: lease.offset() as u64 })
    }

    /// A write has the same sequence however often it is sent, so that it is done once.
    #[inline]
    fn sequence_of(&mut self, held: &mut Held) -> u64 {
        *held.sequence.get_or_insert_with(|| self.next_sequence())
    }

    /// How long a value may be to be stored by one request.
    pub(crate) fn max_at_once(&self) -> usize {
        let moved = self.limits().map_or(usize::MAX, |limits| limits.moved as usize);
        (self.receive_buffer().len() / 4).min(moved)
    }

    /// How long the pieces of longer values are: long enough that each is worth a request, and short enough that several
    /// fit into the receive buffer.
    pub(crate) fn piece(&self) -> usize {
        (self.receive_buffer().len() / 16).clamp(64 << 10, 4 << 20)
    }
}

/// Whether a store accepts such a key.
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
        length => format!("the key has {length} bytes — {MAX_KEY_BYTES} are the maximum"),
    };
    Error::new(Kind::Misuse, text)
}

/// A call with its key, for errors.
pub(crate) fn named(call: &str, key: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&key[..key.len().min(60)]);
    let more = if key.len() > 60 { "…" } else { "" };
    format!("{call} {shown:?}{more}")
}

/// How many pieces of a value are in flight at once.
pub(crate) const PIECES_IN_FLIGHT: usize = 4;
/// How many bytes a page of a listing has at most.
const LISTING: u64 = 64 << 10;
/// Values up to this length are part of the request. A store on the same host reads longer ones from our memory at
/// no cost; another one needs a round trip for that.
const NEAR_ALONG: usize = 512;
const FAR_ALONG: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_to_4096_bytes() {
        check(&[0]).unwrap();
        check(&[0; 4096]).unwrap();
        assert!(check(b"").unwrap_err().to_string().contains("empty"));
        let error = check(&[0; 4097]).unwrap_err();
        assert_eq!(error.kind(), Kind::Misuse);
        assert!(error.to_string().contains("4097 bytes"), "{error}");
    }

    #[test]
    fn a_long_or_binary_key_is_shortened_and_escaped_in_errors() {
        assert_eq!(named("get", b"user/7"), r#"get "user/7""#);
        assert_eq!(named("get", &[b'x'; 61]), format!("get {:?}…", "x".repeat(60)));
        assert_eq!(named("get", b"a\n\xff"), "get \"a\\n\u{fffd}\"");
    }
}
