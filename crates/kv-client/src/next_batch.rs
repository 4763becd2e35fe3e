//! The next batch.

use kv_proto::wire::{BatchHead, Destination, Limits, Request};

use crate::client_buffer::Lease;
use crate::request_id::RequestId;

/// The encoded requests of the next batch.
#[derive(Default)]
pub(crate) struct NextBatch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) requests: Vec<PendingRequest>,
    /// The maximum bytes after their answers.
    pub(crate) inline_bytes: usize,
}

/// What the client keeps of a request until it is answered.
pub(crate) struct PendingRequest {
    /// By which its outcome finds the caller.
    pub(crate) request_id: RequestId,
    /// Whether its bytes follow after the answers.
    pub(crate) is_inline: bool,
    /// Whether it is a write.
    pub(crate) writes: bool,
    /// Whether its answer may contain a handle.
    pub(crate) opens_handle: bool,
    /// Memory that the store reads or writes, kept until it has answered.
    pub(crate) _lease: Option<Lease>,
}

impl NextBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether the request fits into the batch.
    pub(crate) fn fits(&self, request: &Request<'_>, limits: &Limits) -> bool {
        let message = BatchHead::LENGTH + self.bytes.len() + request.encoded_len();
        let inline_bytes = self.inline_bytes.saturating_add(request.inline_len() as usize);
        message <= limits.message as usize
            && self.requests.len() < usize::from(limits.requests).min(MAX_REQUESTS)
            && (self.requests.is_empty() || inline_bytes <= MAX_INLINE_BYTES)
    }

    pub(crate) fn push(
        &mut self,
        request_id: RequestId,
        request: &Request<'_>,
        lease: Option<Lease>,
    ) {
        request.put(&mut self.bytes);
        self.inline_bytes = self.inline_bytes.saturating_add(request.inline_len() as usize);
        let is_inline = match request {
            Request::Get { destination, .. } | Request::Read { destination, .. } => {
                *destination == Destination::Inline
            }
            Request::List { .. } => true,
            _ => false,
        };
        let (writes, opens_handle) = (request.sequence().is_some(), request.opens_handle());
        self.requests.push(PendingRequest {
            request_id,
            is_inline,
            writes,
            opens_handle,
            _lease: lease,
        });
    }

    /// Replaces the handles, which belong to a lost connection.
    pub(crate) fn detach_handles(&mut self) {
        let detached = Request::detach_handles(&mut self.bytes);
        debug_assert!(detached.is_ok(), "requests of ours");
    }

    /// Empties the batch and returns its requests; `spare` is the list for the next ones.
    pub(crate) fn empty(&mut self, spare: Vec<PendingRequest>) -> Vec<PendingRequest> {
        self.bytes.clear();
        self.inline_bytes = 0;
        std::mem::replace(&mut self.requests, spare)
    }
}

/// Limits of one batch: requests, and bytes after their answers.
const MAX_REQUESTS: usize = 64;
const MAX_INLINE_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        message: 4096,
        requests: 100,
        batches: 4,
        regions: 1,
        value: 1 << 30,
        transfer: 1 << 30,
    };

    fn get(length: u64) -> Request<'static> {
        let (key, destination) = (b"key", Destination::Inline);
        Request::Get { key, offset: 0, length, destination, open_handle: false, checksum: false }
    }

    /// How many of these requests one batch takes.
    fn batch(request: &Request<'_>, limits: &Limits) -> usize {
        let mut next_batch = NextBatch::default();
        while next_batch.fits(request, limits) {
            next_batch.push(RequestId::NONE, request, None);
        }
        next_batch.requests.len()
    }

    #[test]
    fn a_batch_has_at_most_as_many_requests_as_the_store_accepts() {
        let message = 1 << 20;
        assert_eq!(batch(&get(1), &Limits { message, requests: 5, ..LIMITS }), 5);
        assert_eq!(batch(&get(1), &Limits { message, ..LIMITS }), MAX_REQUESTS, "our own limit");
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
    fn long_values_are_requested_alone_and_short_ones_together() {
        assert_eq!(batch(&get(MAX_INLINE_BYTES as u64 + 1), &LIMITS), 1);
        assert_eq!(batch(&get(MAX_INLINE_BYTES as u64 / 4), &LIMITS), 4);
        assert_eq!(batch(&get(u64::MAX), &LIMITS), 1, "without an overflow");
    }

    #[test]
    fn a_sent_batch_leaves_an_empty_one() {
        let mut next_batch = NextBatch::default();
        next_batch.push(RequestId::NONE, &get(100), None);
        assert!(!next_batch.is_empty() && next_batch.inline_bytes == 100);
        assert_eq!(next_batch.empty(Vec::new()).len(), 1);
        assert!(
            next_batch.is_empty() && next_batch.inline_bytes == 0 && next_batch.bytes.is_empty()
        );
    }
}
