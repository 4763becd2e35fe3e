//! The connection to a store: a link, what is in flight on it, and its completions.

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, Link};
use fabric::{
    Completion, Done, Lane, MappedInto, Op, RemoteRegion, Slice, Slices, Window, busy_wait, wait,
};
use kv_proto::wire::{Answer, BatchHead, ClientHello, ServerHello};
use rustix::time::{ClockId, clock_gettime};

use crate::client_buffer::{ClientBuffer, Lease};
use crate::destination::Destination;
use crate::error::{Error, ErrorKind};
use crate::handle::Handles;
use crate::next_batch::NextBatch;
use crate::outcome::{Outcome, RequestOutcome};
use crate::pending_batches::{CACHE_LINE, NotReceived, PendingBatch, PendingBatches};
use crate::request_id::RequestId;
use crate::request_slots::{Announced, RequestSlots};
use crate::results;

/// A link with an open session.
pub(crate) struct Connection {
    link: Link,
    pub(crate) hello: ServerHello,
    client_buffer: Arc<ClientBuffer>,
    /// Operations that wait for space in the link's queue.
    ops: VecDeque<Op>,
    receives: VecDeque<Op>,
    pub(crate) batches: PendingBatches,
    /// Messages that grant or revoke memory, until they are sent.
    grant_messages: HashMap<u64, Lease>,
    done: Vec<Completion>,
    slots: RequestSlots,
    /// The store's pool, if it may be read in place; whether that has worked, and how often it was tried.
    pool: Option<Window>,
    in_place: bool,
    in_place_attempts: u8,
    /// Answers that were found by polling flags alone, since the link was last polled.
    without_link: u32,
    /// When a batch was last sent.
    last_sent: Duration,
}

impl Connection {
    /// Connects to a store, and resumes a session if there is one.
    pub(crate) fn open(
        endpoint: &Endpoint,
        client_buffer: &Arc<ClientBuffer>,
        to: &Destination<'_>,
        session: Option<[u8; 16]>,
    ) -> Result<Self, Error> {
        let Destination { server, limit, .. } = *to;
        let deadline = Instant::now() + limit;
        let slots = RequestSlots::new(client_buffer.memory());
        let mut link = to
            .connect(endpoint)
            .map_err(|error| Error::of_fabric(format!("reach the store at {server}"), error))?;
        let (hello, ops) = open_session(&mut link, client_buffer, to, deadline, session)
            .inspect_err(|_| {
                // The store may have resumed it, and must not take this for its end.
                if session.is_some() {
                    link.fail("the session was not resumed");
                }
            })?;
        let pool = hello.pool.and_then(|pool| RemoteRegion::from_bytes(&pool).ok());
        let pool = pool.and_then(|pool| link.import(&pool).ok());
        let receives = (0..RECEIVES).map(|_| Op::receive(RECEIVE, Slices::EMPTY)).collect();
        Ok(Connection {
            link,
            hello,
            client_buffer: client_buffer.clone(),
            ops,
            receives,
            batches: PendingBatches::default(),
            grant_messages: HashMap::new(),
            done: Vec::new(),
            slots,
            pool,
            in_place: false,
            in_place_attempts: 0,
            without_link: 0,
            last_sent: clock(),
        })
    }

    /// The link.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Whether the store maps our memory, and reads and writes it directly.
    pub(crate) fn store_maps_our_memory(&self) -> bool {
        self.link.uses_shared_memory()
    }

