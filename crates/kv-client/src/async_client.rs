//! A client for async code: many tasks share it, one task does the work.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::LinkStatus;
use kv_proto::Condition;
use kv_proto::wire::Limits;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::call::{
    Begin, Call, Commit, Delete, Get, List, MultiGetItem, Put, Stat, multi_get_item,
};
use crate::core::ClientCore;
use crate::driver::{Driver, QueuedRequest, Shared, Submit};
use crate::error::{Error, ErrorKind};
use crate::handle::HandleId;
use crate::length_hint::LengthHint;
use crate::options::PutOptions;
use crate::outcome::{Outcome, ReceivedAnswer};
use crate::page::{Cursor, Page};
use crate::results::{self, Stored};
use crate::retry::{Deadline, Retry};
use crate::settings::Settings;
use crate::step::{CHUNKS_IN_FLIGHT, CallArguments, Reserved, Step, check, describe};
use crate::value::{Metadata, Value};

/// A client of a store for tasks of a tokio runtime, which must have I/O and time enabled.
///
/// Clones share one connection, and their concurrent requests are sent together. A lost connection is made
/// again, without blocking the runtime. Calls behave as those of [`Client`](crate::Client), with one difference: while
/// the client buffer is full they wait for other tasks to drop values, up to [`Settings::timeout`].
///
/// A call whose future is dropped may still be executed; its handles at the store are closed. The caller's
/// own memory and values in chunks need a [`Client`](crate::Client).
#[derive(Clone)]
pub struct AsyncClient {
    requests: mpsc::Sender<QueuedRequest>,
    shared: Arc<Shared>,
    hint: Arc<LengthHint>,
    timeout: Duration,
}

/// An owned [`CallArguments`].
struct OwnedCallArguments {
    key: Vec<u8>,
    value: Vec<u8>,
    options: PutOptions,
}

impl AsyncClient {
    /// Connects to the first store that answers, and spawns the task that does the work. It ends with the last
    /// clone.
    pub async fn connect(settings: Settings) -> Result<Self, Error> {
        let timeout = settings.timeout;
        let core = tokio::task::spawn_blocking(move || ClientCore::connect(settings)).await;
        let core = core.map_err(|error| {
            Error::new(ErrorKind::Other, "connect to the store: the task was cancelled")
                .because(error)
        })??;
        let (requests, queue) = mpsc::channel(QUEUE_LENGTH);
        let (driver, shared) = Driver::new(core, queue);
        tokio::spawn(driver.run());
        Ok(AsyncClient { requests, shared, hint: Arc::default(), timeout })
    }

