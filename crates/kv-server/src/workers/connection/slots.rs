//! Request slots: batches that a client announces in its slot block.

use fabric::{Completion, Work};
use kv_proto::wire::{Message, SlotBlock};

use super::Connection;
use super::completion_id::SlotBlockOp;
use super::slot_poller::{ClientLine, LineRead};
use crate::workers::context::WorkerContext;

impl Connection {
    /// Reads the slot block, if it is polled; returns whether a batch was announced there.
    #[inline]
    pub(super) fn check_slots(&mut self, context: &mut WorkerContext) -> bool {
        let Some(client) = self.peer.client() else { return false };
        let (area, ops) = (self.receives.area(), &mut self.ops);
        match self.poller.read_client_line(&mut self.link, client.client_buffer(), area, ops) {
            LineRead::NotReady => false,
            LineRead::NotShared => {
                self.end_polling();
                false
            }
            LineRead::Ready { line, last } => {
                let announced = self.serve_client_line(&line, context);
                if last {
                    self.poller.stop(context);
                }
                announced
            }
        }
    }

    /// Ends polling the slot block; returns whether it has ended.
    pub(super) fn end_polling(&mut self) -> bool {
        if self.poller.end(self.peer.client(), self.receives.area(), &mut self.ops) {
            self.post();
        }
        self.poller.has_ended(self.peer.client().is_none())
    }

    /// Handles the completion of an operation on the slot block; returns whether there was work.
    pub(super) fn slot_block_completed(
        &mut self,
        op: SlotBlockOp,
        completion: &Completion,
        context: &mut WorkerContext,
    ) -> bool {
        let is_ok = completion.outcome.is_ok();
        self.poller.completed(op, is_ok, context);
        match op {
            SlotBlockOp::Line => is_ok && self.serve_line_read(context),
            SlotBlockOp::LastLine => {
                let announced = is_ok && self.serve_line_read(context);
                self.poller.stop(context);
                announced
            }
            SlotBlockOp::State | SlotBlockOp::Wake => false,
            SlotBlockOp::Slot(slot_sequence) => {
                if let (true, Work::Read { into, .. }) = (is_ok, &completion.work) {
                    let mut message = std::mem::take(&mut context.message);
                    message.resize(into.total(), 0);
                    self.receives.area().read_announced(slot_sequence, &mut message);
                    self.serve_announced(slot_sequence, message, context);
                }
                true
            }
        }
    }

    /// Serves the batches of the client's cache line, which an operation has read; returns whether there were any.
    fn serve_line_read(&mut self, context: &mut WorkerContext) -> bool {
        let line = self.poller.take_client_line(self.receives.area());
        self.serve_client_line(&line, context)
    }

    /// Serves the batches that the client's cache line announces; returns whether there were any.
    #[inline]
    fn serve_client_line(&mut self, line: &ClientLine, context: &mut WorkerContext) -> bool {
        let mut any = false;
        while let Some(client) = self.peer.client()
            && let Some(slot) = self.poller.next_slot(line)
        {
            any = true;
            let (area, ops) = (self.receives.area(), &mut self.ops);
            let client_buffer = client.client_buffer();
            let mut message = std::mem::take(&mut context.message);
            let (poller, link) = (&mut self.poller, &mut self.link);
            match poller.read_message(slot, link, client_buffer, area, ops, &mut message) {
                Ok(true) => self.serve_announced(slot.0, message, context),
                Ok(false) => context.message = message,
                Err(why) => {
                    context.message = message;
                    self.close(why);
                    return true;
                }
            }
        }
        self.poller.wake(line, &mut self.ops);
        any
    }

    /// Serves the batch of a request slot, and returns the message to the context.
    fn serve_announced(
        &mut self,
        slot_sequence: u64,
        message: Vec<u8>,
        context: &mut WorkerContext,
    ) {
        let served = match Message::parse(&message) {
            Ok(Message::Batch(batch)) if has_completion_flag(batch.head.at) => {
                self.answer(&message, batch, Some(slot_sequence), context)
            }
            Ok(_) => Err("a request slot announces no batch, or one without completion flag"),
            Err(why) => Err(why),
        };
        context.message = message;
        self.close_on_error(served, context);
    }
}

/// Whether there is an aligned word before the answers.
fn has_completion_flag(answers: u64) -> bool {
    answers >= (SlotBlock::LENGTH + SlotBlock::FLAG) as u64
        && answers.is_multiple_of(SlotBlock::FLAG as u64)
}
