//! Calls that transfer no values: metadata of keys, listings, sessions, tickets, and the server's information.

use std::sync::Arc;
use std::time::Duration;

use kv_proto::limits::{self, list_keys};
use kv_proto::v1;
use kv_proto::wire::Status as WireStatus;
use tonic::Status;

use super::ServerInfo;
use super::authenticated_caller::AuthenticatedCaller;
use super::read::{metadata, valid};
use super::status;
use crate::engine::session::{SESSION_LIFETIME, Sessions, WINDOW};
use crate::engine::{Engine, SHARDS};
use access::{Identity, Permissions, Refused};

pub(super) async fn stat(
    engine: &Arc<Engine>,
    permissions: &Permissions,
    request: &v1::StatRequest,
) -> Result<v1::StatReply, Status> {
    permissions.check_read(&request.key).map_err(status::denied)?;
    let known = engine.metadata(valid(&request.key)?).await.map_err(status::disk_error)?;
    let now = engine.now();
    Ok(v1::StatReply { found: known.is_some(), metadata: known.map(|known| metadata(&known, now)) })
}

pub(super) async fn list(
    engine: &Arc<Engine>,
    permissions: &Permissions,
    request: &v1::ListRequest,
) -> Result<v1::ListReply, Status> {
    let v1::ListRequest { prefix, cursor, limit } = request;
    permissions.check_list(prefix).map_err(status::denied)?;
    let prefix = permissions.narrow(prefix);
    if cursor >> 32 >= SHARDS as u64 {
        return Err(status::no_cursor(*cursor));
    }
    // A message has space for that many of the longest keys, so their bytes need no limit.
    let (keys, next_cursor) =
        engine.keys(prefix, *cursor, list_keys(*limit)).await.map_err(|status| match status {
            WireStatus::NoHandle => status::no_cursor(*cursor),
            other => status::disk_error(other),
        })?;
    let now = engine.now();
    let key = |(key, known): (Box<[u8]>, kv_store::Metadata)| v1::KeyMetadata {
        key: Vec::from(key).into(),
        metadata: Some(metadata(&known, now)),
    };
    Ok(v1::ListReply { keys: keys.into_iter().map(key).collect(), next_cursor })
}

pub(super) fn open_session(
    engine: &Engine,
    permissions: &Permissions,
    sessions: &Sessions,
) -> Result<v1::Session, Status> {
    permissions.check_rate().map_err(status::denied)?;
    let entered = sessions.enter(None, permissions.identity_name());
    let (session, _) = entered.ok_or_else(status::too_many_sessions)?;
    // It has no permanent user: it expires unless it is used in time.
    session.leave();
    Ok(v1::Session {
        id: session.id().to_vec().into(),
        epoch: engine.epoch(),
        window: WINDOW,
        idle_ms: SESSION_LIFETIME.as_millis() as u64,
    })
}

/// A ticket, by which the caller can open one link under its identity.
pub(super) fn ticket(
    engine: &Engine,
    caller: &AuthenticatedCaller,
) -> Result<v1::TicketReply, Status> {
    let permissions = caller.permissions();
    if permissions.identity_name() == Identity::ANONYMOUS {
        return Err(status::anonymous());
    }
    if !caller.is_secure() {
        return Err(status::not_secure());
    }
    permissions.check_rate().map_err(status::denied)?;
    let ticket = engine.access().keyring().issue(permissions.identity_name(), TICKET_LIFETIME);
    let ticket = ticket.map_err(|error| status::no_ticket(&error))?;
    // A change of the rules before it was issued has revoked earlier tickets, but not this one.
    if permissions.is_stale() && permissions.renew().is_none() {
        return Err(status::denied(Refused::WrongToken));
    }
    Ok(v1::TicketReply {
        ticket: ticket.to_bytes().to_vec().into(),
        lifetime_ms: TICKET_LIFETIME.as_millis() as u64,
    })
}

pub(super) fn info(
    engine: &Engine,
    permissions: &Permissions,
    info: &ServerInfo,
) -> Result<v1::InfoReply, Status> {
    permissions.check_rate().map_err(status::denied)?;
    let usage = engine.index.usage();
    Ok(v1::InfoReply {
        version: info.version.to_owned(),
        epoch: engine.epoch(),
        limits: Some(v1::Limits {
            max_key_bytes: limits::MAX_KEY_BYTES as u64,
            max_value_bytes: engine.max_value(),
            max_message_bytes: limits::MAX_MESSAGE_BYTES as u64,
            max_unary_bytes: limits::MAX_UNARY_BYTES as u64,
            max_chunk_bytes: limits::MAX_CHUNK_BYTES as u64,
            max_list_keys: limits::MAX_LIST_KEYS as u64,
            max_items: limits::MAX_ITEMS as u64,
            max_ttl_ms: limits::MAX_TTL_MS,
        }),
        // It includes all keys.
        pool: permissions.reads_everything().then(|| v1::PoolUsage {
            capacity_bytes: usage.used_bytes + usage.free_bytes,
            used_bytes: usage.used_bytes,
            keys: usage.keys,
        }),
        transports: (info.transports)(),
    })
}

/// Long enough to connect, even with a slow device.
const TICKET_LIFETIME: Duration = Duration::from_secs(30);
