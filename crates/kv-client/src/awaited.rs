//! A client for async code: many tasks may hold it, one task does the work.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::Explanation;
use kv_proto::Condition;
use kv_proto::wire::{Answer, Place, Request, Source};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{error::Elapsed, sleep, timeout};

use crate::ask::{LISTING, Put, check, named};
use crate::core::{Core, FIRST_PAUSE, LONGEST_PAUSE};
use crate::driver::{Ask, Driver, Make, Seen};
use crate::error::{Error, Kind};
use crate::hint::Hint;
use crate::in_flight::Outcome;
use crate::options::PutOptions;
use crate::page::{Cursor, Page};
use crate::results::{self, Stored};
use crate::settings::Settings;
use crate::value::{Facts, Value};

/// A client of a store for tasks of a tokio runtime. Clones share one connection, and what they ask at a time
/// travels together. When the connection is lost it is made again, without blocking the runtime.
///
/// A call whose future is dropped may happen all the same.
#[derive(Clone)]
pub struct AsyncClient {
    asks: mpsc::Sender<Ask>,
    seen: Arc<Seen>,
    hint: Arc<Hint>,
    deadline: Duration,
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
        let (driver, seen) = Driver::new(core, asked);
        tokio::spawn(driver.run());
        Ok(AsyncClient { asks, seen, hint: Arc::default(), deadline })
    }

    /// The same client, with another limit for each call.
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        AsyncClient { deadline, ..self.clone() }
    }

    /// How the store is reached, and why so; none while it is not.
    pub fn explain(&self) -> Option<Explanation> {
        self.seen.explain()
    }

    /// A key's value. It must fit into the receive buffer.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.fetch(key, false).await
    }

    /// As [`AsyncClient::get`], compared with a checksum of the store's.
    pub async fn get_checked(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.fetch(key, true).await
    }

    async fn fetch(&self, key: &[u8], checksum: bool) -> Result<Option<Value>, Error> {
        check(key)?;
        let what = || named("get", key);
        let make = get(key, self.hint.get() as u64, true, checksum);
        let (answer, value) = self.call(make, what).await?;
        if results::found(&answer, what)?.is_none() {
            return Ok(None);
        }
        self.hint.learn(answer.length);
        if answer.handle == 0 {
            return results::sound(&answer, value, checksum, what);
        }
        drop(value);
        let (handle, length) = (answer.handle, answer.length);
        if length as usize > self.seen.receive_buffer / 2 {
            self.forsake(handle);
            return Err(results::beyond_receive_buffer(length, what));
        }
        let make: Make = Box::new(move |core, token| {
            let place = Place::Packed;
            core.ask(
                token,
                &Request::Read { handle, offset: 0, length, place, checksum },
                &mut None,
            )
        });
        let read = self.call(make, what).await;
        self.forsake(handle);
        let (answer, value) = read?;
        results::found(&answer, what)?;
        results::whole(results::sound(&answer, value, checksum, what)?, length, what).map(Some)
    }

    /// Many values, by as few requests as can be. What is missing is none.
    pub async fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, Error> {
        let mut coming = Vec::with_capacity(keys.len());
        for key in keys {
            check(key)?;
            coming.push(self.send(get(key, self.hint.get() as u64, false, false)).await?);
        }
        let mut values = Vec::with_capacity(keys.len());
        for (key, answered) in keys.iter().zip(coming) {
            let what = || named("get", key);
            let (answer, value) = self.receive(answered, what).await?;
            let found = results::found(&answer, what)?;
            self.hint.learn(answer.length);
            // Longer than expected: alone, then.
            let cut = value.as_ref().is_some_and(|value| (value.len() as u64) < answer.length);
            values.push(match found {
                None => None,
                Some(_) if cut => self.get(key).await?,
                Some(_) => value,
            });
        }
        Ok(values)
    }

    /// Stores a value.
    pub async fn put(
        &self,
        key: &[u8],
        value: impl Into<Vec<u8>>,
        options: &PutOptions,
    ) -> Result<Stored, Error> {
        check(key)?;
        let (what, value, options) = (|| named("put", key), value.into(), *options);
        if value.len() > self.seen.max_at_once {
            return self.put_in_pieces(key, value, options).await;
        }
        let value = Arc::new(value);
        let stored = self.patiently(|| {
            let (key, value) = (key.to_vec(), value.clone());
            let (mut lease, mut sequence) = (None, None);
            let make: Make = Box::new(move |core, token| {
                let sequence = *sequence.get_or_insert_with(|| core.next_sequence());
                let put = Put { key: &key, value: &value, options, sequence };
                core.ask_put(token, &put, &mut lease)
            });
            self.call_stored(make, what)
        });
        stored.await.map(|(_, stored)| stored)
    }

    async fn call_stored(
        &self,
        make: Make,
        what: impl Fn() -> String + Copy,
    ) -> Result<(Answer, Stored), Error> {
        let (answer, _) = self.call(make, what).await?;
        results::stored(&answer, what).map(|stored| (answer, stored))
    }

    /// Asks again, with growing pauses, while the store has too much in flight; up to the deadline.
    async fn patiently<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match ask().await {
                Err(error)
                    if error.kind() == Kind::Overloaded
                        && begun.elapsed() + pause < self.deadline => {}
                done => return done,
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn put_in_pieces(
        &self,
        key: &[u8],
        value: Vec<u8>,
        options: PutOptions,
    ) -> Result<Stored, Error> {
        let what = || named("put", key);
        let length = value.len() as u64;
        let begin = || -> Make {
            Box::new(move |core, token| core.ask(token, &Request::Begin { length }, &mut None))
        };
        let (begun, _) = self.patiently(|| self.call_stored(begin(), what)).await?;
        let handle = begun.handle;
        let value: Arc<[u8]> = value.into();
        for offset in (0..value.len()).step_by(PIECE) {
            let sent = self.call(piece(handle, offset, value.clone()), what).await;
            let sent = sent.and_then(|(answer, _)| results::stored(&answer, what));
            if let Err(error) = sent {
                self.forsake(handle);
                return Err(error);
            }
        }
        let (key, mut sequence) = (key.to_vec(), None);
        let (ttl, condition) = (options.ttl_ms(), options.condition);
        let commit: Make = Box::new(move |core, token| {
            let sequence = *sequence.get_or_insert_with(|| core.next_sequence());
            let key = &key[..];
            core.ask(token, &Request::Commit { handle, key, ttl, condition, sequence }, &mut None)
        });
        let (answer, _) = self.call(commit, what).await?;
        results::stored(&answer, what)
    }

    /// Deletes a key; says which version it had, if it was there.
    pub async fn delete(&self, key: &[u8], condition: Condition) -> Result<Option<u64>, Error> {
        check(key)?;
        let what = || named("delete", key);
        let (key, mut sequence) = (key.to_vec(), None);
        let make: Make = Box::new(move |core, token| {
            let sequence = *sequence.get_or_insert_with(|| core.next_sequence());
            core.ask(token, &Request::Delete { key: &key, condition, sequence }, &mut None)
        });
        let (answer, _) = self.call(make, what).await?;
        results::deleted(&answer, what)
    }

    /// What is known of a key's value.
    pub async fn stat(&self, key: &[u8]) -> Result<Option<Facts>, Error> {
        check(key)?;
        let (what, key) = (|| named("stat", key), key.to_vec());
        let make: Make =
            Box::new(move |core, token| core.ask(token, &Request::Stat { key: &key }, &mut None));
        let (answer, _) = self.call(make, what).await?;
        results::found(&answer, what)
    }

    /// Some keys that begin so; go on with what it says.
    pub async fn list(&self, prefix: &[u8], from: Cursor) -> Result<Page, Error> {
        let (what, prefix) = (|| named("list", prefix), prefix.to_vec());
        let make: Make = Box::new(move |core, token| {
            let request = Request::List { prefix: &prefix, cursor: from.0, length: LISTING };
            core.ask(token, &request, &mut None)
        });
        let (answer, value) = self.call(make, what).await?;
        results::listed(&answer, value, what)
    }

    async fn call(
        &self,
        make: Make,
        what: impl Fn() -> String,
    ) -> Result<(Answer, Option<Value>), Error> {
        let answered = self.send(make).await?;
        self.receive(answered, what).await
    }

    async fn send(&self, make: Make) -> Result<Answered, Error> {
        let (answer, answered) = oneshot::channel();
        let sent = timeout(self.deadline, self.asks.send(Ask { make, answer: Some(answer) })).await;
        match sent {
            Ok(sent) => sent.map_err(|_| over())?,
            Err(elapsed) => return Err(self.too_late(|| "ask the store".to_owned(), elapsed)),
        }
        Ok(answered)
    }

    async fn receive(
        &self,
        answered: Answered,
        what: impl Fn() -> String,
    ) -> Result<(Answer, Option<Value>), Error> {
        match timeout(self.deadline, answered).await {
            Ok(Ok(outcome)) => results::answer(outcome?, what),
            Ok(Err(_)) => Err(over()),
            Err(elapsed) => Err(self.too_late(what, elapsed)),
        }
    }

    fn too_late(&self, what: impl FnOnce() -> String, _: Elapsed) -> Error {
        let limit = self.deadline;
        let text = format!("{}: no answer within {limit:?} — is the store overloaded?", what());
        Error::new(Kind::Deadline, text)
    }

    /// Closes a cursor or a staged value; the store closes it after a while if this message is lost.
    fn forsake(&self, handle: u64) {
        let make: Make =
            Box::new(move |core, token| core.ask(token, &Request::Close { handle }, &mut None));
        let _ = self.asks.try_send(Ask { make, answer: None });
    }
}