    /// The same client, with another [`Settings::timeout`] for each call.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        AsyncClient { timeout, ..self.clone() }
    }

    /// Which transport the connection uses, and why; `None` while there is no connection.
    pub fn link_status(&self) -> Option<LinkStatus> {
        self.shared.link_status()
    }

    /// The store's limits; `None` while there is no connection.
    pub fn limits(&self) -> Option<Limits> {
        self.shared.limits()
    }

    /// The maximum length of a value that one request stores; [`AsyncClient::put`] stores longer ones in chunks.
    pub fn max_put_bytes(&self) -> usize {
        self.shared.max_put_bytes()
    }

    /// A key's value. It must not be longer than half of the client buffer.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.get_value(key, self.hint.get(), false).await
    }

    /// As [`AsyncClient::get`], if the length or its order of magnitude is known beforehand.
    pub async fn get_expecting(&self, key: &[u8], length: usize) -> Result<Option<Value>, Error> {
        self.get_value(key, length, false).await
    }

    /// As [`AsyncClient::get`], and compares the bytes with a checksum that the store computes.
    pub async fn get_checked(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.get_value(key, self.hint.get(), true).await
    }

    async fn get_value(
        &self,
        key: &[u8],
        expect: usize,
        checksum: bool,
    ) -> Result<Option<Value>, Error> {
        check(key)?;
        let mut get = Get::new(expect, checksum, self.shared.client_buffer);
        let value = self.run(&mut get, OwnedCallArguments::of(key)).await;
        if let Some(length) = get.length {
            self.hint.learn(length);
        }
        value
    }

    /// Several values, by as few requests as possible, in the order of the keys; `None` for keys that do not exist.
    pub async fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, Error> {
        keys.iter().try_for_each(|key| check(key))?;
        let (mut in_flight, mut deadline) = (Vec::with_capacity(keys.len()), self.new_deadline());
        let get = Step::Get { length: self.hint.get() as u64, open_handle: false, checksum: false };
        for key in keys {
            in_flight
                .push(self.send(get, &Arc::new(OwnedCallArguments::of(key)), &mut deadline).await?);
        }
        let mut values = Vec::with_capacity(keys.len());
        for (key, answered) in keys.iter().zip(in_flight) {
            let operation = || describe("get", key);
            let got = self.receive(answered, &mut deadline, operation).await;
            let got = got.and_then(|received| {
                let (answer, value, _) = received.into_parts();
                self.hint.learn(answer.length);
                multi_get_item(&answer, value, operation)
            });
            values.push(match got {
                Ok(MultiGetItem::Done(value)) => value,
                Ok(MultiGetItem::Truncated) => self.get(key).await?,
                Err(error) if error.kind() == ErrorKind::Unavailable => self.get(key).await?,
                Err(error) => return Err(error),
            });
        }
        Ok(values)
    }

    /// Stores a value, in chunks if it is longer than [`AsyncClient::max_put_bytes`].
    pub async fn put(
        &self,
        key: &[u8],
        value: impl Into<Vec<u8>>,
        options: &PutOptions,
    ) -> Result<Stored, Error> {
        check(key)?;
        let owned =
            OwnedCallArguments { key: key.to_vec(), value: value.into(), options: *options };
        match owned.value.len() > self.max_put_bytes() {
            true => self.put_in_chunks(Arc::new(owned)).await,
            false => self.run(&mut Put, owned).await,
        }
    }

    /// Stores several values, by as few requests as possible. Returns a result for each item, in their order.
    pub async fn put_many(
        &self,
        items: &[(&[u8], &[u8])],
        options: &PutOptions,
    ) -> Vec<Result<Stored, Error>> {
        let (mut in_flight, mut deadline) = (Vec::with_capacity(items.len()), self.new_deadline());
        for (key, value) in items {
            in_flight.push(self.begin_put(key, value, options, &mut deadline).await);
        }
        let mut stored = Vec::with_capacity(items.len());
        for ((key, value), begun) in items.iter().zip(in_flight) {
            let operation = || describe("put", key);
            let put = match begun {
                Ok(Some(answered)) => self.receive(answered, &mut deadline, operation).await,
                Ok(None) => {
                    stored.push(self.put(key, *value, options).await);
                    continue;
                }
                Err(error) => Err(error),
            };
            let put = put.and_then(|received| results::stored(&received.answer, operation));
            stored.push(match put {
                Err(error) if error.kind() == ErrorKind::Overloaded => {
                    self.put(key, *value, options).await
                }
                put => put,
            });
        }
        stored
    }

    /// `None`: the value is too long for one request.
    async fn begin_put(
        &self,
        key: &[u8],
        value: &[u8],
        options: &PutOptions,
        deadline: &mut Deadline,
    ) -> Result<Option<OutcomeReceiver>, Error> {
        check(key)?;
        if value.len() > self.max_put_bytes() {
            return Ok(None);
        }
        let owned =
            OwnedCallArguments { key: key.to_vec(), value: value.to_vec(), options: *options };
        self.send(Step::Put, &Arc::new(owned), deadline).await.map(Some)
    }

    async fn put_in_chunks(&self, owned: Arc<OwnedCallArguments>) -> Result<Stored, Error> {
        let length = owned.value.len() as u64;
        let handle = self.run_shared(&mut Begin { length }, &owned).await?;
        self.write_chunks(handle.id(), &owned).await?;
        let stored = self.run_shared(&mut Commit { handle: handle.id() }, &owned).await?;
        handle.closed_by_store();
        Ok(stored)
    }

    async fn write_chunks(
        &self,
        handle: HandleId,
        owned: &Arc<OwnedCallArguments>,
    ) -> Result<(), Error> {
        let operation = || describe("put", &owned.key);
        let (chunk, all) = (self.shared.chunk(), owned.value.len());
        let (mut in_flight, mut deadline) = (VecDeque::new(), self.new_deadline());
        let mut offsets = (0..all).step_by(chunk);
        loop {
            while in_flight.len() < CHUNKS_IN_FLIGHT
                && let Some(offset) = offsets.next()
            {
                let length = chunk.min(all - offset);
                let step = Step::Chunk { handle, offset, length };
                in_flight.push_back(self.send(step, owned, &mut deadline).await?);
            }
            let Some(answered) = in_flight.pop_front() else { return Ok(()) };
            let received = self.receive(answered, &mut deadline, operation).await?;
            results::stored(&received.answer, operation)?;
        }
    }

    /// Deletes a key; returns the version that it had, if it existed.
    pub async fn delete(&self, key: &[u8], condition: Condition) -> Result<Option<u64>, Error> {
        check(key)?;
        let options = PutOptions::default().with_condition(condition);
        self.run(&mut Delete, OwnedCallArguments { options, ..OwnedCallArguments::of(key) }).await
    }

    /// Length, version and expiry of a key's value.
    pub async fn stat(&self, key: &[u8]) -> Result<Option<Metadata>, Error> {
        check(key)?;
        self.run(&mut Stat, OwnedCallArguments::of(key)).await
    }

    /// A page of the keys with this prefix, see [`Client::list`](crate::Client::list).
    pub async fn list(&self, prefix: &[u8], cursor: Cursor) -> Result<Page, Error> {
        self.run(&mut List { cursor }, OwnedCallArguments::of(prefix)).await
    }

    // Execution of calls.

    async fn run<C: Call>(
        &self,
        call: &mut C,
        owned: OwnedCallArguments,
    ) -> Result<C::Output, Error> {
        self.run_shared(call, &Arc::new(owned)).await
    }

    /// Runs a call: submits its steps, and retries where that may help.
    async fn run_shared<C: Call>(
        &self,
        call: &mut C,
        owned: &Arc<OwnedCallArguments>,
    ) -> Result<C::Output, Error> {
        let (mut deadline, mut retry) = (self.new_deadline(), Retry::new(C::REPEATABLE));
        loop {
            let done = self.run_once(call, owned, &mut deadline).await;
            let again = match &done {
                Err(error) => retry.after(error, Instant::now(), &mut deadline),
                Ok(_) => None,
            };
            let Some(pause) = again else { return done };
            sleep(pause).await;
        }
    }

    async fn run_once<C: Call>(
        &self,
        call: &mut C,
        owned: &Arc<OwnedCallArguments>,
        deadline: &mut Deadline,
    ) -> Result<C::Output, Error> {
        let operation = || describe(C::NAME, &owned.key);
        call.restart();
        loop {
            let answered = self.send(call.step(), owned, deadline).await?;
            let received = self.receive(answered, deadline, operation).await?;
            if let Some(output) = call.take(received, operation)? {
                return Ok(output);
            }
        }
    }

    /// Queues one step of a call for the task.
    async fn send(
        &self,
        step: Step,
        owned: &Arc<OwnedCallArguments>,
        deadline: &mut Deadline,
    ) -> Result<OutcomeReceiver, Error> {
        let (owned, mut reserved) = (owned.clone(), Reserved::default());
        let submit: Submit = Box::new(move |core, request_id| {
            core.submit_step(request_id, step, &owned.arguments(), &mut reserved)
        });
        let (outcome, answered) = oneshot::channel();
        match timeout(deadline.remaining(), self.requests.send(QueuedRequest { submit, outcome }))
            .await
        {
            Ok(Ok(())) => Ok(answered),
            Ok(Err(_)) => Err(ended()),
            Err(_) => Err(results::too_late(self.timeout, || "send to the store".to_owned())),
        }
    }

    async fn receive(
        &self,
        answered: OutcomeReceiver,
        deadline: &mut Deadline,
        operation: impl Fn() -> String,
    ) -> Result<ReceivedAnswer, Error> {
        let outcome = match timeout(deadline.remaining(), answered).await {
            Ok(Ok(outcome)) => outcome?,
            Ok(Err(_)) => return Err(ended()),
            Err(_) => return Err(results::too_late(self.timeout, operation)),
        };
        deadline.renew();
        results::received(outcome, operation)
    }

    fn new_deadline(&self) -> Deadline {
        Deadline::new(self.timeout)
    }
}

impl OwnedCallArguments {
    /// A key alone.
    fn of(key: &[u8]) -> Self {
        OwnedCallArguments { key: key.to_vec(), value: Vec::new(), options: PutOptions::default() }
    }

    fn arguments(&self) -> CallArguments<'_> {
        CallArguments { key: &self.key, value: &self.value, options: self.options }
    }
}

impl std::fmt::Debug for AsyncClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncClient").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

type OutcomeReceiver = oneshot::Receiver<Result<Outcome, Error>>;

fn ended() -> Error {
    let text = "send to the store: the client's task has ended — keep its tokio runtime running";
    Error::new(ErrorKind::Unavailable, text)
}

/// Requests in the task's queue; further callers wait.
const QUEUE_LENGTH: usize = 1024;
