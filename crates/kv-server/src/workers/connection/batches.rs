//! Batches on their path through a connection, from the message to the reply.

use fabric::{Completion, Lane};

use super::Connection;
use super::client::Client;
use super::draft::Draft;
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
            self.hold_reads(flag.sequence, &mut draft, context);
            self.flag_set();
            context.settle(draft);
            return true;
        }
        let Some(slot) = context.keep() else {
            context.recycle(draft);
            self.dismiss("there is no memory for an answer");
            return true;
        };
        if let Some(flag) = flag {
            self.hold_reads(flag.sequence, &mut draft, context);
        }
        let Some(client) = self.peer.client() else { return true };
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
            self.flag_set();
        }
        if let Err(failure) = outcome
            && self.link.ended().is_none()
        {
            tracing::debug!(peer = %self.peer.address(), %failure, "an answer could not be written");
            self.dismiss("its memory cannot be written");
        }
    }
}
