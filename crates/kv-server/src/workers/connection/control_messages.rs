//! Messages to a peer that are no answers: the first one, and the echoes of the measuring service.
//!
//! Each is sent from a slot of the worker's send buffers, which is given back when it was sent.

use std::collections::VecDeque;

use fabric::Op;

use super::token::Token;
use crate::rows::Rows;
use crate::workers::context::WorkerContext;
use crate::workers::send_buffers::Slot;

#[derive(Default)]
pub(super) struct ControlMessages {
    in_flight: Rows<Slot>,
}

impl ControlMessages {
    /// Queues a message among the link's operations.
    pub(super) fn send(
        &mut self,
        message: &[u8],
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) -> Result<(), &'static str> {
        // Whoever sends and takes nothing is not told more and more.
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return Err("it does not take what it is told");
        }
        let slot = context.send_buffers.write(message).ok_or("there is no memory for an answer")?;
        let bytes = context.send_buffers.slice(&slot, 0, message.len());
        let row = self.in_flight.insert(slot);
        ops.push_back(Op::send(Token::ControlMessage(row).encode(), bytes));
        Ok(())
    }

    /// One was sent, or never will be.
    pub(super) fn completed(&mut self, row: u32, context: &mut WorkerContext) {
        if let Some(slot) = self.in_flight.remove(row) {
            context.send_buffers.give_back(slot);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.len() == 0
    }
}

/// Echoes that wait to be taken: more than a measurement has in flight.
const MAX_IN_FLIGHT: usize = 64;
