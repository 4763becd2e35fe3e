//! What the requests of a batch read, where the store has a disk: gathered before the batch is served, since what memory
//! does not have must be loaded first.

use std::sync::Arc;

use kv_proto::wire::{Batch, Request, Status};
use kv_store::{Key, Moment};

use super::client::Client;
use super::read::keys_wanted;
use crate::engine::journal::{Loaded, Wanted};
use crate::engine::{Engine, Held};

/// One entry for each request: what was found for it, or why it was refused.
pub(super) struct Preloaded {
    by_request: Vec<Option<Loaded>>,
}

/// What a request reads that memory does not have.
pub(super) struct Cold {
    pub(super) index: usize,
    pub(super) key: Box<[u8]>,
    pub(super) wanted: Wanted,
}

impl Preloaded {
    /// Gathers what memory has, held, since else it could be evicted before it is read; and what it does not have. What
    /// the client may not ask for, or asks for too often, is refused here, before the disk has work with it.
    pub(super) fn gather(
        engine: &Arc<Engine>,
        client: &Client,
        batch: Batch<'_>,
    ) -> Result<(Self, Vec<Cold>), &'static str> {
        let now = engine.now();
        let (mut by_request, mut cold) = (Vec::new(), Vec::new());
        for (index, request) in batch.enumerate() {
            let request = request?;
            by_request.push(match client.check(&request) {
                Err(refused) => Some(Loaded::Failed(refused)),
                Ok(()) => match look_up(engine, client, &request, now) {
                    LookUp::Hot(loaded) => Some(loaded),
                    LookUp::Cold(key, wanted) => {
                        cold.push(Cold { index, key: key.into(), wanted });
                        None
                    }
                    LookUp::Nothing => None,
                },
            });
        }
        Ok((Preloaded { by_request }, cold))
    }

    pub(super) fn set(&mut self, index: usize, loaded: Loaded) {
        self.by_request[index] = Some(loaded);
    }

    /// Whether a request was allowed.
    pub(super) fn check(&self, index: usize) -> Result<(), Status> {
        match self.by_request.get(index) {
            Some(Some(Loaded::Failed(status @ (Status::TooOften | Status::Denied)))) => {
                Err(*status)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn take(&mut self, index: usize) -> Option<Loaded> {
        self.by_request.get_mut(index)?.take()
    }
}

/// What memory has of what a request reads.
enum LookUp<'k> {
    Hot(Loaded),
    Cold(&'k [u8], Wanted),
    /// It reads nothing, or asks for a key that cannot be, which is refused when it is served.
    Nothing,
}

fn look_up<'k>(
    engine: &Arc<Engine>,
    client: &'k Client,
    request: &Request<'k>,
    now: Moment,
) -> LookUp<'k> {
    match *request {
        Request::Get { key: name, .. } => {
            let Ok(key) = Key::new(name) else { return LookUp::Nothing };
            match engine.store.pin(key, now) {
                Some(pinned) => {
                    LookUp::Hot(Loaded::Value(Some(Arc::new(Held::new(engine.clone(), pinned)))))
                }
                None => LookUp::Cold(name, Wanted::Value),
            }
        }
        Request::Stat { key: name } => {
            let Ok(key) = Key::new(name) else { return LookUp::Nothing };
            match engine.store.stat(key, now) {
                Some(facts) => LookUp::Hot(Loaded::Facts(Some(facts))),
                None => LookUp::Cold(name, Wanted::Facts),
            }
        }
        Request::List { prefix, cursor, length } => match keys_wanted(length) {
            Some((most, bytes)) => {
                LookUp::Cold(client.narrow(prefix), Wanted::Keys { cursor, most, bytes })
            }
            None => LookUp::Nothing,
        },
        _ => LookUp::Nothing,
    }
}
