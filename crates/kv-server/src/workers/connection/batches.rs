//! Batches on their path through a connection, from the message to the reply.

use fabric::{Completion, Lane, Work};
use kv_proto::wire::{ControlBlock, Message};

use super::Connection;
use super::client::Client;
use super::draft::Draft;
use super::token::WatchOp;
use super::watch::Look;
use crate::workers::context::WorkerContext;

impl Connection {
    /// Sends the answers of a batch; `false` if so many are in flight that these must wait.
    pub(super) fn reply(&mut self, mut draft: Draft, context: &mut WorkerContext) -> bool {
        let Some(client) = self.peer.client() else {
            context.recycle(draft);
            return true;
        };
        if self.replies.is_full() {
            self.replies.defer(draft);
            return false;
        }
        context.tally.batches += 1;
        context.tally.requests += draft.answers.len() as u64;
        let flag = draft.completion_flag();
        let bytes = context.render(&draft.answers, &draft.copied);
        // On shared memory what is copied anyway costs one more copy, and needs nothing to be kept.
        if let (true, Some(flag)) = (draft.is_copied(), flag)
            && self.link.poke(
                client.receive_buffer(),
                draft.head.at,
                bytes,
                (flag.at, flag.sequence),
            )
        {
            self.pinned_reads.hold(flag.sequence, &mut draft, context);
            self.watch.flag_set();
            context.settle(draft);
            return true;
        }
        let Some(slot) = context.keep() else {
            context.recycle(draft);
            self.dismiss("there is no memory for an answer");
            return true;
        };
        if let Some(flag) = flag {
            self.pinned_reads.hold(flag.sequence, &mut draft, context);
        }
        let most = self.link.caps().max_pieces;
        self.replies.write(draft, slot, client.receive_buffer(), most, &mut self.ops, context);
        true
    }

    /// A write of an answer is over.
    pub(super) fn replied(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) {
        let outcome = completion.outcome;
        let receive_buffer = self.peer.client().map(Client::receive_buffer);
        if self.replies.completed(row, completion, receive_buffer, &mut self.ops, context) {
            self.watch.flag_set();
        }
        if let Err(failure) = outcome
            && self.link.ended().is_none()
        {
            tracing::debug!(peer = %self.peer.address(), %failure, "an answer could not be written");
            self.dismiss("its memory cannot be written");
        }
    }
    /// Looks at the control block, if it is watched; returns whether something was announced there.
    #[inline]
    pub(super) fn look(&mut self, context: &mut WorkerContext) -> bool {
        let Some(client) = self.peer.client() else { return false };
        let (area, ops) = (self.receives.area(), &mut self.ops);
        match self.watch.look(&mut self.link, client.receive_buffer(), area, ops) {
            Look::Nothing => false,
            Look::Far => {
                self.end_watch();
                false
            }
            Look::Line { last } => {
                let announced = self.serve_line(context);
                if last {
                    self.watch.stop(context);
                }
                announced
            }
        }
    }

    /// Ends watching; `true` once that is over.
    pub(super) fn end_watch(&mut self) -> bool {
        if self.watch.end(self.peer.client(), self.receives.area(), &mut self.ops) {
            self.post();
        }
        self.watch.has_ended(self.peer.client().is_none())
    }

    /// An operation for the control block is over; returns whether there was work.
    pub(super) fn watched(
        &mut self,
        op: WatchOp,
        completion: &Completion,
        context: &mut WorkerContext,
    ) -> bool {
        let is_ok = completion.outcome.is_ok();
        self.watch.completed(op, is_ok, context);
        match op {
            WatchOp::Line => is_ok && self.serve_line(context),
            WatchOp::LastLine => {
                let announced = is_ok && self.serve_line(context);
                self.watch.stop(context);
                announced
            }
            WatchOp::State | WatchOp::Wake => false,
            WatchOp::Slot(sequence) => {
                if let (true, Work::Read { into, .. }) = (is_ok, &completion.work) {
                    self.serve_announced(sequence, into.total(), context);
                }
                true
            }
        }
    }

    /// Serves what the client's line announces; returns whether that is anything.
    fn serve_line(&mut self, context: &mut WorkerContext) -> bool {
        let line = self.watch.take_line(self.receives.area());
        let mut any = false;
        while let Some(client) = self.peer.client()
            && let Some(slot) = self.watch.next_slot(&line)
        {
            any = true;
            let (area, ops) = (self.receives.area(), &mut self.ops);
            let receive_buffer = client.receive_buffer();
            match self.watch.read_message(slot, &mut self.link, receive_buffer, area, ops) {
                Ok(Some(length)) => self.serve_announced(slot.0, length, context),
                Ok(None) => {}
                Err(why) => {
                    self.dismiss(why);
                    return true;
                }
            }
        }
        self.watch.wake(&line, &mut self.ops);
        any
    }

    /// Serves the batch that a request slot announced, whose message is in the receive area.
    fn serve_announced(&mut self, sequence: u64, length: usize, context: &mut WorkerContext) {
        let mut message = std::mem::take(&mut context.message);
        message.resize(length, 0);
        self.receives.area().read_announced(sequence, &mut message);
        let served = match Message::parse(&message) {
            Ok(Message::Batch(batch)) if has_completion_flag(batch.head.at) => {
                self.answer(&message, batch, Some(sequence), context)
            }
            Ok(_) => Err("a slot of something that is no batch, or has no completion flag"),
            Err(why) => Err(why),
        };
        context.message = message;
        self.dismiss_if(served, context);
    }

    /// Whether values may be read in place. Now and then this looks which were.
    #[inline]
    pub(super) fn may_read_in_place(&mut self, context: &mut WorkerContext) -> bool {
        if self.pinned_reads.are_many() {
            self.release_reads(context);
        }
        !self.pinned_reads.is_full()
    }

    /// Unpins what the client has finished reading.
    pub(super) fn release_reads(&mut self, context: &mut WorkerContext) {
        if let Some(client) = self.peer.client() {
            let (buffer, area) = (client.receive_buffer(), self.receives.area());
            self.pinned_reads.release_taken(&mut self.link, buffer, area, context);
        }
    }

    /// Dismisses a peer that broke the protocol.
    pub(super) fn dismiss_if(
        &mut self,
        handled: Result<(), &'static str>,
        context: &mut WorkerContext,
    ) {
        if let Err(why) = handled {
            crate::engine::add(&context.engine.counts.protocol_errors, 1);
            self.dismiss(why);
        }
    }
}

/// Whether there is a word before the answers.
fn has_completion_flag(answers: u64) -> bool {
    answers >= (ControlBlock::LENGTH + ControlBlock::FLAG) as u64
        && answers.is_multiple_of(ControlBlock::FLAG as u64)
}
