//! A client that waits: calls that return when the store has answered.

use std::sync::Arc;
use std::time::Instant;

use fabric::link::Explanation;
use kv_proto::Condition;
use kv_proto::wire::{Answer, Limits, Place, Request};

use crate::answers::Answers;
use crate::ask::{LISTING, Put, check, named};
use crate::core::{Core, FIRST_PAUSE, LONGEST_PAUSE};
use crate::error::{Error, Kind};
use crate::hint::Hint;
use crate::in_flight::Outcome;
use crate::options::PutOptions;
use crate::page::{Cursor, Page};
use crate::pending::{Abandoned, Pending};
use crate::results::{self, Stored};
use crate::settings::Settings;
use crate::token::Token;
use crate::value::{Facts, Value};

/// A client of a store, for one thread at a time. Threads that want to ask at once have one each.
pub struct Client {
    pub(crate) core: Core,
    /// What was asked, and what came of it.
    answers: Answers,
    /// Pending calls that were dropped.
    abandoned: Arc<Abandoned>,
    hint: Hint,
}

impl Client {
    /// Connects to the first store that answers.
    pub fn connect(settings: Settings) -> Result<Self, Error> {
        let core = Core::connect(settings)?;
        let (answers, abandoned) = (Answers::default(), Arc::default());
        Ok(Client { core, answers, abandoned, hint: Hint::default() })
    }

    /// How the store is reached, and why so; none while it is not.
    pub fn explain(&self) -> Option<Explanation> {
        self.core.explain()
    }

    /// What the store takes.
    pub fn limits(&self) -> Option<Limits> {
        self.core.limits().copied()
    }