type Answered = oneshot::Receiver<Result<Outcome, Error>>;

fn get(key: &[u8], length: u64, keep: bool, checksum: bool) -> Make {
    let key = key.to_vec();
    Box::new(move |core, token| {
        let (key, place) = (&key[..], Place::Packed);
        core.ask(token, &Request::Get { key, offset: 0, length, place, keep, checksum }, &mut None)
    })
}

fn piece(handle: u64, offset: usize, value: Arc<[u8]>) -> Make {
    let mut lease = None;
    Box::new(move |core, token| {
        let part = &value[offset..value.len().min(offset + PIECE)];
        let at = match &lease {
            Some(lease) => at(lease),
            None => {
                let taken = lease.insert(core.receive_buffer().lease(part.len())?);
                taken.receive_buffer().memory().write(taken.offset(), part);
                at(taken)
            }
        };
        let (offset, length) = (offset as u64, part.len() as u64);
        let source = Source::Apart { region: 0, at };
        core.ask(token, &Request::Piece { handle, offset, length, source }, &mut lease)
    })
}

fn at(lease: &crate::receive_buffer::Lease) -> u64 {
    lease.offset() as u64
}

fn over() -> Error {
    let text = "ask the store: the task that asks is gone — keep the runtime running that it was spawned on";
    Error::new(Kind::Gone, text)
}

/// How many calls wait in the task's queue before callers do.
const WAITING: usize = 1024;
/// Longer values go in pieces of this length: the least receive buffer holds one.
const PIECE: usize = 256 << 10;
