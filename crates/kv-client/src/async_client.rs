//! A client for async code: many tasks may hold it, one task does the work.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::Explanation;
use kv_proto::Condition;
use kv_proto::wire::Limits;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::call::{Begin, Call, Commit, Delete, Fetch, List, Part, Put, Stat, part};
use crate::core::Core;
use crate::driver::{Ask, Driver, Make, Shared};
use crate::error::{Error, Kind};
use crate::handle::HandleId;
use crate::hint::Hint;
use crate::in_flight::{Outcome, Reply};
use crate::options::PutOptions;
use crate::page::{Cursor, Page};
use crate::results::{self, Stored};
use crate::retry::{Deadline, Retry};
use crate::settings::Settings;
use crate::step::{Held, PIECES_IN_FLIGHT, Step, Subject, check, named};
use crate::value::{Facts, Value};

/// A client of a store for tasks of a tokio runtime, which must have I/O and time enabled.
///
/// Clones share one connection, and what they ask at the same time is sent together. When the connection is lost it is made
/// again, without blocking the runtime. Calls behave as those of [`Client`](crate::Client), with one difference: while
/// the receive buffer is full they wait for other tasks to drop values, up to the deadline.
///
/// A call whose future is dropped may happen all the same; what it had open at the store is closed. Memory of the caller's
/// own and values in pieces need a [`Client`](crate::Client).
#[derive(Clone)]
pub struct AsyncClient {
    asks: mpsc::Sender<Ask>,
    shared: Arc<Shared>,
    hint: Arc<Hint>,
    deadline: Duration,
}

/// A [`Subject`] that the task owns.
struct Owned {
    key: Vec<u8>,
    value: Vec<u8>,
    options: PutOptions,
}

impl AsyncClient {
    /// Connects to the first store that answers, and spawns the task that does the work. It ends with the last
    /// clone.
    pub async fn connect(settings: Settings) -> Result<Self, Error> {
        let deadline = settings.deadline;
        let core = tokio::task::spawn_blocking(move || Core::connect(settings)).await;
        let core = core.map_err(|error| {
            Error::new(Kind::Other, "connect to the store: the task was cancelled").because(error)
        })??;
        let (asks, asked) = mpsc::channel(WAITING);
        let (driver, shared) = Driver::new(core, asked);
        tokio::spawn(driver.run());
        Ok(AsyncClient { asks, shared, hint: Arc::default(), deadline })
    }

