//! A client that blocks: calls return when the store has answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::LinkStatus;
use kv_proto::Condition;
use kv_proto::wire::{Limits, Request};

use crate::call::{Call, Delete, Get, List, MultiGetItem, Put, Stat, multi_get_item};
use crate::core::ClientCore;
use crate::drop_queue::DropQueue;
use crate::error::{Error, ErrorKind};
use crate::length_hint::LengthHint;
use crate::options::PutOptions;
use crate::outcome::{Outcome, ReceivedAnswer};
use crate::page::{Cursor, Page};
use crate::pending::{CallId, Dropped, Pending};
use crate::request_id::RequestId;
use crate::request_table::RequestTable;
use crate::results::{self, Stored};
use crate::retry::{Deadline, Retry};
use crate::settings::Settings;
use crate::step::{CallArguments, Reserved, Step, check, describe};
use crate::value::{Metadata, Value};

/// A client of a store, for one thread at a time. Use one for each thread that calls the store.
///
/// A call that only reads is repeated when the connection is lost. A write is sent again only to a store that knows whether
/// it was done; otherwise it fails with [`ErrorKind::Unknown`].
pub struct Client {
    pub(crate) core: ClientCore,
    /// Pending requests and their outcomes.
    requests: RequestTable,
    /// Pending calls and buffers that users of the client have dropped.
    pub(crate) dropped: Arc<DropQueue<Dropped>>,
    hint: LengthHint,
}

impl Client {
    /// Connects to the first store that answers.
    pub fn connect(settings: Settings) -> Result<Self, Error> {
        let core = ClientCore::connect(settings)?;
        let (requests, dropped) = (RequestTable::default(), Arc::default());
        Ok(Client { core, requests, dropped, hint: LengthHint::default() })
    }