    pub(crate) fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Whether the limit of batches in flight is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.batches.len() >= usize::from(self.hello.limits.batches) || self.batches.is_closing()
    }

    /// Sends a batch.
    pub(crate) fn send_batch(&mut self, next_batch: &mut NextBatch) -> Result<(), Error> {
        if self.batches.is_empty() {
            self.poll_after_pause()?;
        }
        let message = BatchHead::LENGTH + next_batch.bytes.len();
        // Values that are read in place begin at cache lines.
        let in_place = self.in_place || self.try_reading_in_place();
        let padding = if in_place { (next_batch.requests.len() + 1) * CACHE_LINE } else { 0 };
        let answers =
            next_batch.requests.len() * Answer::LENGTH + next_batch.inline_bytes + padding;
        let begins = PendingBatch::answers_after(message);
        let lease = self.client_buffer.lease(begins + answers)?;
        let capacity = lease.len() - begins;
        let tag = self.batches.next_tag();
        let head = BatchHead {
            in_place,
            count: next_batch.requests.len() as u16,
            tag,
            at: (lease.offset() + begins) as u64,
            capacity: capacity as u64,
        };
        let memory = self.client_buffer.memory();
        memory.write(lease.offset(), &head.to_bytes());
        memory.write(lease.offset() + BatchHead::LENGTH, &next_batch.bytes);
        let requests = next_batch.empty(self.batches.spare_requests());
        let batch = PendingBatch::new(lease, message, requests);
        match self.slots.announce(self.client_buffer.memory(), tag, &batch) {
            Announced::Polled => {}
            Announced::NotPolled => self.ops.push_back(Op::send(SEND, batch.message())),
            Announced::NeedsWakeup => {
                self.ops.push_back(Op::send(SEND, self.client_buffer.check_slots_message()))
            }
        }
        self.batches.insert(tag, batch);
        self.post();
        Ok(())
    }

    /// After a pause, polls the link before anything is sent: the outcome of a write that is sent on a
    /// lost connection would be unknown.
    #[inline]
    fn poll_after_pause(&mut self) -> Result<(), Error> {
        let now = clock();
        let pause = now.saturating_sub(std::mem::replace(&mut self.last_sent, now));
        if pause >= IDLE_THRESHOLD { self.poll(&mut |_, _| ()) } else { Ok(()) }
    }

    /// Whether the store's values can be read in place: the link's key for the pool arrives separately from the hello, or
    /// never.
    fn try_reading_in_place(&mut self) -> bool {
        if let (Some(pool), 0..MAX_IN_PLACE_ATTEMPTS) = (&self.pool, self.in_place_attempts) {
            self.in_place_attempts += 1;
            let scratch = self.client_buffer.scratch();
            self.in_place = self.link.read_mapped(pool, 0, MappedInto::Slice(&scratch));
        }
        self.in_place
    }

    /// Sends a message that grants or revokes memory.
    pub(crate) fn send_grant(&mut self, message: &[u8]) -> Result<(), Error> {
        let lease = self.client_buffer.lease(message.len())?;
        self.client_buffer.memory().write(lease.offset(), message);
        let slice =
            self.client_buffer.region().slice(lease.offset()..lease.offset() + message.len());
        let op_id = (FIRST_GRANT..)
            .find(|op_id| !self.grant_messages.contains_key(op_id))
            .unwrap_or(FIRST_GRANT);
        self.grant_messages.insert(op_id, lease);
        self.ops.push_back(Op::send(op_id, slice));
        Ok(())
    }

    /// Takes answers that have arrived; does not wait.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        complete: &mut impl FnMut(RequestId, Outcome),
    ) -> Result<(), Error> {
        self.without_link = 0;
        self.slots.wake(self.client_buffer.memory());
        self.completion_flags(complete)?;
        self.post();
        let mut done = std::mem::take(&mut self.done);
        self.link.poll(&mut done);
        let taken = self.take(&mut done, complete);
        self.done = done;
        taken
    }

    /// Waits for answers, up to a limit.
    pub(crate) fn wait(
        &mut self,
        complete: &mut impl FnMut(RequestId, Outcome),
        limit: Duration,
    ) -> Result<(), Error> {
        self.post();
        if !self.slots.is_empty() && self.wait_for_completion_flags(complete, limit)? {
            return Ok(());
        }
        let mut done = std::mem::take(&mut self.done);
        wait(&mut self.link, &mut done, limit);
        self.slots.wake(self.client_buffer.memory());
        let taken =
            self.take(&mut done, complete).and_then(|()| self.completion_flags(complete).map(drop));
        self.done = done;
        taken
    }

    /// Takes answers whose completion flag is set; returns whether there were any.
    #[inline]
    fn completion_flags(
        &mut self,
        complete: &mut impl FnMut(RequestId, Outcome),
    ) -> Result<bool, Error> {
        let mut any = false;
        while let Some(tag) = self.slots.completed(self.client_buffer.memory()) {
            any = true;
            let (link, pool) = (&mut self.link, &self.pool);
            let mut read_in_place = |at: u64, into: &Slice| {
                pool.as_ref()
                    .is_some_and(|pool| link.read_mapped(pool, at, MappedInto::Slice(into)))
            };
            self.batches.finish(tag, &mut read_in_place, complete).map_err(not_received)?;
            if self.in_place {
                self.slots.publish_consumed(self.client_buffer.memory());
            }
        }
        if self.batches.is_drained() { Err(closing()) } else { Ok(any) }
    }

    /// Polls completion flags as long as an answer usually takes, without reading the clock; returns
    /// whether one was set. The link is polled only now and then, for its heartbeats and acknowledgements: as long as something is
    /// not acknowledged, the store polls its link in every round.
    #[inline]
    pub(crate) fn poll_briefly(
        &mut self,
        complete: &mut impl FnMut(RequestId, Outcome),
    ) -> Result<bool, Error> {
        for _ in 0..if self.slots.is_empty() { 0 } else { BRIEF_POLLS } {
            if self.completion_flags(complete)? {
                self.without_link += 1;
                if self.without_link >= ANSWERS_PER_LINK_POLL {
                    self.poll(complete)?;
                }
                return Ok(true);
            }
            std::hint::spin_loop();
        }
        Ok(false)
    }

    /// Polls completion flags for a short while, and the link less often. Returns `true` if something arrived, `false` if it is
    /// time to sleep and the store is informed.
    fn wait_for_completion_flags(
        &mut self,
        complete: &mut impl FnMut(RequestId, Outcome),
        limit: Duration,
    ) -> Result<bool, Error> {
        let begun = Instant::now();
        let mut rounds = 0_u32;
        loop {
            if self.completion_flags(complete)? {
                return Ok(true);
            }
            rounds += 1;
            std::hint::spin_loop();
            if !rounds.is_multiple_of(FLAG_POLLS) {
                continue;
            }
            let in_flight = self.batches.len();
            self.poll(complete)?;
            let waited = begun.elapsed();
            if self.batches.len() != in_flight || waited >= limit {
                return Ok(true);
            }
            if !busy_wait(waited) {
                return Ok(!self.slots.sleep(self.client_buffer.memory())
                    || self.completion_flags(complete)?);
            }
        }
    }

    fn post(&mut self) {
        if !self.receives.is_empty() {
            self.link.post(&mut self.receives);
        }
        if !self.ops.is_empty() {
            self.link.post(&mut self.ops);
        }
    }

    fn take(
        &mut self,
        done: &mut Vec<Completion>,
        complete: &mut impl FnMut(RequestId, Outcome),
    ) -> Result<(), Error> {
        let mut lost = None;
        for completion in done.drain(..) {
            match (completion.op_id, completion.outcome) {
                // A completion flag was set while we slept.
                (RECEIVE, Ok(Done::Received { imm: Some(0), .. })) => {
                    self.receives.push_back(Op::receive(RECEIVE, Slices::EMPTY));
                }
                (RECEIVE, Ok(Done::Received { imm: Some(number), .. })) => {
                    self.receives.push_back(Op::receive(RECEIVE, Slices::EMPTY));
                    if let Err(error) = self.batches.write_received(number, complete) {
                        lost = Some(not_received(error));
                    }
                }
                (RECEIVE, Ok(_)) => {
                    lost = Some(Error::new(
                        ErrorKind::ProtocolError,
                        "unexpected message from the store",
                    ));
                }
                (SEND, Ok(_)) => {}
                (op_id, Ok(_)) => drop(self.grant_messages.remove(&op_id)),
                (_, Err(failure)) => {
                    let error = match self.link.ended() {
                        Some(reason) => Error::new(ErrorKind::Unavailable, reason),
                        None => Error::new(ErrorKind::Unavailable, "the connection failed")
                            .because(failure),
                    };
                    lost.get_or_insert(error);
                }
            }
        }
        if lost.is_none()
            && let Some(reason) = self.link.ended()
        {
            lost = Some(Error::new(ErrorKind::Unavailable, reason));
        }
        if lost.is_none() && self.batches.is_drained() {
            lost = Some(closing());
        }
        lost.map_or(Ok(()), Err)
    }

    /// Resends unanswered batches of an earlier connection; requests that must not be resent get their outcome.
    pub(crate) fn resume(
        &mut self,
        mut old: PendingBatches,
        handles: &Handles,
        outcomes: &mut Vec<RequestOutcome>,
    ) {
        let resumed = self.hello.resumed;
        let writes = |batch: &PendingBatch| batch.requests.iter().any(|request| request.writes);
        old.give_up(|batch| !resumed && !batch.refused && writes(batch), outcomes);
        for batch in old.resend() {
            self.ops.push_back(Op::send(SEND, batch.message()));
        }
        old.handles = handles.clone();
        self.batches = old;
    }

    pub(crate) fn arm(&mut self) -> bool {
        self.ops.is_empty()
            && self.receives.is_empty()
            && self.slots.sleep(self.client_buffer.memory())
            && self.link.arm()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.link.fd()
    }

    /// Closes a connection that is lost, so that the store does not write to the client buffer any more, and returns the
    /// batches in flight. The store keeps the session, which another connection resumes.
    pub(crate) fn close(self) -> PendingBatches {
        let Connection { mut link, batches, .. } = self;
        link.fail("the client connects again");
        drop(link);
        batches
    }
}

