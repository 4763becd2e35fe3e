//! The fast path: binary messages between clients and stores on a link.
//!
//! A client sends a [`ClientHello`] with the region in which answers may be written; the store answers with a
//! [`ServerHello`]. From then on the client sends **batches** ([`Batch`]): messages of one or more
//! requests, under a tag. The store writes the answers, followed by the requested bytes, directly into
//! the client's memory; each of those writes has immediate data ([`ReplyImmediate`]) with the batch's tag
//! and the number of writes in all; a batch that came by a request slot (`slot_block.rs`) is completed by its completion flag
//! instead. Writes may arrive in any order: the answer is complete when all
//! have arrived. The store grants no write access to its own memory: it reads what a client puts.
//!
//! All numbers are little-endian. Everything is checked on arrival: what a parser returns lies
//! within its message, and a message that this version would not encode the same is refused.

mod answer;
mod batch;
mod hello;
mod listing;
mod reply_immediate;
mod request;
mod slot_block;

pub use answer::{Answer, Status};
pub use batch::{Batch, BatchHead, Grant, Message};
pub use hello::{ClientHello, Limits, REGION, ServerHello, Service};
pub use listing::{Entries, Entry};
pub use reply_immediate::ReplyImmediate;
pub use request::{Destination, Request, Source};
pub use slot_block::{RequestSlot, SlotBlock};

/// Why a message is not valid: text for a log.
pub type ProtocolError = &'static str;

/// The protocol version; both ends must agree.
pub const VERSION: u8 = 1;

/// Reads fields one after the other.
#[derive(Debug, Clone)]
struct Reader<'m> {
    bytes: &'m [u8],
}

impl<'m> Reader<'m> {
    #[inline]
    fn take(&mut self, count: usize) -> Result<&'m [u8], ProtocolError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or("truncated message")?;
        self.bytes = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or("truncated message")?;
        self.bytes = rest;
        Ok(*taken)
    }

    #[inline]
    fn u16(&mut self) -> Result<u16, ProtocolError> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    fn u32(&mut self) -> Result<u32, ProtocolError> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    fn u64(&mut self) -> Result<u64, ProtocolError> {
        self.array().map(u64::from_le_bytes)
    }

    fn end(self) -> Result<(), ProtocolError> {
        if self.bytes.is_empty() { Ok(()) } else { Err("message too long") }
    }
}
