//! A connection: one link and its peer.
//!
//! A connection is stepped by its worker: requests are answered, and wait if they need bytes of the client, or
//! the disk. Nothing here blocks. It consists of parts, each with its own state and file:
//!
//! - [`Peer`]: the peer and its role: a [`Client`] of the store, or of the measuring service (`measure.rs`)
//! - [`Receives`]: the receives for its messages
//! - [`Replies`]: answers that are being written; [`Sends`]: messages that are not answers
//! - [`Pending`]: batches that wait for bytes of the client (`put_fetches.rs`), or for the disk (`disk_requests.rs`)
//! - [`SlotPoller`]: the slot block, by which a client on this host sends requests without messages
//! - [`InPlaceReads`]: values that it reads in place
//!
//! The stages of a batch, and what identifies it in each. A store without disk begins with the third.
//!
//! 1. *Preload* (`batches.rs` `preload`, `preloaded.rs`): permissions are checked, and values in memory pinned. It is a message, with a
//!    `slot_sequence` if it came by a request slot.
//! 2. *Load*, if values are not in memory (`disk_requests.rs` `load`): waits for [`Notification::Loaded`] for each of them, with
//!    its row in `DiskRequests` and the request's index. The message is kept, and parsed again for the next stage.
//! 3. *Serve* (`batches.rs` `serve`, `serving.rs`): it becomes [`BatchAnswers`], with the client's `tag` and the `slot_sequence`.
//! 4. *Fetch*, for puts from the client's memory (`batches.rs` `wait`, `put_fetches.rs`): waits for reads of the link, with its row in
//!    [`Pending`] and the answer's index; the reads have the row of the fetch.
//! 5. *Submit*, for writes to a disk (`batches.rs` `submit`, `disk_requests.rs` `submit`): waits for [`Notification::Written`], with
//!    the same row and index.
//! 6. *Reply* (`batches.rs` `reply`, `replies.rs`): waits until fewer replies are in flight, then for its writes, with its row in
//!    [`Replies`]. The client recognises it by the `tag` in the immediate data, or by the `slot_sequence` as completion flag.
//!
//! This file handles the link; `batches.rs` processes a batch from its message to its reply, `slots.rs` request
//! slots. Requests are executed in `serving.rs`: reads in `read.rs` and `delivery.rs`, writes in `write.rs`.

mod answer_handle;
mod batch_answers;
mod batch_limits;
mod batches;
mod client;
mod completion_id;
mod delivery;
mod disk_requests;
mod draining;
mod handles;
mod in_place_reads;
mod measure;
mod peer;
mod pending;
mod preloaded;
mod put_fetches;
mod read;
mod receives;
mod replies;
mod sends;
mod serving;
mod slot_poller;
mod slots;
mod write;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::link::Link;
use fabric::{Completion, Done, Lane, Op};
use kv_proto::wire::Message;

use crate::workers::context::WorkerContext;
pub(crate) use batch_answers::{BatchAnswers, ValuePin};
use client::Client;
use completion_id::CompletionId;
pub(crate) use disk_requests::Notification;
pub(crate) use in_place_reads::InPlaceReads;
pub use measure::SCRATCH_BYTES;
use peer::{Peer, State};
use pending::Pending;
use receives::Receives;
use replies::Replies;
use sends::Sends;
use slot_poller::SlotPoller;

pub(crate) struct Connection {
    pub(crate) link: Link,
    peer: Peer,
    receives: Receives,
    /// Operations of all parts except `receives`, in order, that are not posted yet.
    ops: VecDeque<Op>,
    replies: Replies,
    pending: Pending,
    sends: Sends,
    poller: SlotPoller,
    in_place_reads: InPlaceReads,
    /// How many operations of the peer the link had executed at the last poll.
    peer_operations: u64,
    /// Its row among the worker's connections, by which notifications from the disk are addressed.
    pub(crate) row: u32,
}