/// Opens or resumes a session; returns the store's hello, and operations that are still to be posted.
fn open_session(
    link: &mut Link,
    client_buffer: &Arc<ClientBuffer>,
    to: &Destination<'_>,
    deadline: Instant,
    session: Option<[u8; 16]>,
) -> Result<(ServerHello, VecDeque<Op>), Error> {
    let region = link
        .grant(client_buffer.region())
        .map_err(|error| Error::of_fabric("grant the client buffer to the store", error))?
        .to_bytes();
    let hello_bytes =
        ClientHello::Store { session, client_buffer: region, slot_block: true }.to_bytes();
    let lease = client_buffer.lease(hello_bytes.len() + ServerHello::LENGTH)?;
    let (from, end) = (lease.offset(), lease.offset() + hello_bytes.len());
    client_buffer.memory().write(from, &hello_bytes);
    let answer = client_buffer.region().slice(end..end + ServerHello::LENGTH);
    let mut ops = VecDeque::from([
        Op::receive(RECEIVE, answer.clone()),
        Op::send(SEND, client_buffer.region().slice(from..end)),
    ]);
    let Destination { server, limit, .. } = *to;
    let hello = loop {
        link.post(&mut ops);
        let mut done = Vec::new();
        let left = deadline.saturating_duration_since(Instant::now());
        if wait(link, &mut done, left) == 0 && left.is_zero() {
            return Err(Error::new(
                ErrorKind::TimedOut,
                format!(
                    "open a session at {server}: no answer within {limit:?} — check that a store listens there"
                ),
            ));
        }
        let received = done.iter().find(|completion| completion.op_id == RECEIVE);
        let Some(received) = received else { continue };
        let bytes = answer.to_vec();
        let length = match received.outcome {
            Ok(Done::Received { length, .. }) => length,
            _ => 0,
        };
        let hello = ServerHello::parse(bytes.get(..length).unwrap_or_default());
        break hello.map_err(|error| {
            let reason = link.ended().unwrap_or(error);
            let text = format!("open a session at {server}: {reason}");
            Error::new(
                if link.ended().is_some() {
                    ErrorKind::Unavailable
                } else {
                    ErrorKind::ProtocolError
                },
                text,
            )
        })?;
    };
    Ok((hello, ops))
}

