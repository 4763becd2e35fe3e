//! Requests that are about to be sent together.

use kv_proto::wire::{BatchHead, Limits, Place, Request};

use crate::receive_buffer::Lease;
use crate::token::Token;

/// Requests of one batch, as they will be sent.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) bytes: Vec<u8>,
    pub(crate) calls: Vec<Call>,
    /// How much room they want behind their answers.
    pub(crate) packed: usize,
}

/// One request, as the client knows it.
pub(crate) struct Call {
    /// Identifies the caller.
    pub(crate) token: Token,
    /// Whether its bytes stand behind the answers.
    pub(crate) packed: bool,
    /// Whether it changes something.
    pub(crate) writes: bool,
    /// Whether its answer may have a handle.
    pub(crate) opens: bool,
    /// Memory that the store reads from or writes to, which stays until it has answered.
    pub(crate) _lease: Option<Lease>,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether one more fits into the same batch.
    pub(crate) fn fits(&self, request: &Request<'_>, limits: &Limits) -> bool {
        let message = BatchHead::LENGTH + self.bytes.len() + request.encoded_len();
        let packed = self.packed.saturating_add(request.inline_len() as usize);
        message <= limits.message as usize
            && self.calls.len() < usize::from(limits.requests).min(TOGETHER)
            && (self.calls.is_empty() || packed <= PACKED)
    }

    pub(crate) fn push(&mut self, token: Token, request: &Request<'_>, lease: Option<Lease>) {
        request.put(&mut self.bytes);
        self.packed = self.packed.saturating_add(request.inline_len() as usize);
        let packed = match request {
            Request::Get { place, .. } | Request::Read { place, .. } => *place == Place::Inline,
            Request::List { .. } => true,
            _ => false,
        };
        let (writes, opens) = (request.sequence().is_some(), request.opens_handle());
        self.calls.push(Call { token, packed, writes, opens, _lease: lease });
    }

    /// The connection is lost, and with it the handles that these requests name.
    pub(crate) fn detach_handles(&mut self) {
        let detached = Request::detach_handles(&mut self.bytes);
        debug_assert!(detached.is_ok(), "requests of ours");
    }

    /// Its calls, which are in flight from now on; it has room for others instead.
    pub(crate) fn empty(&mut self, room: Vec<Call>) -> Vec<Call> {
        self.bytes.clear();
        self.packed = 0;
        std::mem::replace(&mut self.calls, room)
    }
}

/// Limits of one batch, whose answers come together: requests, and bytes behind their answers.
const TOGETHER: usize = 64;
const PACKED: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        message: 4096,
        requests: 100,
        batches: 4,
        regions: 1,
        value: 1 << 30,
        moved: 1 << 30,
    };

    fn get(length: u64) -> Request<'static> {
        let (key, place) = (b"key", Place::Inline);
        Request::Get { key, offset: 0, length, place, keep: false, checksum: false }
    }

    /// How many of these requests one batch takes.
    fn batch(request: &Request<'_>, limits: &Limits) -> usize {
        let mut outbox = Outbox::default();
        while outbox.fits(request, limits) {
            outbox.push(Token::NOBODY, request, None);
        }
        outbox.calls.len()
    }

    #[test]
    fn a_batch_has_at_most_as_many_requests_as_the_store_accepts() {
        let message = 1 << 20;
        assert_eq!(batch(&get(1), &Limits { message, requests: 5, ..LIMITS }), 5);
        assert_eq!(batch(&get(1), &Limits { message, ..LIMITS }), TOGETHER, "and not too many");
    }

    #[test]
    fn a_batch_fits_into_the_stores_longest_message() {
        let one = get(1).encoded_len();
        assert_eq!(batch(&get(1), &LIMITS), (4096 - BatchHead::LENGTH) / one);
        let alone = Limits { message: (BatchHead::LENGTH + one) as u32, ..LIMITS };
        assert_eq!(batch(&get(1), &alone), 1);
        let none = Limits { message: alone.message - 1, ..LIMITS };
        assert_eq!(batch(&get(1), &none), 0, "a key that is too long for the store");
    }

    #[test]
    fn long_values_are_asked_for_alone_and_short_ones_together() {
        assert_eq!(batch(&get(PACKED as u64 + 1), &LIMITS), 1);
        assert_eq!(batch(&get(PACKED as u64 / 4), &LIMITS), 4);
        assert_eq!(batch(&get(u64::MAX), &LIMITS), 1, "without an overflow");
    }

    #[test]
    fn a_sent_batch_leaves_an_empty_outbox() {
        let mut outbox = Outbox::default();
        outbox.push(Token::NOBODY, &get(100), None);
        assert!(!outbox.is_empty() && outbox.packed == 100);
        assert_eq!(outbox.empty(Vec::new()).len(), 1);
        assert!(outbox.is_empty() && outbox.packed == 0 && outbox.bytes.is_empty());
    }
}
