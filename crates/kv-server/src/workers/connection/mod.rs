//! A connection: one link and whoever is at its other end.
//!
//! A connection is stepped by its worker: what the link brings is answered, what must wait for bytes of the client's, or
//! for the disk, waits. Nothing here blocks. It is made of parts, each of which has its own state and file:
//!
//! - [`Peer`]: who is there, and what for; a [`Client`] of the store, or of the measuring service (`measure.rs`)
//! - [`Receives`]: the receives that bring its messages
//! - [`Replies`]: answers that are being written; [`ControlMessages`]: other messages
//! - [`Pending`]: batches that wait for bytes of the client's (`fetches.rs`), or for the disk (`disk_requests.rs`)
//! - [`Watch`]: the control block, by which a client on this host asks and is answered without messages
//! - [`PinnedReads`]: values that it reads in place
//!
//! Here is what happens to the link; `batches.rs` takes a batch from its message to its reply, `slots.rs` from its request
//! slot. What requests ask for is done in `serving.rs`: reads in `read.rs` and `placement.rs`, writes in `write.rs`.

mod answer_handle;
mod batch_limits;
mod batches;
mod client;
mod closing;
mod control_messages;
mod disk_requests;
mod draft;
mod fetches;
mod handles;
mod measure;
mod peer;
mod pending;
mod pinned_reads;
mod placement;
mod preloaded;
mod read;
mod receives;
mod replies;
mod serving;
mod slots;
mod token;
mod watch;
mod write;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::link::Link;
use fabric::{Completion, Done, Lane, Op};
use kv_proto::wire::Message;

use crate::workers::context::WorkerContext;
use client::Client;
use control_messages::ControlMessages;
pub(crate) use disk_requests::Notification;
pub(crate) use draft::{Draft, Hold};
pub use measure::SCRATCH;
use peer::{Peer, State};
use pending::Pending;
pub(crate) use pinned_reads::PinnedReads;
use receives::Receives;
use replies::Replies;
use token::Token;
use watch::Watch;

