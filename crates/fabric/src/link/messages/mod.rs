//! Messages: those to send, those that came, and the slots of one lane.

pub(super) mod inbox;
pub(super) mod incoming;
pub(super) mod message_queue;
pub(super) mod outgoing;