impl Connection {
    pub(crate) fn new(link: Link, context: &mut WorkerContext) -> Result<Self, fabric::Error> {
        let area = context.receive_areas.take(&context.endpoint)?;
        Ok(Connection {
            peer: Peer::new(&link),
            link,
            receives: Receives::new(area),
            ops: VecDeque::new(),
            replies: Replies::default(),
            pending: Pending::default(),
            sends: Sends::default(),
            poller: SlotPoller::default(),
            in_place_reads: InPlaceReads::new(context.engine.clone()),
            peer_operations: 0,
            row: 0,
        })
    }

    /// Does all pending work; returns whether there was any. Reading a slot block does not count, unless a batch was
    /// announced there.
    pub(crate) fn step(&mut self, context: &mut WorkerContext, done: &mut Vec<Completion>) -> bool {
        let completed = self.poll(context, done);
        self.send_deferred(context); // completions have freed buffers for them
        let announced = self.check_slots(context);
        self.post(); // all of the above together
        completed | announced
    }

    /// Handles completions; returns whether there was work.
    #[inline]
    fn poll(&mut self, context: &mut WorkerContext, done: &mut Vec<Completion>) -> bool {
        // While a slot block is polled and nothing is in flight, the link is polled less often.
        if self.poller.may_skip_poll() && self.is_idle() {
            return false;
        }
        self.link.poll(done);
        let served = self.link.stats().peer_operations();
        let mut works = std::mem::replace(&mut self.peer_operations, served) != served;
        for completion in done.drain(..) {
            works |= self.complete(completion, context);
        }
        works
    }

    #[inline]
    fn send_deferred(&mut self, context: &mut WorkerContext) {
        while let Some(batch_answers) = self.replies.next_deferred() {
            self.send_reply(batch_answers, context);
        }
    }

    #[inline]
    fn post(&mut self) {
        self.receives.post(&mut self.link);
        if !self.ops.is_empty() {
            self.link.post(&mut self.ops);
        }
    }

    /// Whether nothing except receives is in flight or to be posted.
    #[inline]
    fn is_idle(&self) -> bool {
        self.ops.is_empty()
            && self.replies.is_idle()
            && self.pending.put_fetches.is_empty()
            && self.sends.is_empty()
    }

    /// Arms the descriptor, so that the connection need not be stepped until it is readable; `false`: not yet.
    pub(crate) fn arm(&mut self, context: &mut WorkerContext) -> bool {
        self.release_reads(context);
        self.end_polling() && self.link.arm()
    }

    /// Whether the link has ended and nothing is in flight.
    pub(crate) fn is_finished(&self) -> bool {
        self.link.ended().is_some()
            && self.receives.is_idle()
            && self.is_idle()
            && self.poller.is_idle()
            && self.pending.disk.outstanding() == 0
    }

    /// How long it must have been quiet to be closed without losing anything; `None`: something is in flight, or open.
    pub(crate) fn close_after(&mut self, context: &mut WorkerContext) -> Option<Duration> {
        self.release_reads(context);
        let open = self.peer.client().is_some_and(|client| !client.handles.is_empty());
        let is_busy = !self.pending.is_empty() || self.replies.deferred() + self.ops.len() > 0;
        if open || is_busy || !self.in_place_reads.is_empty() {
            return None;
        }
        // Over TCP a client acknowledges an answer only with its next request. So replies in flight do not count, but a
        // value may take a while to be sent.
        Some(if self.replies.has_values() { CLOSE_AFTER_SENDING } else { CLOSE_AFTER_QUIET })
    }

    /// Renews the peer's permissions if the rules were changed; if its own ones are different, closes the connection, so
    /// that nothing with the old permissions is left, and returns `false`.
    #[inline]
    pub(crate) fn renew_permissions(&mut self) -> bool {
        if self.peer.client_mut().is_none_or(Client::renew) {
            return true;
        }
        self.close("the permissions of its identity have changed");
        false
    }

    /// Closes the connection after a protocol error.
    fn close_on_error(&mut self, handled: Result<(), &'static str>, context: &mut WorkerContext) {
        if let Err(why) = handled {
            crate::engine::add(&context.engine.counts.protocol_errors, 1);
            self.close(why);
        }
    }

