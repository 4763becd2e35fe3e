//! What the requests of a batch read, if the store has a disk: collected before the batch is served, since values that are
//! not in memory must be loaded first.

use std::sync::Arc;

use kv_proto::wire::{Batch, Request, Status};
use kv_store::{Key, Timestamp};

use super::client::Client;
use super::read::keys_wanted;
use crate::engine::persistence::{CachedReader, LoadKind, ReadResult};
use crate::engine::{Engine, PinnedValue};

/// One entry per request: what was found for it, or why it was refused.
pub(super) struct Preloaded {
    by_request: Vec<Option<ReadResult>>,
}

/// A load that a request needs.
pub(super) struct ColdRead {
    pub(super) index: usize,
    pub(super) key: Box<[u8]>,
    pub(super) kind: LoadKind,
}

impl Preloaded {
    /// Pins the values in memory, so that they are not evicted before the batch is served, and reads those that are in the page
    /// cache, and lists the loads of the others. Requests without permission, or above the rate limit, are refused here, before they cause disk work.
    pub(super) fn collect(
        engine: &Arc<Engine>,
        mut reader: Option<&mut CachedReader>,
        client: &Client,
        batch: Batch<'_>,
    ) -> Result<(Self, Vec<ColdRead>), &'static str> {
        let now = engine.now();
        let (mut by_request, mut cold) = (Vec::new(), Vec::new());
        for (index, request) in batch.enumerate() {
            let request = request?;
            by_request.push(match client.check(&request) {
                Err(refused) => Some(ReadResult::Failed(refused)),
                Ok(()) => match look_up(engine, client, &request, now) {
                    Lookup::InMemory(result) => Some(result),
                    Lookup::Load(key, kind) => {
                        let reader = reader.as_mut().filter(|_| matches!(kind, LoadKind::Value));
                        let loaded = reader.and_then(|reader| reader.value(engine, key));
                        if loaded.is_none() {
                            cold.push(ColdRead { index, key: key.into(), kind });
                        }
                        loaded
                    }
                    Lookup::Nothing => None,
                },
            });
        }
        Ok((Preloaded { by_request }, cold))
    }

    pub(super) fn set(&mut self, index: usize, loaded: ReadResult) {
        self.by_request[index] = Some(loaded);
    }

    /// Whether a request was allowed.
    pub(super) fn check(&self, index: usize) -> Result<(), Status> {
        match self.by_request.get(index) {
            Some(Some(ReadResult::Failed(status @ (Status::RateLimited | Status::Denied)))) => {
                Err(*status)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn take(&mut self, index: usize) -> Option<ReadResult> {
        self.by_request.get_mut(index)?.take()
    }
}

/// The result of a lookup in memory.
enum Lookup<'k> {
    InMemory(ReadResult),
    Load(&'k [u8], LoadKind),
    /// The request reads nothing, or its key is invalid, which is refused when it is served.
    Nothing,
}

fn look_up<'k>(
    engine: &Arc<Engine>,
    client: &'k Client,
    request: &Request<'k>,
    now: Timestamp,
) -> Lookup<'k> {
    match *request {
        Request::Get { key: name, .. } => {
            let Ok(key) = Key::new(name) else { return Lookup::Nothing };
            match engine.index.pin(key, now) {
                Some(pinned) => Lookup::InMemory(ReadResult::Value(Some(Arc::new(
                    PinnedValue::new(engine.clone(), pinned),
                )))),
                None => Lookup::Load(name, LoadKind::Value),
            }
        }
        Request::Stat { key: name } => {
            let Ok(key) = Key::new(name) else { return Lookup::Nothing };
            match engine.index.stat(key, now) {
                Some(metadata) => Lookup::InMemory(ReadResult::Metadata(Some(metadata))),
                None => Lookup::Load(name, LoadKind::Metadata),
            }
        }
        Request::List { prefix, cursor, length } => match keys_wanted(length) {
            Some((max_keys, max_bytes)) => {
                let kind = LoadKind::Keys { cursor, max_keys, max_bytes };
                Lookup::Load(client.narrow(prefix), kind)
            }
            None => Lookup::Nothing,
        },
        _ => Lookup::Nothing,
    }
}
