//! Requests as every client makes them, however it waits.

use kv_proto::limits::MAX_KEY_BYTES;
use kv_proto::wire::{Request, Source};

use crate::core::Core;
use crate::error::{Error, Kind};
use crate::options::PutOptions;
use crate::receive_buffer::Lease;
use crate::token::Token;

/// A value to be stored by one request.
pub(crate) struct Put<'v> {
    pub(crate) key: &'v [u8],
    pub(crate) value: &'v [u8],
    pub(crate) options: PutOptions,
    pub(crate) sequence: u64,
}

impl Core {
    /// Asks to store it. Short values are part of the request; longer ones are put into the receive buffer first,
    /// where the lease keeps them also if there is no room for the request yet.
    pub(crate) fn ask_put(
        &mut self,
        token: Token,
        put: &Put<'_>,
        lease: &mut Option<Lease>,
    ) -> Result<(), Error> {
        let Put { key, value, options, sequence } = *put;
        let along = if self.is_near() { NEAR_ALONG } else { FAR_ALONG };
        let source = match lease {
            None if value.len() <= along => Source::Along(value),
            None => {
                let taken = lease.insert(self.receive_buffer().lease(value.len())?);
                taken.receive_buffer().memory().write(taken.offset(), value);
                Source::Apart { region: 0, at: taken.offset() as u64 }
            }
            Some(lease) => Source::Apart { region: 0, at: lease.offset() as u64 },
        };
        let (ttl, length) = (options.ttl_ms(), value.len() as u64);
        let condition = options.condition;
        self.ask(token, &Request::Put { key, length, source, ttl, condition, sequence }, lease)
    }

    /// How long a value may be to be stored by one request.
    pub(crate) fn max_at_once(&self) -> usize {
        let moved = self.limits().map_or(usize::MAX, |limits| limits.moved as usize);
        (self.receive_buffer().len() / 4).min(moved)
    }
}

/// Whether a store takes such a key.
pub(crate) fn check(key: &[u8]) -> Result<(), Error> {
    let text = match key.len() {
        1..=MAX_KEY_BYTES => return Ok(()),
        0 => "the key is empty — give it at least one byte".to_owned(),
        length => {
            format!("the key has {length} bytes, more than {MAX_KEY_BYTES} — use a shorter one")
        }
    };
    Err(Error::new(Kind::Misuse, text))
}

/// Bytes of a key as a person may read them.
pub(crate) fn named(call: &str, key: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&key[..key.len().min(60)]);
    let more = if key.len() > 60 { "…" } else { "" };
    format!("{call} {shown:?}{more}")
}

/// How much of a listing comes at once.
pub(crate) const LISTING: u64 = 64 << 10;
/// Values up to this length are part of the request. A store on the same host reads longer ones from our memory at
/// no cost; another one needs a round trip for that.
const NEAR_ALONG: usize = 512;
const FAR_ALONG: usize = 8 << 10;