pub(crate) struct Connection {
    pub(crate) link: Link,
    peer: Peer,
    receives: Receives,
    /// Operations of all parts but `receives`, in order, that the link has no room for yet.
    ops: VecDeque<Op>,
    replies: Replies,
    pending: Pending,
    control_messages: ControlMessages,
    watch: Watch,
    pinned_reads: PinnedReads,
    /// Which of its worker's connections it is: notifications from the disk name it by that.
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
            control_messages: ControlMessages::default(),
            watch: Watch::default(),
            pinned_reads: PinnedReads::new(context.engine.clone()),
            row: 0,
        })
    }

    /// Does what there is to do; returns whether there was work. A look at a control block is none, unless something is
    /// announced there.
    pub(crate) fn step(&mut self, context: &mut WorkerContext, done: &mut Vec<Completion>) -> bool {
        let completed = self.poll(context, done);
        self.send_deferred(context); // completions have made room for them
        let announced = self.look(context);
        self.post(); // all of the above at once
        completed | announced
    }

    /// Handles completions; returns whether there was work.
    #[inline]
    fn poll(&mut self, context: &mut WorkerContext, done: &mut Vec<Completion>) -> bool {
        // While a control block is watched and nothing is in flight, the link is polled now and then.
        if self.watch.may_skip_poll() && self.is_idle() {
            return false;
        }
        self.link.poll(done);
        let mut works = false;
        for completion in done.drain(..) {
            works |= self.complete(completion, context);
        }
        works
    }

    #[inline]
    fn send_deferred(&mut self, context: &mut WorkerContext) {
        while let Some(draft) = self.replies.next_deferred() {
            if !self.reply(draft, context) {
                break;
            }
        }
    }

    #[inline]
    fn post(&mut self) {
        self.receives.post(&mut self.link);
        if !self.ops.is_empty() {
            self.link.post(&mut self.ops);
        }
    }

    /// Whether nothing but receives is in flight, or to be posted.
    #[inline]
    fn is_idle(&self) -> bool {
        self.ops.is_empty()
            && self.replies.is_idle()
            && self.pending.fetches.is_empty()
            && self.control_messages.is_empty()
    }

    /// Prepares not to be stepped until its descriptor is readable; `false`: not yet.
    pub(crate) fn rest(&mut self, context: &mut WorkerContext) -> bool {
        self.release_reads(context);
        self.end_watch() && self.link.arm()
    }

    /// Whether the link is over and has given everything back.
    pub(crate) fn is_gone(&self) -> bool {
        self.link.ended().is_some()
            && self.receives.is_idle()
            && self.is_idle()
            && self.watch.is_idle()
            && self.pending.disk.outstanding() == 0
    }

    /// How long it must have been silent to be closed without losing anything; none: something is in flight, or open.
    pub(crate) fn patience(&mut self, context: &mut WorkerContext) -> Option<Duration> {
        self.release_reads(context);
        let open = self.peer.client().is_some_and(|client| !client.handles.is_empty());
        let waits = !self.pending.is_empty() || self.replies.deferred() + self.ops.len() > 0;
        if open || waits || !self.pinned_reads.is_empty() {
            return None;
        }
        // A client by TCP acknowledges its answer only with its next request. So nobody waits for that, but a value may
        // take a while to be sent.
        Some(if self.replies.has_values() { SENDING } else { QUIET })
    }

    /// Renews the peer's rights where they were changed; dismisses it and returns `false` if they are not what they were, so
    /// that nothing of the old rights is left.
    #[inline]
    pub(crate) fn renew_rights(&mut self) -> bool {
        if self.peer.client_mut().is_none_or(Client::renew) {
            return true;
        }
        self.dismiss("what its identity may do has changed");
        false
    }

    /// Dismisses a peer that broke the protocol.
    fn dismiss_if(&mut self, handled: Result<(), &'static str>, context: &mut WorkerContext) {
        if let Err(why) = handled {
            crate::engine::add(&context.engine.counts.protocol_errors, 1);
            self.dismiss(why);
        }
    }

    /// Ends the link, for a reason to be logged.
    pub(crate) fn dismiss(&mut self, why: &str) {
        if !self.peer.is_over() {
            tracing::debug!(peer = %self.peer.address(), why, "a link is closed");
        }
        self.peer.dismiss();
        self.link.close();
    }

    /// The link, once nothing is in flight any more; what was pinned for its client is released after it.
    pub(crate) fn into_link(mut self, context: &mut WorkerContext) -> (Link, PinnedReads) {
        self.peer.leave();
        self.watch.stop(context);
        self.replies.recycle(context);
        self.pending.recycle(context);
        context.receive_areas.give_back(self.receives.into_area());
        (self.link, self.pinned_reads.detach(context))
    }

    /// Releases reads that the client has finished, closes idle handles, and dismisses a peer that never opened.
    pub(crate) fn expire(&mut self, now: Instant, context: &mut WorkerContext) {
        self.release_reads(context);
        let idle = context.engine.idle();
        if let Some(client) = self.peer.client_mut() {
            let idled = client.handles.close_idle(now, idle);
            crate::engine::add(&context.engine.counts.idled, idled as u64);
        }
        if self.peer.is_overdue(now, idle) {
            self.dismiss("it sent no opening message in time");
        }
    }

    /// Gives a completion to the part it belongs to; returns whether there was work.
    fn complete(&mut self, completion: Completion, context: &mut WorkerContext) -> bool {
        let Some(token) = Token::parse(completion.token) else { return false };
        match token {
            Token::Watch(op) => return self.watched(op, &completion, context),
            Token::Receive(place) => self.received(place, &completion, context),
            Token::Reply(row) => self.replied(row, completion, context),
            Token::Fetch(row) => self.fetched(row, completion, context),
            Token::ControlMessage(row) => self.control_messages.completed(row, context),
        }
        true
    }

    fn received(&mut self, place: u32, completion: &Completion, context: &mut WorkerContext) {
        self.receives.completed();
        match completion.outcome {
            Ok(Done::Received { length, imm: None }) => {
                let mut message = std::mem::take(&mut context.message);
                message.resize(length, 0);
                // Copied before it is looked at: the client may write to what it sent from.
                self.receives.area().read(place as usize, &mut message);
                let handled = self.handle_message(&message, context);
                context.message = message;
                self.dismiss_if(handled, context);
            }
            Ok(_) => {}
            Err(fabric::Failure::TooLong) => {
                return self.dismiss("a message is longer than a client may send");
            }
            Err(_) => return,
        }
        self.receives.queue(place);
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
                    self.watch.begin(client, &self.link, area, ops, context);
                    self.answer(message, batch, None, context)
                }
                Message::CheckSlots => self.watch.call(client),
                Message::Grant(grant) => client.grant(&grant, &mut self.link),
                Message::Revoke { number } => client.forget(number),
            },
            State::New => {
                let hello = self.peer.open(message, &mut self.link, context)?;
                self.control_messages.send(&hello, &mut self.ops, context)
            }
            State::Measured(measure) => {
                measure.renew()?;
                self.control_messages.send(message, &mut self.ops, context)
            }
            State::Over => Ok(()),
        }
    }
}

/// How many requests one batch may have, and how many batches a client may have in flight.
const REQUESTS: u16 = 256;
const BATCHES: u16 = 64;

/// How long a client is silent before it is closed at shutdown: longer than one that sends one request after the other
/// pauses; and while values are being sent to it.
const QUIET: Duration = Duration::from_millis(300);
const SENDING: Duration = Duration::from_secs(1);
