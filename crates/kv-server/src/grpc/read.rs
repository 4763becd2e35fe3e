//! Values out: whole, several at once, or in pieces.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use kv_proto::limits::{MAX_ITEMS, MAX_MESSAGE_BYTES, MAX_UNARY_BYTES, piece_bytes};
use kv_proto::{Span, v1};
use kv_store::{Facts, Key, Moment};
use tokio::task::yield_now;
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

use super::status;
use crate::engine::{Engine, PinnedValue, add};
use access::Pass;

/// What is known of a value, as callers hear it.
pub(super) fn facts(facts: &Facts, now: Moment) -> v1::Facts {
    let expires_in_ms = facts.expires.map(|at| at.0.saturating_sub(now.0));
    v1::Facts { length: facts.length, version: facts.version, expires_in_ms }
}

/// A key that was checked.
pub(super) fn valid(key: &[u8]) -> Result<Key<'_>, kv_proto::Error> {
    Key::new(key).map_err(|_| match key.len() {
        0 => kv_proto::Error::KeyEmpty,
        more => kv_proto::Error::KeyTooLong(more),
    })
}

/// The version of a key that is there now, held, for who may read it.
async fn hold(
    engine: &Arc<Engine>,
    pass: &Pass,
    key: &[u8],
) -> Result<Option<Arc<PinnedValue>>, Status> {
    pass.read(key).map_err(status::denied)?;
    engine.pin(valid(key)?).await.map_err(status::unread)
}

pub(super) async fn get(
    engine: &Arc<Engine>,
    pass: &Pass,
    request: v1::GetRequest,
) -> Result<v1::GetReply, Status> {
    let Some(held) = hold(engine, pass, &request.key).await? else {
        return Ok(v1::GetReply::default());
    };
    let span = Span::from(&request).within(held.value().facts.length)?;
    let wanted = span.end - span.start;
    if wanted > MAX_UNARY_BYTES as u64 {
        return Err(status::too_much_for_one_message(wanted, "Read, or ask for a part"));
    }
    Ok(reply(engine, &held, span, request.checksum).await)
}

pub(super) async fn multi_get(
    engine: &Arc<Engine>,
    pass: &Pass,
    request: v1::MultiGetRequest,
) -> Result<v1::MultiGetReply, Status> {
    let v1::MultiGetRequest { keys, checksum } = request;
    if keys.len() > MAX_ITEMS {
        return Err(kv_proto::Error::TooManyItems(keys.len()).into());
    }
    // What stands around the values has its room first, so that the rest can be given away freely.
    let around = keys.len() * AROUND_RESULT;
    let mut room = (MAX_MESSAGE_BYTES - around).min(MAX_UNARY_BYTES) as u64;
    let mut results = Vec::with_capacity(keys.len());
    for key in keys {
        let outcome = match one_of_several(engine, pass, &key, &mut room, checksum).await {
            Ok(reply) => v1::get_result::Outcome::Reply(reply),
            Err(status) => v1::get_result::Outcome::Refusal(status.into()),
        };
        results.push(v1::GetResult { outcome: Some(outcome) });
    }
    Ok(v1::MultiGetReply { results })
}

async fn one_of_several(
    engine: &Arc<Engine>,
    pass: &Pass,
    key: &[u8],
    room: &mut u64,
    checksum: bool,
) -> Result<v1::GetReply, Status> {
    let Some(held) = hold(engine, pass, key).await? else { return Ok(v1::GetReply::default()) };
    let length = held.value().facts.length;
    *room = room.checked_sub(length).ok_or_else(status::message_full)?;
    Ok(reply(engine, &held, 0..length, checksum).await)
}

/// Copies a part out. Others have their turn between pieces.
async fn reply(
    engine: &Arc<Engine>,
    held: &PinnedValue,
    span: Range<u64>,
    checksum: bool,
) -> v1::GetReply {
    let value = held.value();
    let mut bytes = BytesMut::zeroed((span.end - span.start) as usize);
    let mut offset = span.start;
    for piece in bytes.chunks_mut(AT_ONCE) {
        if offset > span.start {
            yield_now().await;
        }
        engine.copy_out(&value.ranges, offset, piece);
        offset += piece.len() as u64;
    }
    add(&engine.counts.bytes_out, bytes.len() as u64);
    v1::GetReply {
        found: true,
        crc32c: checksum.then(|| crc32c::crc32c(&bytes)),
        value: bytes.freeze(),
        facts: Some(facts(&value.facts, engine.now())),
    }
}