    /// The same client, with another [`Settings::deadline`] for each call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        AsyncClient { deadline, ..self.clone() }
    }

    /// Which transport the connection uses, and why; `None` while there is no connection.
    pub fn explain(&self) -> Option<Explanation> {
        self.shared.explain()
    }

    /// What the store accepts; `None` while there is no connection.
    pub fn limits(&self) -> Option<Limits> {
        self.shared.limits()
    }

    /// How long a value may be to be stored by one request; [`AsyncClient::put`] stores longer ones in pieces.
    pub fn max_at_once(&self) -> usize {
        self.shared.max_at_once()
    }

    /// A key's value. It must not be longer than half of the receive buffer.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.fetch(key, self.hint.get(), false).await
    }

    /// As [`AsyncClient::get`], if the length is known beforehand, or its order of magnitude.
    pub async fn get_expecting(&self, key: &[u8], length: usize) -> Result<Option<Value>, Error> {
        self.fetch(key, length, false).await
    }

    /// As [`AsyncClient::get`], and compares the bytes with a checksum that the store computes.
    pub async fn get_checked(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.fetch(key, self.hint.get(), true).await
    }

    async fn fetch(
        &self,
        key: &[u8],
        expect: usize,
        checksum: bool,
    ) -> Result<Option<Value>, Error> {
        check(key)?;
        let mut fetch = Fetch::new(expect, checksum, self.shared.receive_buffer);
        let value = self.run(&mut fetch, Owned::of(key)).await;
        if let Some(length) = fetch.length {
            self.hint.learn(length);
        }
        value
    }

    /// Several values, by as few requests as possible, in the order of the keys; `None` for keys that do not exist.
    pub async fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, Error> {
        keys.iter().try_for_each(|key| check(key))?;
        let (mut coming, mut deadline) = (Vec::with_capacity(keys.len()), self.new_deadline());
        let get = Step::Get { length: self.hint.get() as u64, keep: false, checksum: false };
        for key in keys {
            coming.push(self.send(get, &Arc::new(Owned::of(key)), &mut deadline).await?);
        }
        let mut values = Vec::with_capacity(keys.len());
        for (key, answered) in keys.iter().zip(coming) {
            let what = || named("get", key);
            let got = self.receive(answered, &mut deadline, what).await;
            let got = got.and_then(|Reply { answer, value, .. }| {
                self.hint.learn(answer.length);
                part(&answer, value, what)
            });
            values.push(match got {
                Ok(Part::Done(value)) => value,
                Ok(Part::Cut) => self.get(key).await?,
                Err(error) if error.kind() == Kind::Gone => self.get(key).await?,
                Err(error) => return Err(error),
            });
        }
        Ok(values)
    }

    /// Stores a value, in pieces if it is longer than [`AsyncClient::max_at_once`].
    pub async fn put(
        &self,
        key: &[u8],
        value: impl Into<Vec<u8>>,
        options: &PutOptions,
    ) -> Result<Stored, Error> {
        check(key)?;
        let owned = Owned { key: key.to_vec(), value: value.into(), options: *options };
        match owned.value.len() > self.max_at_once() {
            true => self.put_in_pieces(Arc::new(owned)).await,
            false => self.run(&mut Put, owned).await,
        }
    }

    /// Stores several values, by as few requests as possible. Each has a result of its own, in the order of the items.
    pub async fn put_many(
        &self,
        items: &[(&[u8], &[u8])],
        options: &PutOptions,
    ) -> Vec<Result<Stored, Error>> {
        let (mut going, mut deadline) = (Vec::with_capacity(items.len()), self.new_deadline());
        for (key, value) in items {
            going.push(self.begin_put(key, value, options, &mut deadline).await);
        }
        let mut stored = Vec::with_capacity(items.len());
        for ((key, value), begun) in items.iter().zip(going) {
            let what = || named("put", key);
            let put = match begun {
                Ok(Some(answered)) => self.receive(answered, &mut deadline, what).await,
                Ok(None) => {
                    stored.push(self.put(key, *value, options).await);
                    continue;
                }
                Err(error) => Err(error),
            };
            let put = put.and_then(|reply| results::stored(&reply.answer, what));
            stored.push(match put {
                Err(error) if error.kind() == Kind::Overloaded => {
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
    ) -> Result<Option<Answered>, Error> {
        check(key)?;
        if value.len() > self.max_at_once() {
            return Ok(None);
        }
        let owned = Owned { key: key.to_vec(), value: value.to_vec(), options: *options };
        self.send(Step::Put, &Arc::new(owned), deadline).await.map(Some)
    }

    async fn put_in_pieces(&self, owned: Arc<Owned>) -> Result<Stored, Error> {
        let length = owned.value.len() as u64;
        let handle = self.run_shared(&mut Begin { length }, &owned).await?;
        self.write_pieces(handle.id(), &owned).await?;
        let stored = self.run_shared(&mut Commit { handle: handle.id() }, &owned).await?;
        handle.closed_by_store();
        Ok(stored)
    }

    async fn write_pieces(&self, handle: HandleId, owned: &Arc<Owned>) -> Result<(), Error> {
        let what = || named("put", &owned.key);
        let (piece, all) = (self.shared.piece(), owned.value.len());
        let (mut going, mut deadline) = (VecDeque::new(), self.new_deadline());
        let mut offsets = (0..all).step_by(piece);
        loop {
            while going.len() < PIECES_IN_FLIGHT
                && let Some(offset) = offsets.next()
            {
                let length = piece.min(all - offset);
                let step = Step::Piece { handle, offset, length };
                going.push_back(self.send(step, owned, &mut deadline).await?);
            }
            let Some(answered) = going.pop_front() else { return Ok(()) };
            let reply = self.receive(answered, &mut deadline, what).await?;
            results::stored(&reply.answer, what)?;
        }
    }

    /// Deletes a key; returns the version that it had, if it existed.
    pub async fn delete(&self, key: &[u8], condition: Condition) -> Result<Option<u64>, Error> {
        check(key)?;
        let options = PutOptions::default().with_condition(condition);
        self.run(&mut Delete, Owned { options, ..Owned::of(key) }).await
    }

    /// What is known of a key's value.
    pub async fn stat(&self, key: &[u8]) -> Result<Option<Facts>, Error> {
        check(key)?;
        self.run(&mut Stat, Owned::of(key)).await
    }

    /// A page of the keys that begin with `prefix`, see [`Client::list`](crate::Client::list).
    pub async fn list(&self, prefix: &[u8], cursor: Cursor) -> Result<Page, Error> {
        self.run(&mut List { cursor }, Owned::of(prefix)).await
    }

    // How calls are run.

    async fn run<C: Call>(&self, call: &mut C, owned: Owned) -> Result<C::Output, Error> {
        self.run_shared(call, &Arc::new(owned)).await
    }

    /// Runs a call: asks for its steps, and tries again where that may help.
    async fn run_shared<C: Call>(
        &self,
        call: &mut C,
        owned: &Arc<Owned>,
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
        owned: &Arc<Owned>,
        deadline: &mut Deadline,
    ) -> Result<C::Output, Error> {
        let what = || named(C::NAME, &owned.key);
        call.restart();
        loop {
            let answered = self.send(call.step(), owned, deadline).await?;
            let reply = self.receive(answered, deadline, what).await?;
            if let Some(output) = call.take(reply, what)? {
                return Ok(output);
            }
        }
    }

    /// Gives one step of a call to the task.
    async fn send(
        &self,
        step: Step,
        owned: &Arc<Owned>,
        deadline: &mut Deadline,
    ) -> Result<Answered, Error> {
        let (owned, mut held) = (owned.clone(), Held::default());
        let make: Make =
            Box::new(move |core, token| core.ask_step(token, step, &owned.subject(), &mut held));
        let (answer, answered) = oneshot::channel();
        match timeout(deadline.left(), self.asks.send(Ask { make, answer })).await {
            Ok(Ok(())) => Ok(answered),
            Ok(Err(_)) => Err(ended()),
            Err(_) => Err(results::too_late(self.deadline, || "ask the store".to_owned())),
        }
    }

    async fn receive(
        &self,
        answered: Answered,
        deadline: &mut Deadline,
        what: impl Fn() -> String,
    ) -> Result<Reply, Error> {
        let outcome = match timeout(deadline.left(), answered).await {
            Ok(Ok(outcome)) => outcome?,
            Ok(Err(_)) => return Err(ended()),
            Err(_) => return Err(results::too_late(self.deadline, what)),
        };
        deadline.renew();
        results::reply(outcome, what)
    }

    fn new_deadline(&self) -> Deadline {
        Deadline::new(self.deadline)
    }
}

impl Owned {
    /// A key alone.
    fn of(key: &[u8]) -> Self {
        Owned { key: key.to_vec(), value: Vec::new(), options: PutOptions::default() }
    }

    fn subject(&self) -> Subject<'_> {
        Subject { key: &self.key, value: &self.value, options: self.options }
    }
}

impl std::fmt::Debug for AsyncClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncClient").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

type Answered = oneshot::Receiver<Result<Outcome, Error>>;

fn ended() -> Error {
    let text = "ask the store: the client's task has ended — keep the runtime running that it was spawned on";
    Error::new(Kind::Gone, text)
}

/// How many calls wait in the task's queue before callers do.
const WAITING: usize = 1024;
