//! Reads of values: one, several in one message, or one in chunks.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use kv_proto::limits::{MAX_ITEMS, MAX_MESSAGE_BYTES, MAX_UNARY_BYTES, chunk_bytes};
use kv_proto::{Span, v1};
use kv_store::{Key, Metadata, Timestamp};
use tokio::task::yield_now;
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

use super::status;
use crate::engine::{Engine, PinnedValue, add};
use access::Permissions;

/// The metadata of a value, as a message.
pub(super) fn metadata(metadata: &Metadata, now: Timestamp) -> v1::Metadata {
    let expires_in_ms = metadata.expires.map(|at| at.0.saturating_sub(now.0));
    v1::Metadata { length: metadata.length, version: metadata.version, expires_in_ms }
}

/// Checks a key.
pub(super) fn valid(key: &[u8]) -> Result<Key<'_>, kv_proto::Error> {
    Key::new(key).map_err(|_| match key.len() {
        0 => kv_proto::Error::KeyEmpty,
        more => kv_proto::Error::KeyTooLong(more),
    })
}

/// Pins the current version of a key, if the caller may read it.
async fn pin(
    engine: &Arc<Engine>,
    permissions: &Permissions,
    key: &[u8],
) -> Result<Option<Arc<PinnedValue>>, Status> {
    permissions.check_read(key).map_err(status::denied)?;
    engine.pin(valid(key)?).await.map_err(status::disk_error)
}

pub(super) async fn get(
    engine: &Arc<Engine>,
    permissions: &Permissions,
    request: v1::GetRequest,
) -> Result<v1::GetReply, Status> {
    let Some(pinned) = pin(engine, permissions, &request.key).await? else {
        return Ok(v1::GetReply::default());
    };
    let span = Span::from(&request).within(pinned.value().metadata.length)?;
    let wanted = span.end - span.start;
    if wanted > MAX_UNARY_BYTES as u64 {
        return Err(status::too_much_for_one_message(wanted, "Read, or get a part"));
    }
    Ok(reply(engine, &pinned, span, request.checksum).await)
}

pub(super) async fn multi_get(
    engine: &Arc<Engine>,
    permissions: &Permissions,
    request: v1::MultiGetRequest,
) -> Result<v1::MultiGetReply, Status> {
    let v1::MultiGetRequest { keys, checksum } = request;
    if keys.len() > MAX_ITEMS {
        return Err(kv_proto::Error::TooManyItems(keys.len()).into());
    }
    // The overhead of all results is reserved first; the rest of the message is for values.
    let overhead = keys.len() * MAX_RESULT_OVERHEAD;
    let mut bytes_left = (MAX_MESSAGE_BYTES - overhead).min(MAX_UNARY_BYTES) as u64;
    let mut results = Vec::with_capacity(keys.len());
    for key in keys {
        let outcome =
            match one_of_several(engine, permissions, &key, &mut bytes_left, checksum).await {
                Ok(reply) => v1::get_result::Outcome::Reply(reply),
                Err(status) => v1::get_result::Outcome::Error(status.into()),
            };
        results.push(v1::GetResult { outcome: Some(outcome) });
    }
    Ok(v1::MultiGetReply { results })
}

async fn one_of_several(
    engine: &Arc<Engine>,
    permissions: &Permissions,
    key: &[u8],
    bytes_left: &mut u64,
    checksum: bool,
) -> Result<v1::GetReply, Status> {
    let Some(pinned) = pin(engine, permissions, key).await? else {
        return Ok(v1::GetReply::default());
    };
    let length = pinned.value().metadata.length;
    *bytes_left = bytes_left.checked_sub(length).ok_or_else(status::message_full)?;
    Ok(reply(engine, &pinned, 0..length, checksum).await)
}

/// Copies a part of a value, and yields to other tasks between chunks.
async fn reply(
    engine: &Arc<Engine>,
    pinned: &PinnedValue,
    span: Range<u64>,
    checksum: bool,
) -> v1::GetReply {
    let value = pinned.value();
    let mut bytes = BytesMut::zeroed((span.end - span.start) as usize);
    let mut offset = span.start;
    for chunk in bytes.chunks_mut(COPY_CHUNK_BYTES) {
        if offset > span.start {
            yield_now().await;
        }
        engine.copy_out(&value.ranges, offset, chunk);
        offset += chunk.len() as u64;
    }
    add(&engine.counts.bytes_out, bytes.len() as u64);
    v1::GetReply {
        found: true,
        crc32c: checksum.then(|| crc32c::crc32c(&bytes)),
        value: bytes.freeze(),
        metadata: Some(metadata(&value.metadata, engine.now())),
    }
}