    /// A key's value. It must fit into the receive buffer; read longer ones with [`Client::open`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        let hint = self.hint.get();
        self.get_expecting(key, hint)
    }

    /// As [`Client::get`], when the length is known beforehand, or its order.
    pub fn get_expecting(&mut self, key: &[u8], length: usize) -> Result<Option<Value>, Error> {
        self.fetch(key, length, false)
    }

    /// As [`Client::get`]; the store tells a checksum of what it has, and what came is compared with it. Lanes
    /// have checks of their own, so this is for who does not trust a device.
    pub fn get_checked(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        let hint = self.hint.get();
        self.fetch(key, hint, true)
    }

    fn fetch(&mut self, key: &[u8], length: usize, checksum: bool) -> Result<Option<Value>, Error> {
        let mut tries = 0;
        loop {
            match self.fetch_once(key, length, checksum) {
                // A cursor ends with its connection; on the next one reading begins again.
                Err(error) if error.kind() == Kind::Gone && tries < MAX_TRIES => tries += 1,
                done => return done,
            }
        }
    }

    fn fetch_once(
        &mut self,
        key: &[u8],
        length: usize,
        checksum: bool,
    ) -> Result<Option<Value>, Error> {
        check(key)?;
        let what = || named("get", key);
        let (length, place) = (length as u64, Place::Packed);
        let request = Request::Get { key, offset: 0, length, place, keep: true, checksum };
        let (answer, value) = self.call(&request, what)?;
        if results::found(&answer, what)?.is_none() {
            return Ok(None);
        }
        self.hint.learn(answer.length);
        match answer.handle {
            0 => results::sound(&answer, value, checksum, what),
            handle => {
                drop(value);
                self.read_whole(handle, answer.length, checksum, what).map(Some)
            }
        }
    }

    /// All of a value under a cursor, which is closed.
    fn read_whole(
        &mut self,
        handle: u64,
        length: u64,
        checksum: bool,
        what: impl Fn() -> String + Copy,
    ) -> Result<Value, Error> {
        if length as usize > self.core.receive_buffer().len() / 2 {
            self.forsake(handle);
            return Err(results::beyond_receive_buffer(length, what));
        }
        let request = Request::Read { handle, offset: 0, length, place: Place::Packed, checksum };
        let read = self.call(&request, what);
        self.forsake(handle);
        let (answer, value) = read?;
        results::found(&answer, what)?;
        results::whole(results::sound(&answer, value, checksum, what)?, length, what)
    }

    /// Closes a cursor or a staged value; nobody waits for the answer.
    pub(crate) fn forsake(&mut self, handle: u64) {
        let token = self.answers.expect();
        // The store closes it after a while if this message is lost.
        match self.core.ask(token, &Request::Close { handle }, &mut None) {
            Ok(()) => {
                self.answers.ignore(token);
                let _ = self.core.flush();
            }
            Err(_) => self.answers.release(token),
        }
    }

    /// Nobody waits for this any more.
    pub(crate) fn ignore(&mut self, token: Token) {
        self.answers.ignore(token);
    }

    /// Stores a value.
    pub fn put(&mut self, key: &[u8], value: &[u8], options: &PutOptions) -> Result<Stored, Error> {
        check(key)?;
        if value.len() > self.max_at_once() {
            let mut writer = self.create(key, value.len() as u64, options)?;
            writer.write(value)?;
            return writer.commit();
        }
        self.patiently(|this| {
            let token = this.ask_put(key, value, options)?;
            this.await_stored(key, token)
        })
    }

    /// Asks again, with growing pauses, while the store has too much in flight; up to the deadline.
    pub(crate) fn patiently<T>(
        &mut self,
        mut ask: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (mut deadline, mut pause) = (None, FIRST_PAUSE);
        loop {
            match ask(self) {
                Err(error) if error.kind() == Kind::Overloaded => {
                    let deadline = *deadline.get_or_insert_with(|| self.deadline());
                    if Instant::now() + pause >= deadline {
                        return Err(error);
                    }
                }
                done => return done,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// How long a value may be to be stored by one request.
    pub fn max_at_once(&self) -> usize {
        self.core.max_at_once()
    }

    /// Deletes a key; says which version it had, if it was there.
    pub fn delete(&mut self, key: &[u8], condition: Condition) -> Result<Option<u64>, Error> {
        check(key)?;
        let what = || named("delete", key);
        let sequence = self.core.next_sequence();
        let (answer, _) = self.call(&Request::Delete { key, condition, sequence }, what)?;
        results::deleted(&answer, what)
    }

    /// What is known of a key's value.
    pub fn stat(&mut self, key: &[u8]) -> Result<Option<Facts>, Error> {
        check(key)?;
        let what = || named("stat", key);
        let (answer, _) = self.call(&Request::Stat { key }, what)?;
        results::found(&answer, what)
    }

    /// Some keys that begin so; go on with what it says.
    pub fn list(&mut self, prefix: &[u8], from: Cursor) -> Result<Page, Error> {
        let what = || named("list", prefix);
        let request = Request::List { prefix, cursor: from.0, length: LISTING };
        let (answer, value) = self.call(&request, what)?;
        results::listed(&answer, value, what)
    }

    /// Many values, by as few requests as can be. What is missing is none.
    pub fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, Error> {
        let hint = self.hint.get();
        let mut tokens = Vec::with_capacity(keys.len());
        for key in keys {
            match self.ask_get(key, hint) {
                Ok(token) => tokens.push(token),
                Err(error) => {
                    tokens.into_iter().for_each(|token| self.ignore(token));
                    return Err(error);
                }
            }
        }
        let values: Result<Vec<_>, Error> = keys
            .iter()
            .zip(&tokens)
            .map(|(key, token)| self.finish_one_of_many(key, *token))
            .collect();
        if values.is_err() {
            tokens.into_iter().for_each(|token| self.ignore(token));
        }
        values
    }

    fn finish_one_of_many(&mut self, key: &[u8], token: Token) -> Result<Option<Value>, Error> {
        let value = self.await_value(key, token)?;
        // Longer than expected: alone, then.
        match value.as_ref().is_some_and(|value| (value.len() as u64) < value.facts().length) {
            true => self.get(key),
            false => Ok(value),
        }
    }

    /// Stores many values, by as few requests as can be; each has its own outcome.
    pub fn put_many(
        &mut self,
        items: &[(&[u8], &[u8])],
        options: &PutOptions,
    ) -> Result<Vec<Result<Stored, Error>>, Error> {
        let mut tokens = Vec::with_capacity(items.len());
        for (key, value) in items {
            check(key)?;
            tokens.push(match value.len() > self.max_at_once() {
                true => None,
                false => Some(self.ask_put(key, value, options)?),
            });
        }
        let mut stored = Vec::with_capacity(items.len());
        for ((key, value), token) in items.iter().zip(tokens) {
            stored.push(match token {
                Some(token) => {
                    let put = self.await_stored(key, token);
                    match put.as_ref().is_err_and(|error| error.kind() == Kind::Overloaded) {
                        true => self.put(key, value, options),
                        false => put,
                    }
                }
                None => self.put(key, value, options),
            });
        }
        Ok(stored)
    }

    // Several at a time.

    /// Begins to get a value, without waiting; of a longer one the first `expect` bytes.
    pub fn begin_get(&mut self, key: &[u8], expect: usize) -> Result<Pending<Value>, Error> {
        self.ask_get(key, expect).map(|token| Pending::new(token, &self.abandoned))
    }

    #[inline]
    fn ask_get(&mut self, key: &[u8], expect: usize) -> Result<Token, Error> {
        check(key)?;
        let request = Request::Get {
            key,
            offset: 0,
            length: expect as u64,
            place: Place::Packed,
            keep: false,
            checksum: false,
        };
        self.begin(&request, None)
    }

    /// Begins to store a value of at most [`Client::max_at_once`] bytes, without waiting.
    pub fn begin_put(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: &PutOptions,
    ) -> Result<Pending<Stored>, Error> {
        self.ask_put(key, value, options).map(|token| Pending::new(token, &self.abandoned))
    }

    #[inline]
    fn ask_put(&mut self, key: &[u8], value: &[u8], options: &PutOptions) -> Result<Token, Error> {
        check(key)?;
        let sequence = self.core.next_sequence();
        let put = Put { key, value, options: *options, sequence };
        let mut lease = None;
        self.begin_by(|core, token| core.ask_put(token, &put, &mut lease))
    }

    /// Sends what was begun.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.with_room(|this| this.core.flush())
    }

    /// Waits for a value that was begun.
    pub fn finish_get(
        &mut self,
        key: &[u8],
        pending: Pending<Value>,
    ) -> Result<Option<Value>, Error> {
        let token = pending.finish(&self.abandoned).ok_or_else(|| another_clients("get", key))?;
        self.await_value(key, token)
    }

    fn await_value(&mut self, key: &[u8], token: Token) -> Result<Option<Value>, Error> {
        let what = || named("get", key);
        let (answer, value) = self.await_answer(token, what)?;
        self.hint.learn(answer.length);
        Ok(results::found(&answer, what)?.and(value))
    }

    /// Waits for a value to be stored.
    pub fn finish_put(&mut self, key: &[u8], pending: Pending<Stored>) -> Result<Stored, Error> {
        let token = pending.finish(&self.abandoned).ok_or_else(|| another_clients("put", key))?;
        self.await_stored(key, token)
    }

    fn await_stored(&mut self, key: &[u8], token: Token) -> Result<Stored, Error> {
        let what = || named("put", key);
        let (answer, _) = self.await_answer(token, what)?;
        results::stored(&answer, what)
    }

    /// Waits until a pending call can be finished, and appends the tokens of all those that can: their `finish_…`
    /// does not wait. With no call pending it fails at the deadline.
    pub fn ready(&mut self, tokens: &mut Vec<Token>) -> Result<(), Error> {
        self.release_abandoned();
        self.flush()?;
        self.glance();
        if !self.answers.any_here() {
            let deadline = self.deadline();
            while !self.answers.any_here() {
                self.look(deadline, || "ask the store".to_owned())?;
            }
        }
        tokens.extend(self.answers.all_here());
        Ok(())
    }

    pub(crate) fn begin(
        &mut self,
        request: &Request<'_>,
        lease: Option<crate::receive_buffer::Lease>,
    ) -> Result<Token, Error> {
        let mut lease = lease;
        self.begin_by(|core, token| core.ask(token, request, &mut lease))
    }

    #[inline]
    fn begin_by(
        &mut self,
        mut ask: impl FnMut(&mut Core, Token) -> Result<(), Error>,
    ) -> Result<Token, Error> {
        self.release_abandoned();
        let token = self.answers.expect();
        match self.with_room(|this| ask(&mut this.core, token)) {
            Ok(()) => Ok(token),
            Err(error) => {
                self.answers.release(token);
                Err(error)
            }
        }
    }

    /// Nobody waits for pending calls that were dropped.
    #[inline]
    fn release_abandoned(&mut self) {
        for token in self.abandoned.take().into_iter().flatten() {
            self.answers.ignore(token);
        }
    }

    /// Does something for which there may be no room, or no connection, at the moment.
    fn with_room<T>(
        &mut self,
        mut something: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // Almost always there is room: the clock is asked only where there is none.
        let mut deadline = None;
        loop {
            let error = match something(self) {
                Err(error) if matches!(error.kind(), Kind::Busy | Kind::Gone) => error,
                done => return done,
            };
            let deadline = *deadline.get_or_insert_with(|| self.deadline());
            // Nothing is in flight that could give something back.
            let stuck = error.kind() == Kind::Busy && self.core.is_still();
            if stuck || Instant::now() >= deadline {
                self.core.give_up_unsent();
                return Err(error);
            }
            if !self.core.is_connected() {
                self.core.reconnect(deadline)?;
                continue;
            }
            let _ = self.core.flush();
            self.look(deadline, || "ask the store".to_owned())?;
        }
    }

    /// Asks one thing, and waits for it.
    pub(crate) fn call(
        &mut self,
        request: &Request<'_>,
        what: impl Fn() -> String + Copy,
    ) -> Result<(Answer, Option<Value>), Error> {
        let token = self.begin(request, None)?;
        self.await_answer(token, what)
    }

    pub(crate) fn await_answer(
        &mut self,
        token: Token,
        what: impl Fn() -> String + Copy,
    ) -> Result<(Answer, Option<Value>), Error> {
        let outcome = match self.answers.take(token) {
            Some(outcome) => outcome,
            None => self.wait_for(token, what).inspect_err(|_| self.answers.ignore(token))?,
        };
        results::answer(outcome, what)
    }

    fn wait_for(
        &mut self,
        token: Token,
        what: impl Fn() -> String + Copy,
    ) -> Result<Outcome, Error> {
        // What could not be sent now must not go out later, when nobody waits for it.
        let sent = self.flush().inspect_err(|_| self.core.give_up_unsent());
        self.glance();
        if let Some(outcome) = self.answers.take(token) {
            return Ok(outcome);
        }
        let deadline = self.deadline();
        let mut looked = sent;
        loop {
            if let Some(outcome) = self.answers.take(token) {
                return Ok(outcome);
            }
            if let Err(error) = looked {
                self.answers.ignore(token);
                return Err(error);
            }
            looked = self.look(deadline, what);
        }
    }

    /// Takes what comes so soon that the clock need not be asked.
    #[inline]
    fn glance(&mut self) {
        let Client { core, answers, .. } = self;
        if !answers.any_here() {
            core.glance(|token, outcome| answers.give(token, outcome));
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.core.settings().deadline
    }

    /// Waits for whatever comes; connects anew if it must.
    fn look(&mut self, deadline: Instant, what: impl Fn() -> String) -> Result<(), Error> {
        if !self.core.is_connected() {
            self.core.reconnect(deadline)?;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let limit = self.core.settings().deadline;
            let text = format!(
                "{}: no answer within {limit:?}; what was asked may still be done — is the store overloaded?",
                what()
            );
            return Err(Error::new(Kind::Deadline, text));
        }
        let Client { core, answers, .. } = self;
        core.wait(left, |token, outcome| answers.give(token, outcome));
        Ok(())
    }
}

#[cold]
fn another_clients(call: &str, key: &[u8]) -> Error {
    let text = format!("{}: the pending call was begun by another client", named(call, key));
    Error::new(Kind::Misuse, text)
}

/// How often a value is asked for again when connections break one after the other.
const MAX_TRIES: u32 = 8;
