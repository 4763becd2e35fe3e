//! Values in, and keys out: each write all at once or not at all.

use std::sync::Arc;
use std::time::Duration;

use kv_proto::limits::{MAX_ITEMS, MAX_UNARY_BYTES};
use kv_proto::wire::Answer;
use kv_proto::{Condition, PutTerms, v1};
use kv_store::ReserveError;
use tokio::task::yield_now;
use tokio::time::timeout;
use tonic::{Status, Streaming};
use v1::write_request::Part;

use super::admission::Admission;
use super::attempt::{Attempted, Begun};
use super::read::{AT_ONCE, valid};
use super::status;
use crate::engine::journal::WriteKind;
use crate::engine::quota::Share;
use crate::engine::session::Sessions;
use crate::engine::{Engine, StagedValue, add};
use access::Pass;

pub(super) async fn put(
    engine: &Arc<Engine>,
    sessions: &Sessions,
    caller: &Admission,
    request: v1::PutRequest,
) -> Result<v1::PutReply, Status> {
    let pass = caller.pass();
    let v1::PutRequest { key, value, options, attempt } = request;
    let key = valid(&key)?.as_bytes();
    let PutTerms { ttl_ms, condition } = options.try_into()?;
    if value.len() > MAX_UNARY_BYTES {
        return Err(status::too_much_for_one_message(value.len() as u64, "Write"));
    }
    let attempted = match Attempted::begin(sessions, pass, attempt)? {
        Begun::Now(attempted) => attempted,
        Begun::Before(answer) => return status::put(&answer),
    };
    pass.write(key).map_err(status::denied)?;
    let staged = stage(engine, caller.share(), value.len() as u64)?;
    fill(engine, &staged, 0, &value).await;
    let what = WriteKind::Put { staged, ttl: ttl_ms };
    status::put(&done(engine, key, what, condition, attempted).await)
}

pub(super) async fn multi_put(
    engine: &Arc<Engine>,
    sessions: &Sessions,
    caller: &Admission,
    request: v1::MultiPutRequest,
) -> Result<v1::MultiPutReply, Status> {
    if request.items.len() > MAX_ITEMS {
        return Err(kv_proto::Error::TooManyItems(request.items.len()).into());
    }
    let mut results = Vec::with_capacity(request.items.len());
    for item in request.items {
        let outcome = match put(engine, sessions, caller, item).await {
            Ok(reply) => v1::put_result::Outcome::Reply(reply),
            Err(status) => v1::put_result::Outcome::Refusal(status.into()),
        };
        results.push(v1::PutResult { outcome: Some(outcome) });
    }
    Ok(v1::MultiPutReply { results })
}

/// A value that comes in pieces: into room of its own, which becomes the key's when all of it is there.
pub(super) async fn write(
    engine: &Arc<Engine>,
    sessions: &Sessions,
    caller: &Admission,
    mut pieces: Streaming<v1::WriteRequest>,
) -> Result<v1::PutReply, Status> {
    let (idle, pass) = (engine.idle(), caller.pass());
    let Some(Part::Start(start)) = next(&mut pieces, idle).await? else {
        return Err(status::no_start());
    };
    let v1::WriteStart { key, length, options, attempt } = start;
    let key = valid(&key)?.as_bytes();
    let PutTerms { ttl_ms, condition } = options.try_into()?;
    let attempted = match Attempted::begin(sessions, pass, attempt)? {
        Begun::Now(attempted) => attempted,
        Begun::Before(answer) => return status::put(&answer),
    };
    pass.write(key).map_err(status::denied)?;
    judge(engine, key, condition).await?;
    let staged = stage(engine, caller.share(), length)?;
    let mut came = 0;
    while let Some(part) = next(&mut pieces, idle).await? {
        let Part::Data(bytes) = part else { return Err(status::no_start()) };
        let end = came + bytes.len() as u64;
        if end > length {
            return Err(status::wrong_length(length, end));
        }
        fill(engine, &staged, came, &bytes).await;
        attempted.touch();
        came = end;
    }
    if came < length {
        return Err(status::wrong_length(length, came));
    }
    let what = WriteKind::Put { staged, ttl: ttl_ms };
    status::put(&done(engine, key, what, condition, attempted).await)
}

pub(super) async fn delete(
    engine: &Arc<Engine>,
    sessions: &Sessions,
    pass: &Pass,
    request: v1::DeleteRequest,
) -> Result<v1::DeleteReply, Status> {
    let v1::DeleteRequest { key, if_version, attempt } = request;
    let key = valid(&key)?;
    let condition = Condition::of_version(if_version)?;
    match Attempted::begin(sessions, pass, attempt)? {
        Begun::Now(attempted) => {
            pass.write(key.as_bytes()).map_err(status::denied)?;
            let answer =
                done(engine, key.as_bytes(), WriteKind::Delete, condition, attempted).await;
            status::delete(&answer)
        }
        Begun::Before(answer) => status::delete(&answer),
    }
}

/// Does a write. Its session knows what came of it, also if the caller does not wait for that.
async fn done(
    engine: &Arc<Engine>,
    key: &[u8],
    what: WriteKind,
    condition: Condition,
    attempted: Attempted,
) -> Answer {
    engine.write(key, what, condition, |answer| attempted.done(answer)).await
}

/// The next part of a stream; who stands still for too long is not waited for.
async fn next(
    pieces: &mut Streaming<v1::WriteRequest>,
    idle: Duration,
) -> Result<Option<Part>, Status> {
    let message = timeout(idle, pieces.message()).await;
    match message.map_err(|_| status::too_slow(idle.as_secs()))?? {
        None => Ok(None),
        Some(v1::WriteRequest { part: Some(part) }) => Ok(Some(part)),
        Some(v1::WriteRequest { part: None }) => Err(status::empty_piece()),
    }
}

/// Spares a caller the way for what would be refused at the end; there it is judged again.
async fn judge(engine: &Arc<Engine>, key: &[u8], condition: Condition) -> Result<(), Status> {
    if condition == Condition::Always {
        return Ok(());
    }
    let current = engine.facts(valid(key)?).await.map_err(status::unread)?;
    let current = current.map(|facts| facts.version);
    condition.check(current).map_err(Status::from)
}

fn stage(engine: &Arc<Engine>, share: &Arc<Share>, length: u64) -> Result<StagedValue, Status> {
    let max = engine.max_value();
    if length > max {
        return Err(status::no_room(&ReserveError::TooLong { max }));
    }
    let claim = share.claim(length).ok_or_else(status::too_much_in_flight)?;
    let room = engine.reserve(length).map_err(|why| status::reserve_refused(&why))?;
    Ok(StagedValue::new(engine.clone(), room, Some(claim)))
}

/// Copies bytes in. Others have their turn between pieces.
async fn fill(engine: &Arc<Engine>, staged: &StagedValue, offset: u64, bytes: &[u8]) {
    let mut at = offset;
    for piece in bytes.chunks(AT_ONCE) {
        if at > offset {
            yield_now().await;
        }
        engine.fill(staged.reservation(), at, piece);
        at += piece.len() as u64;
    }
    add(&engine.counts.bytes_in, bytes.len() as u64);
}