/// A value in pieces, all of the version that was there at the start. The last piece lets go of it.
pub(super) struct Reading {
    engine: Arc<Engine>,
    held: Option<Arc<PinnedValue>>,
    rest: Range<u64>,
    piece: usize,
    sum: Option<u32>,
    next: Next,
}

/// What the stream gives next.
enum Next {
    Start(v1::ReadStart),
    Data,
    /// As `Data`, once others had their turn.
    WriteStart,
    End,
    Nothing,
}

impl Reading {
    pub(super) async fn begin(
        engine: &Arc<Engine>,
        pass: &Pass,
        request: &v1::ReadRequest,
    ) -> Result<Self, Status> {
        let held = hold(engine, pass, &request.key).await?;
        let (rest, known) = match held.as_deref().map(PinnedValue::value) {
            Some(value) => {
                let span = Span::from(request).within(value.facts.length)?;
                (span, Some(facts(&value.facts, engine.now())))
            }
            None => (0..0, None),
        };
        let length = rest.end - rest.start;
        let start = v1::ReadStart { found: known.is_some(), facts: known, length };
        Ok(Reading {
            engine: engine.clone(),
            held,
            rest,
            piece: piece_bytes(request.piece_bytes),
            sum: request.checksum.then_some(0),
            next: Next::Start(start),
        })
    }

    fn piece(&mut self, value: &PinnedValue) -> Bytes {
        let length = (self.rest.end - self.rest.start).min(self.piece as u64);
        let mut bytes = BytesMut::zeroed(length as usize);
        self.engine.copy_out(&value.value().ranges, self.rest.start, &mut bytes);
        self.rest.start += length;
        self.sum = self.sum.map(|sum| crc32c::crc32c_append(sum, &bytes));
        add(&self.engine.counts.bytes_out, length);
        bytes.freeze()
    }
}

impl Stream for Reading {
    type Item = Result<v1::ReadReply, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        use v1::read_reply::Part;
        let this = self.get_mut();
        if let Next::WriteStart = this.next {
            this.next = Next::Data;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let part = match std::mem::replace(&mut this.next, Next::Nothing) {
            Next::Start(start) => {
                this.next = if this.rest.is_empty() { Next::End } else { Next::Data };
                Part::Start(start)
            }
            Next::Data | Next::WriteStart => {
                let Some(held) = this.held.take() else { return Poll::Ready(None) };
                let piece = this.piece(&held);
                (this.next, this.held) = match this.rest.is_empty() {
                    true => (Next::End, None),
                    false => (Next::WriteStart, Some(held)),
                };
                Part::Data(piece)
            }
            Next::End => {
                this.held = None;
                Part::End(v1::ReadEnd { crc32c: this.sum })
            }
            Next::Nothing => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(v1::ReadReply { part: Some(part) })))
    }
}

/// How much is copied before others have their turn: about a tenth of a millisecond.
pub(super) const AT_ONCE: usize = 1 << 20;
/// A result without its value, or why there is none, takes less than this.
const AROUND_RESULT: usize = 192;

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use access::Refused;

    #[test]
    fn a_result_without_its_value_takes_less_than_its_room() {
        let facts =
            v1::Facts { length: u64::MAX, version: u64::MAX, expires_in_ms: Some(u64::MAX) };
        let reply = v1::GetReply {
            found: true,
            value: Bytes::from(vec![0; 100]),
            facts: Some(facts),
            crc32c: Some(u32::MAX),
        };
        let refused = Refused::ALL.map(status::denied);
        let others = [status::message_full(), valid(b"").unwrap_err().into()];
        let refusals = refused.into_iter().chain(others);
        let length = |outcome| {
            let result = v1::GetResult { outcome: Some(outcome) };
            // As one of several, with its own length before it.
            v1::MultiGetReply { results: vec![result] }.encoded_len()
        };
        assert!(length(v1::get_result::Outcome::Reply(reply)) - 100 < AROUND_RESULT);
        for refusal in refusals {
            assert!(length(v1::get_result::Outcome::Refusal(refusal.into())) < AROUND_RESULT);
        }
    }
}