    /// Closes the link, and logs the reason.
    pub(crate) fn close(&mut self, why: &str) {
        if !self.peer.is_closed() {
            tracing::debug!(peer = %self.peer.address(), why, "closing link");
        }
        self.peer.close();
        self.link.close();
    }

    /// Takes the link out, when nothing is in flight; the in-place reads must be released after it.
    pub(crate) fn into_link(mut self, context: &mut WorkerContext) -> (Link, InPlaceReads) {
        self.peer.leave(context.engine.sessions(), self.link.is_closed_by_peer());
        self.poller.stop(context);
        self.replies.recycle(context);
        self.pending.recycle(context);
        context.receive_areas.release(self.receives.into_area());
        (self.link, self.in_place_reads.detach(context))
    }

    /// Releases reads that the client has finished, closes idle handles, and closes a connection without hello.
    pub(crate) fn expire(&mut self, now: Instant, context: &mut WorkerContext) {
        self.release_reads(context);
        let idle_timeout = context.engine.idle_timeout();
        if let Some(client) = self.peer.client_mut() {
            let idle_closed = client.handles.close_idle(now, idle_timeout);
            crate::engine::add(&context.engine.counts.idle_closed, idle_closed as u64);
        }
        if self.peer.is_overdue(now, idle_timeout) {
            self.close("no hello in time");
        }
    }

    /// Passes a completion to the part that it belongs to; returns whether there was work.
    fn complete(&mut self, completion: Completion, context: &mut WorkerContext) -> bool {
        let Some(id) = CompletionId::parse(completion.op_id) else { return false };
        match id {
            CompletionId::SlotBlock(op) => {
                return self.slot_block_completed(op, &completion, context);
            }
            CompletionId::Receive(buffer) => self.received(buffer, &completion, context),
            CompletionId::Reply(row) => self.replied(row, completion, context),
            CompletionId::PutFetch(row) => self.put_fetch_completed(row, completion, context),
            CompletionId::Send(row) => self.sends.completed(row, context),
        }
        true
    }

    fn received(&mut self, buffer: u32, completion: &Completion, context: &mut WorkerContext) {
        self.receives.completed();
        match completion.outcome {
            Ok(Done::Received { length, imm: None }) => {
                let mut message = std::mem::take(&mut context.message);
                message.resize(length, 0);
                // Copied before it is parsed: over shared memory the client can still change it.
                self.receives.area().read(buffer as usize, &mut message);
                let handled = self.handle_message(&message, context);
                context.message = message;
                self.close_on_error(handled, context);
            }
            Ok(_) => {}
            Err(fabric::Failure::TooLong) => {
                return self.close("a message is too long");
            }
            Err(_) => return,
        }
        self.receives.queue(buffer);
    }

    fn handle_message(
        &mut self,
        message: &[u8],
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        match self.peer.state() {
            State::Client(client) => match Message::parse(message)? {
                Message::Batch(batch) => {
                    let (area, ops) = (self.receives.area(), &mut self.ops);
                    self.poller.begin(client, &self.link, area, ops, context);
                    self.answer(message, batch, None, context)
                }
                Message::CheckSlots => self.poller.request_check(client),
                Message::Grant(grant) => client.grant(&grant, &mut self.link),
                Message::Revoke { number } => client.forget(number),
            },
            State::New => {
                let hello = self.peer.open(message, &mut self.link, context)?;
                self.sends.send(&hello, &mut self.ops, context)
            }
            State::Measured(measure) => {
                measure.renew()?;
                self.sends.send(message, &mut self.ops, context)
            }
            State::Closed => Ok(()),
        }
    }
}

/// The requests of one batch, and the batches that a client may have in flight.
const MAX_REQUESTS: u16 = 256;
const MAX_BATCHES: u16 = 64;

/// How long a client must be quiet to be closed at shutdown: longer than the pauses between consecutive requests; and
/// the same while values are being sent to it.
const CLOSE_AFTER_QUIET: Duration = Duration::from_millis(300);
const CLOSE_AFTER_SENDING: Duration = Duration::from_secs(1);
