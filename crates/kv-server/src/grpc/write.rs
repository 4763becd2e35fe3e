//! Puts and deletes: each write is atomic.

use std::sync::Arc;
use std::time::Duration;

use kv_proto::limits::{MAX_ITEMS, MAX_UNARY_BYTES};
use kv_proto::wire::Answer;
use kv_proto::{Condition, ValidPutOptions, v1};
use kv_store::ReserveError;
use tokio::task::yield_now;
use tokio::time::timeout;
use tonic::{Status, Streaming};
use v1::write_request::Part;

use super::authenticated_caller::AuthenticatedCaller;
use super::read::{COPY_CHUNK_BYTES, valid};
use super::retryable_write::{RetryableStart, RetryableWrite};
use super::status;
use crate::engine::persistence::WriteKind;
use crate::engine::quota::Share;
use crate::engine::session::Sessions;
use crate::engine::{Engine, ReservedValue, add};
use access::Permissions;

pub(super) async fn put(
    engine: &Arc<Engine>,
    sessions: &Sessions,
    caller: &AuthenticatedCaller,
    request: v1::PutRequest,
) -> Result<v1::PutReply, Status> {
    let permissions = caller.permissions();
    let v1::PutRequest { key, value, options, write_id } = request;
    let key = valid(&key)?.as_bytes();
    let ValidPutOptions { ttl_ms, condition } = options.try_into()?;
    if value.len() > MAX_UNARY_BYTES {
        return Err(status::too_much_for_one_message(value.len() as u64, "Write"));
    }
    let write = match RetryableWrite::begin(sessions, permissions, write_id)? {
        RetryableStart::New(write) => write,
        RetryableStart::Done(answer) => return status::put(&answer),
    };
    permissions.check_write(key).map_err(status::denied)?;
    let reserved = reserve(engine, caller.share(), value.len() as u64)?;
    fill(engine, &reserved, 0, &value).await;
    let kind = WriteKind::Put { reserved, ttl: ttl_ms };
    status::put(&execute(engine, key, kind, condition, write).await)
}

pub(super) async fn multi_put(
    engine: &Arc<Engine>,
    sessions: &Sessions,
    caller: &AuthenticatedCaller,
    request: v1::MultiPutRequest,
) -> Result<v1::MultiPutReply, Status> {
    if request.items.len() > MAX_ITEMS {
        return Err(kv_proto::Error::TooManyItems(request.items.len()).into());
    }
    let mut results = Vec::with_capacity(request.items.len());
    for item in request.items {
        let outcome = match put(engine, sessions, caller, item).await {
            Ok(reply) => v1::put_result::Outcome::Reply(reply),
            Err(status) => v1::put_result::Outcome::Error(status.into()),
        };
        results.push(v1::PutResult { outcome: Some(outcome) });
    }
    Ok(v1::MultiPutReply { results })
}

/// A value in chunks: staged, and committed when it is complete.
pub(super) async fn write(
    engine: &Arc<Engine>,
    sessions: &Sessions,
    caller: &AuthenticatedCaller,
    mut chunks: Streaming<v1::WriteRequest>,
) -> Result<v1::PutReply, Status> {
    let (idle_timeout, permissions) = (engine.idle_timeout(), caller.permissions());
    let Some(Part::Start(start)) = next(&mut chunks, idle_timeout).await? else {
        return Err(status::no_start());
    };
    let v1::WriteStart { key, length, options, write_id } = start;
    let key = valid(&key)?.as_bytes();
    let ValidPutOptions { ttl_ms, condition } = options.try_into()?;
    let write = match RetryableWrite::begin(sessions, permissions, write_id)? {
        RetryableStart::New(write) => write,
        RetryableStart::Done(answer) => return status::put(&answer),
    };
    permissions.check_write(key).map_err(status::denied)?;
    check_condition(engine, key, condition).await?;
    let reserved = reserve(engine, caller.share(), length)?;
    let mut received = 0;
    while let Some(part) = next(&mut chunks, idle_timeout).await? {
        let Part::Data(bytes) = part else { return Err(status::no_start()) };
        let end = received + bytes.len() as u64;
        if end > length {
            return Err(status::wrong_length(length, end));
        }
        fill(engine, &reserved, received, &bytes).await;
        write.touch();
        received = end;
    }
    if received < length {
        return Err(status::wrong_length(length, received));
    }
    let kind = WriteKind::Put { reserved, ttl: ttl_ms };
    status::put(&execute(engine, key, kind, condition, write).await)
}

pub(super) async fn delete(
    engine: &Arc<Engine>,
    sessions: &Sessions,
    permissions: &Permissions,
    request: v1::DeleteRequest,
) -> Result<v1::DeleteReply, Status> {
    let v1::DeleteRequest { key, if_version, write_id } = request;
    let key = valid(&key)?;
    let condition = Condition::of_version(if_version)?;
    match RetryableWrite::begin(sessions, permissions, write_id)? {
        RetryableStart::New(write) => {
            permissions.check_write(key.as_bytes()).map_err(status::denied)?;
            let answer = execute(engine, key.as_bytes(), WriteKind::Delete, condition, write).await;
            status::delete(&answer)
        }
        RetryableStart::Done(answer) => status::delete(&answer),
    }
}

/// Executes a write. Its answer is recorded in the session, even if the caller has stopped waiting.
async fn execute(
    engine: &Arc<Engine>,
    key: &[u8],
    kind: WriteKind,
    condition: Condition,
    write: RetryableWrite,
) -> Answer {
    engine.write(key, kind, condition, |answer| write.done(answer)).await
}

/// The next part of a stream, with a timeout.
async fn next(
    chunks: &mut Streaming<v1::WriteRequest>,
    idle_timeout: Duration,
) -> Result<Option<Part>, Status> {
    let message = timeout(idle_timeout, chunks.message()).await;
    match message.map_err(|_| status::too_slow(idle_timeout.as_secs()))?? {
        None => Ok(None),
        Some(v1::WriteRequest { part: Some(part) }) => Ok(Some(part)),
        Some(v1::WriteRequest { part: None }) => Err(status::empty_chunk()),
    }
}

/// Checks the condition before the value is transferred; it is checked again at the commit.
async fn check_condition(
    engine: &Arc<Engine>,
    key: &[u8],
    condition: Condition,
) -> Result<(), Status> {
    if condition == Condition::Always {
        return Ok(());
    }
    let current = engine.metadata(valid(key)?).await.map_err(status::disk_error)?;
    let current = current.map(|metadata| metadata.version);
    condition.check(current).map_err(Status::from)
}

fn reserve(engine: &Arc<Engine>, share: &Arc<Share>, length: u64) -> Result<ReservedValue, Status> {
    let max = engine.max_value();
    if length > max {
        return Err(status::out_of_memory(&ReserveError::TooLong { max }));
    }
    let claim = share.claim(length).ok_or_else(status::too_much_in_flight)?;
    let reservation = engine.reserve(length).map_err(|why| status::out_of_memory(&why))?;
    Ok(ReservedValue::new(engine.clone(), reservation, Some(claim)))
}

/// Copies bytes into a reserved value, and yields to other tasks between chunks.
async fn fill(engine: &Arc<Engine>, reserved: &ReservedValue, offset: u64, bytes: &[u8]) {
    let mut at = offset;
    for chunk in bytes.chunks(COPY_CHUNK_BYTES) {
        if at > offset {
            yield_now().await;
        }
        engine.fill(reserved.reservation(), at, chunk);
        at += chunk.len() as u64;
    }
    add(&engine.counts.bytes_in, bytes.len() as u64);
}
