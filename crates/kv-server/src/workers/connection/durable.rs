//! What must go to the disk, and what must come from it: batches wait for both, and the connection goes on with others.

use std::sync::Arc;

use kv_proto::Condition;
use kv_proto::wire::{Answer, Batch, Message, Request, Status};
use kv_store::Key;

use super::Connection;
use super::client::Client;
use super::serve::keys_wanted;
use crate::engine::journal::{Load, Loaded, Wanted, Write, WriteKind};
use crate::engine::session::Session;
use crate::engine::{Engine, Held};
use crate::wakeup::Wakeup;
use crate::workers::context::WorkerContext;

/// What the disk reports to a connection.
pub(crate) enum Notification {
    /// A write of a batch's is durable, or refused.
    Written { batch: u32, index: usize, answer: Answer },
    /// What a batch waits for was fetched.
    Loaded { parked: u32, index: usize, loaded: Loaded },
}

/// A write that is to become durable, as the answer of this index.
pub(super) struct Submission {
    pub(super) index: usize,
    pub(super) key: Box<[u8]>,
    pub(super) what: WriteKind,
    pub(super) condition: Condition,
    pub(super) sequence: u64,
}

/// What a request reads that memory does not have.
struct Cold {
    index: usize,
    key: Box<[u8]>,
    wanted: Wanted,
}

/// A batch that waits for values from the disk.
pub(super) struct Parked {
    message: Vec<u8>,
    completion_flag: Option<u64>,
    missing: usize,
    /// What was found, by request.
    found: Vec<Option<Loaded>>,
}

impl Connection {
    /// Answers a batch, or first fetches what it reads and memory does not have.
    pub(super) fn answer(
        &mut self,
        message: &[u8],
        batch: Batch<'_>,
        completion_flag: Option<u64>,
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        if let (Some(_), Some(client)) = (context.engine.journal(), self.peer.client()) {
            let (found, cold) = gather(&context.engine, client, message)?;
            return match cold.is_empty() {
                true => self.serve(batch, completion_flag, found, context),
                false => self.park(message, completion_flag, (found, cold), context),
            };
        }
        self.serve(batch, completion_flag, Vec::new(), context)
    }

    fn park(
        &mut self,
        message: &[u8],
        completion_flag: Option<u64>,
        (found, cold): (Vec<Option<Loaded>>, Vec<Cold>),
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        if self.parked.len() > usize::from(super::BATCHES) * 2 {
            return Err("it has more batches in flight than it may");
        }
        let missing = cold.len();
        let parked = Parked { message: message.to_vec(), completion_flag, missing, found };
        let parked = self.parked.insert(parked);
        self.away += missing;
        context.away += missing;
        for Cold { index, key, wanted } in cold {
            let notifier = context.notifier(self.row);
            let done = move |loaded| {
                Wakeup::wake_all(notifier.notify(Notification::Loaded { parked, index, loaded }))
            };
            if let Some(journal) = context.engine.journal() {
                journal.load(Load { key, wanted, done: Box::new(done) });
            }
        }
        Ok(())
    }

    /// Has a write made durable. Its answer comes later.
    pub(super) fn submit(
        &mut self,
        batch: u32,
        submission: Submission,
        context: &mut WorkerContext,
    ) {
        let Submission { index, key, what, condition, sequence } = submission;
        let (Some(session), Some(journal)) =
            (self.peer.session().cloned(), context.engine.journal())
        else {
            return;
        };
        let notifier = context.notifier(self.row);
        let done = move |answer: Answer| {
            remember(&session, sequence, answer);
            notifier.notify(Notification::Written { batch, index, answer })
        };
        self.away += 1;
        context.away += 1;
        journal.write(Write { key, what, condition, done: Box::new(done) });
    }

    /// Something came back from the disk.
    pub(crate) fn handle_notification(
        &mut self,
        notification: Notification,
        context: &mut WorkerContext,
    ) {
        self.away -= 1;
        context.away -= 1;
        match notification {
            Notification::Written { batch, index, answer } => {
                self.answered(batch, index, answer, context)
            }
            Notification::Loaded { parked: row, index, loaded } => {
                let Some(parked) = self.parked.get_mut(row) else { return };
                parked.found[index] = Some(loaded);
                parked.missing -= 1;
                if parked.missing == 0
                    && let Some(parked) = self.parked.remove(row)
                {
                    self.unpark(parked, context);
                }
            }
        }
    }

    fn unpark(&mut self, parked: Parked, context: &mut WorkerContext) {
        let Parked { message, completion_flag, found, .. } = parked;
        if self.peer.client().is_none() {
            return;
        }
        // It was one when it was parked.
        if let Ok(Message::Batch(batch)) = Message::parse(&message) {
            let served = self.serve(batch, completion_flag, found, context);
            self.dismiss_if(served, context);
        }
    }
}

/// Whoever asks again gets the same answer, unless the disk did not take it.
fn remember(session: &Session, sequence: u64, answer: Answer) {
    match answer.status {
        Status::DiskFull | Status::DiskFailed | Status::Damaged => session.undone(sequence),
        _ => session.done(sequence, answer),
    }
}

/// What a batch reads: what memory has, held, since else it could be evicted before it is read; and what it does not
/// have. What its client may not ask for, or asks for too often, is refused here, before the disk has work with it.
fn gather(engine: &Arc<Engine>, client: &Client, message: &[u8]) -> Result<Gathered, &'static str> {
    let now = engine.now();
    let (mut found, mut cold) = (Vec::new(), Vec::new());
    for (index, request) in requests(message)?.enumerate() {
        let request = request?;
        if let Err(refused) = client.check(&request) {
            found.push(Some(Loaded::Failed(refused)));
            continue;
        }
        let (hot, key, wanted) = match request {
            Request::Get { key, .. } => {
                let pinned = Key::new(key).ok().and_then(|key| engine.store.pin(key, now));
                let held = pinned.map(|pinned| Arc::new(Held::new(engine.clone(), pinned)));
                (held.map(|held| Loaded::Value(Some(held))), key, Wanted::Value)
            }
            Request::Stat { key } => {
                let facts = Key::new(key).ok().and_then(|key| engine.store.stat(key, now));
                (facts.map(|facts| Loaded::Facts(Some(facts))), key, Wanted::Facts)
            }
            Request::List { prefix, cursor, length } if keys_wanted(length).is_some() => {
                let (most, bytes) = keys_wanted(length).unwrap_or_default();
                (None, client.narrow(prefix), Wanted::Keys { cursor, most, bytes })
            }
            _ => {
                found.push(None);
                continue;
            }
        };
        // A key that cannot be is refused when it is served.
        if hot.is_none() && (Key::new(key).is_ok() || matches!(wanted, Wanted::Keys { .. })) {
            cold.push(Cold { index, key: key.into(), wanted });
        }
        found.push(hot);
    }
    Ok((found, cold))
}

type Gathered = (Vec<Option<Loaded>>, Vec<Cold>);

fn requests(
    message: &[u8],
) -> Result<impl Iterator<Item = Result<Request<'_>, &'static str>>, &'static str> {
    match Message::parse(message)? {
        Message::Batch(batch) => Ok(batch),
        _ => Err("it is no batch"),
    }
}