/// A value in chunks, all of one version. It is unpinned after the last chunk.
pub(super) struct ReadStream {
    engine: Arc<Engine>,
    pinned: Option<Arc<PinnedValue>>,
    rest: Range<u64>,
    chunk: usize,
    sum: Option<u32>,
    next: Next,
}

/// The next item of the stream.
enum Next {
    Start(v1::ReadStart),
    Data,
    /// Yields to other tasks, then `Data`.
    Yield,
    End,
    Finished,
}

impl ReadStream {
    pub(super) async fn begin(
        engine: &Arc<Engine>,
        permissions: &Permissions,
        request: &v1::ReadRequest,
    ) -> Result<Self, Status> {
        let pinned = pin(engine, permissions, &request.key).await?;
        let (rest, known) = match pinned.as_deref().map(PinnedValue::value) {
            Some(value) => {
                let span = Span::from(request).within(value.metadata.length)?;
                (span, Some(metadata(&value.metadata, engine.now())))
            }
            None => (0..0, None),
        };
        let length = rest.end - rest.start;
        let start = v1::ReadStart { found: known.is_some(), metadata: known, length };
        Ok(ReadStream {
            engine: engine.clone(),
            pinned,
            rest,
            chunk: chunk_bytes(request.chunk_bytes),
            sum: request.checksum.then_some(0),
            next: Next::Start(start),
        })
    }

    fn chunk(&mut self, value: &PinnedValue) -> Bytes {
        let length = (self.rest.end - self.rest.start).min(self.chunk as u64);
        let mut bytes = BytesMut::zeroed(length as usize);
        self.engine.copy_out(&value.value().ranges, self.rest.start, &mut bytes);
        self.rest.start += length;
        self.sum = self.sum.map(|sum| crc32c::crc32c_append(sum, &bytes));
        add(&self.engine.counts.bytes_out, length);
        bytes.freeze()
    }
}

impl Stream for ReadStream {
    type Item = Result<v1::ReadReply, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        use v1::read_reply::Part;
        let this = self.get_mut();
        if let Next::Yield = this.next {
            this.next = Next::Data;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let part = match std::mem::replace(&mut this.next, Next::Finished) {
            Next::Start(start) => {
                this.next = if this.rest.is_empty() { Next::End } else { Next::Data };
                Part::Start(start)
            }
            Next::Data | Next::Yield => {
                let Some(pinned) = this.pinned.take() else { return Poll::Ready(None) };
                let chunk = this.chunk(&pinned);
                (this.next, this.pinned) = match this.rest.is_empty() {
                    true => (Next::End, None),
                    false => (Next::Yield, Some(pinned)),
                };
                Part::Data(chunk)
            }
            Next::End => {
                this.pinned = None;
                Part::End(v1::ReadEnd { crc32c: this.sum })
            }
            Next::Finished => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(v1::ReadReply { part: Some(part) })))
    }
}

/// Bytes copied between yields to other tasks: about a tenth of a millisecond.
pub(super) const COPY_CHUNK_BYTES: usize = 1 << 20;
/// The encoded size of a result without its value, or of a refusal, is less than this.
const MAX_RESULT_OVERHEAD: usize = 192;

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use access::Refused;

    #[test]
    fn a_result_without_its_value_is_shorter_than_the_overhead() {
        let metadata =
            v1::Metadata { length: u64::MAX, version: u64::MAX, expires_in_ms: Some(u64::MAX) };
        let reply = v1::GetReply {
            found: true,
            value: Bytes::from(vec![0; 100]),
            metadata: Some(metadata),
            crc32c: Some(u32::MAX),
        };
        let refused = Refused::ALL.map(status::denied);
        let others = [status::message_full(), valid(b"").unwrap_err().into()];
        let refusals = refused.into_iter().chain(others);
        let length = |outcome| {
            let result = v1::GetResult { outcome: Some(outcome) };
            // As an element of a repeated field, with its length prefix.
            v1::MultiGetReply { results: vec![result] }.encoded_len()
        };
        assert!(length(v1::get_result::Outcome::Reply(reply)) - 100 < MAX_RESULT_OVERHEAD);
        for refusal in refusals {
            assert!(length(v1::get_result::Outcome::Error(refusal.into())) < MAX_RESULT_OVERHEAD);
        }
    }
}