    /// Changes [`Settings::timeout`] for the calls from now on.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.core.set_timeout(timeout);
    }

    /// Which transport the connection uses, and why; `None` while there is no connection.
    pub fn link_status(&self) -> Option<LinkStatus> {
        self.core.link_status()
    }

    /// The store's limits; `None` while there is no connection.
    pub fn limits(&self) -> Option<Limits> {
        self.core.limits().copied()
    }

    /// The maximum length of a value that one request stores; [`Client::put`] stores longer ones in chunks.
    pub fn max_put_bytes(&self) -> usize {
        self.core.max_put_bytes()
    }

    /// A key's value. It must not be longer than half of the client buffer: read longer ones with [`Client::open`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.get_value(key, self.hint.get(), false)
    }

    /// As [`Client::get`], if the length or its order of magnitude is known beforehand: that saves a round trip for the
    /// first of many values that are longer than those before.
    pub fn get_expecting(&mut self, key: &[u8], length: usize) -> Result<Option<Value>, Error> {
        self.get_value(key, length, false)
    }

    /// As [`Client::get`], and compares the bytes with a checksum that the store computes. Transports have their own checks:
    /// this one is for devices that may be faulty.
    pub fn get_checked(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.get_value(key, self.hint.get(), true)
    }

    fn get_value(
        &mut self,
        key: &[u8],
        expect: usize,
        checksum: bool,
    ) -> Result<Option<Value>, Error> {
        check(key)?;
        let mut get = Get::new(expect, checksum, self.core.client_buffer().len());
        let value = self.run(&mut get, &CallArguments::of(key));
        if let Some(length) = get.length {
            self.hint.learn(length);
        }
        value
    }

    /// Stores a value, in chunks if it is longer than [`Client::max_put_bytes`].
    pub fn put(&mut self, key: &[u8], value: &[u8], options: &PutOptions) -> Result<Stored, Error> {
        check(key)?;
        if value.len() > self.max_put_bytes() {
            let mut writer = self.create(key, value.len() as u64, options)?;
            writer.write(value)?;
            return writer.commit();
        }
        self.run(&mut Put, &CallArguments { key, value, options: *options })
    }

    /// Deletes a key; returns the version that it had, if it existed.
    pub fn delete(&mut self, key: &[u8], condition: Condition) -> Result<Option<u64>, Error> {
        check(key)?;
        let options = PutOptions::default().with_condition(condition);
        self.run(&mut Delete, &CallArguments { key, value: &[], options })
    }

    /// Length, version and expiry of a key's value.
    pub fn stat(&mut self, key: &[u8]) -> Result<Option<Metadata>, Error> {
        check(key)?;
        self.run(&mut Stat, &CallArguments::of(key))
    }

    /// A page of the keys with this prefix. The first page begins at [`Cursor::START`], the others at
    /// [`Page::next`] of the page before.
    pub fn list(&mut self, prefix: &[u8], cursor: Cursor) -> Result<Page, Error> {
        self.run(&mut List { cursor }, &CallArguments::of(prefix))
    }

    /// Several values, by as few requests as possible, in the order of the keys; `None` for keys that do not exist.
    ///
    /// All of them are in the client buffer at once: it fails with [`ErrorKind::ClientLimit`] if they do not fit.
    pub fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, Error> {
        keys.iter().try_for_each(|key| check(key))?;
        let hint = self.hint.get();
        let mut request_ids = Vec::with_capacity(keys.len());
        let values = self.get_each(keys, hint, &mut request_ids);
        if values.is_err() {
            request_ids.into_iter().for_each(|request_id| self.requests.ignore(request_id));
        }
        values
    }

    fn get_each(
        &mut self,
        keys: &[&[u8]],
        expect: usize,
        request_ids: &mut Vec<RequestId>,
    ) -> Result<Vec<Option<Value>>, Error> {
        for key in keys {
            request_ids.push(self.submit_get(key, expect)?);
        }
        let both = keys.iter().zip(request_ids.iter());
        both.map(|(key, request_id)| self.get_one_of_many(key, *request_id)).collect()
    }

    fn get_one_of_many(
        &mut self,
        key: &[u8],
        request_id: RequestId,
    ) -> Result<Option<Value>, Error> {
        let operation = || describe("get", key);
        let got = self.await_answer(request_id, operation).and_then(|received| {
            let (answer, value, _) = received.into_parts();
            self.hint.learn(answer.length);
            multi_get_item(&answer, value, operation)
        });
        match got {
            Ok(MultiGetItem::Done(value)) => Ok(value),
            Ok(MultiGetItem::Truncated) => self.get(key),
            Err(error) if error.kind() == ErrorKind::Unavailable => self.get(key),
            Err(error) => Err(error),
        }
    }

    /// Stores several values, by as few requests as possible. Returns a result for each item, in their order.
    pub fn put_many(
        &mut self,
        items: &[(&[u8], &[u8])],
        options: &PutOptions,
    ) -> Vec<Result<Stored, Error>> {
        let (mut deadline, mut lost) = (self.deadline(), None::<Error>);
        let begun: Vec<Result<Option<RequestId>, Error>> = items
            .iter()
            .map(|(key, value)| match &lost {
                // No store can be reached: the other items fail without waiting.
                Some(error) => Err(error.clone()),
                None if value.len() > self.max_put_bytes() => Ok(None),
                None => {
                    let begun = self.submit_put(key, value, options, &mut deadline);
                    lost = begun.as_ref().err().filter(|error| error.is_transient()).cloned();
                    begun.map(Some)
                }
            })
            .collect();
        let finish = |((key, value), begun): (&(&[u8], &[u8]), _)| {
            let put = match begun {
                Ok(Some(request_id)) => self.await_stored(key, request_id, &mut deadline),
                Ok(None) => return self.put(key, value, options),
                Err(error) => return Err(error),
            };
            match put {
                Err(error) if error.kind() == ErrorKind::Overloaded => {
                    self.put(key, value, options)
                }
                put => put,
            }
        };
        items.iter().zip(begun).map(finish).collect()
    }

    // Several calls at a time.

    /// Begins to get a value, without waiting; at most its first `expect` bytes.
    pub fn begin_get(&mut self, key: &[u8], expect: usize) -> Result<Pending<Value>, Error> {
        check(key)?;
        self.submit_get(key, expect).map(|request_id| Pending::new(request_id, &self.dropped))
    }

    #[inline]
    fn submit_get(&mut self, key: &[u8], expect: usize) -> Result<RequestId, Error> {
        let get = Step::Get { length: expect as u64, open_handle: false, checksum: false };
        self.begin_step_until(get, &CallArguments::of(key), &mut self.deadline())
    }

    /// Begins to store a value of at most [`Client::max_put_bytes`] bytes, without waiting.
    pub fn begin_put(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: &PutOptions,
    ) -> Result<Pending<Stored>, Error> {
        let request_id = self.submit_put(key, value, options, &mut self.deadline())?;
        Ok(Pending::new(request_id, &self.dropped))
    }

    #[inline]
    fn submit_put(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: &PutOptions,
        deadline: &mut Deadline,
    ) -> Result<RequestId, Error> {
        check(key)?;
        self.begin_step_until(Step::Put, &CallArguments { key, value, options: *options }, deadline)
    }

    /// Sends all requests that were begun.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.flush_until(&mut self.deadline())
    }

    fn flush_until(&mut self, deadline: &mut Deadline) -> Result<(), Error> {
        self.when_possible(deadline, |this| this.core.flush())
    }

    /// Waits for the value of a pending get.
    pub fn finish_get(
        &mut self,
        key: &[u8],
        pending: Pending<Value>,
    ) -> Result<Option<Value>, Error> {
        let request_id =
            pending.finish(&self.dropped).ok_or_else(|| another_clients("get", key))?;
        let operation = || describe("get", key);
        let (answer, value, _) = self.await_answer(request_id, operation)?.into_parts();
        self.hint.learn(answer.length);
        Ok(results::found(&answer, operation)?.and(value))
    }

    /// Waits for the result of a pending put.
    pub fn finish_put(&mut self, key: &[u8], pending: Pending<Stored>) -> Result<Stored, Error> {
        let request_id =
            pending.finish(&self.dropped).ok_or_else(|| another_clients("put", key))?;
        self.await_stored(key, request_id, &mut self.deadline())
    }

    fn await_stored(
        &mut self,
        key: &[u8],
        request_id: RequestId,
        deadline: &mut Deadline,
    ) -> Result<Stored, Error> {
        let operation = || describe("put", key);
        let received = self.await_until(request_id, deadline, operation)?;
        deadline.renew();
        results::stored(&received.answer, operation)
    }

    /// Waits until a pending call has its answer, and appends the ids of all such calls: their `finish_…`
    /// does not wait. Without a pending call it fails after [`Settings::timeout`].
    pub fn ready(&mut self, call_ids: &mut Vec<CallId>) -> Result<(), Error> {
        self.release_dropped();
        let mut deadline = self.deadline();
        self.flush_until(&mut deadline)?;
        self.poll_briefly();
        while !self.requests.any_ready() {
            self.wait_for_any(&mut deadline, || "wait for the store".to_owned())?;
        }
        call_ids.extend(self.requests.all_ready().map(CallId));
        Ok(())
    }

    /// As [`Client::ready`], but waits at most this time for answers: then it appends nothing. Sending requests and
    /// connecting again take up to [`Settings::timeout`].
    pub fn ready_within(
        &mut self,
        limit: Duration,
        call_ids: &mut Vec<CallId>,
    ) -> Result<(), Error> {
        self.release_dropped();
        self.flush()?;
        self.poll_briefly();
        if !self.requests.any_ready() {
            if !self.core.is_connected() {
                self.core.reconnect(self.deadline().at())?;
            }
            let Client { core, requests, .. } = self;
            core.wait(limit, |request_id, outcome| requests.complete(request_id, outcome));
        }
        call_ids.extend(self.requests.all_ready().map(CallId));
        Ok(())
    }

    // Execution of calls.

    /// Runs a call: submits its steps, and retries where that may help.
    pub(crate) fn run<C: Call>(
        &mut self,
        call: &mut C,
        arguments: &CallArguments<'_>,
    ) -> Result<C::Output, Error> {
        self.retrying(C::REPEATABLE, |this, deadline| this.run_once(call, arguments, deadline))
    }

    /// Repeats an attempt as long as that may help.
    #[inline]
    pub(crate) fn retrying<T>(
        &mut self,
        repeatable: bool,
        mut attempt: impl FnMut(&mut Self, &mut Deadline) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (mut deadline, mut retry) = (self.deadline(), Retry::new(repeatable));
        loop {
            let done = attempt(self, &mut deadline);
            let again = match &done {
                Err(error) => retry.after(error, Instant::now(), &mut deadline),
                Ok(_) => None,
            };
            let Some(pause) = again else {
                self.close_dropped();
                return done;
            };
            std::thread::sleep(pause);
        }
    }

    fn run_once<C: Call>(
        &mut self,
        call: &mut C,
        arguments: &CallArguments<'_>,
        deadline: &mut Deadline,
    ) -> Result<C::Output, Error> {
        let operation = || describe(C::NAME, arguments.key);
        call.restart();
        loop {
            let request_id = self.begin_step_until(call.step(), arguments, deadline)?;
            let received = self.await_until(request_id, deadline, operation)?;
            deadline.renew();
            if let Some(output) = call.take(received, operation)? {
                return Ok(output);
            }
        }
    }

    /// Begins one request.
    fn begin_request(&mut self, request: &Request<'_>) -> Result<RequestId, Error> {
        self.begin_by(&mut self.deadline(), |core, request_id| {
            core.submit(request_id, request, &mut None)
        })
    }

    /// Begins one step of a call.
    pub(crate) fn begin_step(
        &mut self,
        step: Step,
        arguments: &CallArguments<'_>,
    ) -> Result<RequestId, Error> {
        self.begin_step_until(step, arguments, &mut self.deadline())
    }

    #[inline]
    fn begin_step_until(
        &mut self,
        step: Step,
        arguments: &CallArguments<'_>,
        deadline: &mut Deadline,
    ) -> Result<RequestId, Error> {
        let mut reserved = Reserved::default();
        self.begin_by(deadline, |core, request_id| {
            core.submit_step(request_id, step, arguments, &mut reserved)
        })
    }

    #[inline]
    pub(crate) fn begin_by(
        &mut self,
        deadline: &mut Deadline,
        mut submit: impl FnMut(&mut ClientCore, RequestId) -> Result<(), Error>,
    ) -> Result<RequestId, Error> {
        self.release_dropped();
        let request_id = self.requests.insert();
        match self.when_possible(deadline, |this| submit(&mut this.core, request_id)) {
            Ok(()) => Ok(request_id),
            Err(error) => {
                self.requests.release(request_id);
                Err(error)
            }
        }
    }

    /// Discards the outcome of a request.
    fn ignore(&mut self, request_id: RequestId) {
        self.requests.ignore(request_id);
    }

    /// Frees pending calls and buffers that users of the client have dropped.
    #[inline]
    pub(crate) fn release_dropped(&mut self) {
        for dropped in self.dropped.take() {
            match dropped {
                Dropped::Call(request_id) => self.requests.ignore(request_id),
                Dropped::Buffer(number) => {
                    // If this fails, the connection is lost, and the buffer is not granted on the next one.
                    let _ = self.core.unregister(number);
                }
            }
        }
    }

    /// Closes dropped handles now: the next request may come much later. If this fails, the store closes them after its
    /// own timeout.
    pub(crate) fn close_dropped(&mut self) {
        if self.core.handles().any_dropped() {
            let _ = self.core.flush();
        }
    }

    /// Discards requests in flight, and closes the handle that they refer to. Over some transports the store cannot finish
    /// them while this client does not poll, and the next call may come much later: so it waits for their answers, up to
    /// [`DISCARD_LIMIT`].
    pub(crate) fn discard(&mut self, request_ids: &mut dyn Iterator<Item = RequestId>) {
        let any = request_ids.map(|request_id| self.requests.ignore(request_id)).count() > 0;
        self.close_dropped();
        let mut deadline = Deadline::new(DISCARD_LIMIT);
        while any
            && self.core.is_connected()
            && !self.core.is_idle()
            && !deadline.remaining().is_zero()
        {
            let Client { core, requests, .. } = self;
            core.wait(deadline.remaining(), |request_id, outcome| {
                requests.complete(request_id, outcome)
            });
        }
    }

    /// Repeats `attempt` until there is space and a connection for it.
    fn when_possible<T>(
        &mut self,
        deadline: &mut Deadline,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            let error = match attempt(self) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::ClientLimit | ErrorKind::Unavailable) =>
                {
                    error
                }
                done => return done,
            };
            // No request in flight can free space.
            let stuck = error.kind() == ErrorKind::ClientLimit && self.core.is_idle();
            if stuck || deadline.remaining().is_zero() {
                self.core.give_up_unsent();
                return Err(error);
            }
            if !self.core.is_connected() {
                self.core.reconnect(deadline.at())?;
                continue;
            }
            let _ = self.core.flush();
            self.wait_for_any(deadline, || "wait for the store".to_owned())?;
        }
    }

    /// Sends one request, and waits for the answer.
    pub(crate) fn request(
        &mut self,
        request: &Request<'_>,
        operation: impl Fn() -> String + Copy,
    ) -> Result<ReceivedAnswer, Error> {
        let request_id = self.begin_request(request)?;
        self.await_answer(request_id, operation)
    }

    pub(crate) fn await_answer(
        &mut self,
        request_id: RequestId,
        operation: impl Fn() -> String + Copy,
    ) -> Result<ReceivedAnswer, Error> {
        self.await_until(request_id, &mut self.deadline(), operation)
    }

    fn await_until(
        &mut self,
        request_id: RequestId,
        deadline: &mut Deadline,
        operation: impl Fn() -> String + Copy,
    ) -> Result<ReceivedAnswer, Error> {
        let outcome = match self.requests.take(request_id) {
            Some(outcome) => outcome,
            None => self
                .wait_for(request_id, deadline, operation)
                .inspect_err(|_| self.ignore(request_id))?,
        };
        results::received(outcome, operation)
    }

    fn wait_for(
        &mut self,
        request_id: RequestId,
        deadline: &mut Deadline,
        operation: impl Fn() -> String + Copy,
    ) -> Result<Outcome, Error> {
        // A request that cannot be sent now must not be sent later, without a caller.
        let mut waited = self.flush_until(deadline).inspect_err(|_| self.core.give_up_unsent());
        self.poll_briefly();
        loop {
            if let Some(outcome) = self.requests.take(request_id) {
                return Ok(outcome);
            }
            waited?;
            waited = self.wait_for_any(deadline, operation);
        }
    }

    /// Takes answers that arrive within a few microseconds, without reading the clock.
    #[inline]
    fn poll_briefly(&mut self) {
        let Client { core, requests, .. } = self;
        if !requests.any_ready() {
            core.poll_briefly(|request_id, outcome| requests.complete(request_id, outcome));
        }
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::new(self.core.settings().timeout)
    }

    /// Waits for any answer; reconnects if the connection is lost.
    fn wait_for_any(
        &mut self,
        deadline: &mut Deadline,
        operation: impl Fn() -> String,
    ) -> Result<(), Error> {
        if !self.core.is_connected() {
            self.core.reconnect(deadline.at())?;
        }
        let left = deadline.remaining();
        if left.is_zero() {
            return Err(results::too_late(deadline.limit(), operation));
        }
        let Client { core, requests, .. } = self;
        core.wait(left, |request_id, outcome| requests.complete(request_id, outcome));
        Ok(())
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let settings = self.core.settings();
        f.debug_struct("Client").field("settings", settings).finish_non_exhaustive()
    }
}

/// How long a reader or a writer that is dropped waits for its requests in flight.
const DISCARD_LIMIT: Duration = Duration::from_secs(1);

#[cold]
fn another_clients(call: &str, key: &[u8]) -> Error {
    let text = format!("{}: the pending call was begun by another client", describe(call, key));
    Error::new(ErrorKind::Misuse, text)
}