/// The coarse clock costs a few nanoseconds.
#[inline]
fn clock() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// The store has not executed the last batches; another store may.
#[cold]
fn closing() -> Error {
    Error::new(ErrorKind::Unavailable, results::CLOSING)
}

#[cold]
fn not_received(error: NotReceived) -> Error {
    match error {
        NotReceived::ProtocolError(reason) => {
            Error::new(ErrorKind::ProtocolError, format!("the store's answer: {reason}"))
        }
        NotReceived::Revoked => Error::new(
            ErrorKind::Unavailable,
            "the store closed the connection before the value was read",
        ),
    }
}

/// Ids of operations, by which their completions are recognized.
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const FIRST_GRANT: u64 = 3;
/// After a pause of this length the link is polled before anything is sent.
const IDLE_THRESHOLD: Duration = Duration::from_millis(50);
/// Polls of completion flags between two polls of the link and the clock.
const FLAG_POLLS: u32 = 32;
/// Answers found by flags alone between polls of the link.
const ANSWERS_PER_LINK_POLL: u32 = 64;
/// Takes a few microseconds.
const BRIEF_POLLS: u32 = 128;
/// Batches after which reading in place is no longer tried.
const MAX_IN_PLACE_ATTEMPTS: u8 = 100;
/// The number of answers that may arrive between two polls.
const RECEIVES: usize = 128;
