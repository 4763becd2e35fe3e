//! Messages to a peer: the hello, and the echoes of the measuring service. Answers are written, not sent.
//!
//! Each is sent from one of the worker's send buffers, which is released on completion.

use std::collections::VecDeque;

use fabric::Op;

use super::completion_id::CompletionId;
use crate::slab::Slab;
use crate::workers::context::WorkerContext;
use crate::workers::send_buffers::SendBuffer;

#[derive(Default)]
pub(super) struct Sends {
    in_flight: Slab<SendBuffer>,
}

impl Sends {
    /// Queues a message.
    pub(super) fn send(
        &mut self,
        message: &[u8],
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        // A peer that does not receive must not fill the queue.
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return Err("the peer does not receive its messages");
        }
        let buffer = context.send_buffers.write(message).ok_or("out of memory for a message")?;
        let bytes = context.send_buffers.slice(&buffer, 0, message.len());
        let row = self.in_flight.insert(buffer);
        ops.push_back(Op::send(CompletionId::Send(row).encode(), bytes));
        Ok(())
    }

    /// Handles the completion of a message, sent or failed.
    pub(super) fn completed(&mut self, row: u32, context: &mut WorkerContext) {
        if let Some(buffer) = self.in_flight.remove(row) {
            context.send_buffers.release(buffer);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.len() == 0
    }
}

/// More than a measurement has in flight.
const MAX_IN_FLIGHT: usize = 64;
