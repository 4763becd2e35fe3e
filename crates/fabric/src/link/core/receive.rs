//! Incoming messages, on any rail: each takes effect once and in order, and messages for the caller are matched with receives.

use super::Core;
use crate::link::messages::{Arrival, InboxMessage, InboxStep, PayloadLocation, UnnumberedMessage};
use crate::link::operations::runs;
use crate::link::protocol::header::{AtomicOp, Body, Header, MessageClass};
use crate::link::rails::{RailLane, ReceiveOutcome};
use crate::op::{Completion, Done, Failure};
use crate::region::Slice;

impl Core {
    pub(in crate::link) fn receive(&mut self, rail: u8, completion: Completion) {
        let Some(lane) = self.rails.lane_mut(rail) else { return };
        let length = match lane.receive(completion) {
            ReceiveOutcome::Nothing => return,
            ReceiveOutcome::Failed(failure) => return self.lane_failed(rail, failure),
            ReceiveOutcome::Message { slot, header, payload } => {
                if self.peer_freed(rail, header.freed, header.taken) {
                    let location = PayloadLocation::Slot { rail, slot, payload };
                    return self.accept_message(&header, location);
                }
                self.free(rail, slot, header.body.class());
                payload.begin + payload.length
            }
            ReceiveOutcome::Malformed { length } => length,
        };
        self.malformed(rail, length);
    }

    /// A message that arrived in a packet.
    pub(super) fn receive_packet(&mut self, rail: u8, bytes: Vec<u8>) {
        match Header::of_message(&bytes) {
            Some((header, begin)) if self.peer_freed(rail, header.freed, header.taken) => {
                self.accept_message(&header, PayloadLocation::Copied { bytes, begin });
            }
            _ => self.malformed(rail, bytes.len()),
        }
    }

    #[cold]
    fn malformed(&mut self, rail: u8, length: usize) {
        let name = self.rails.name(rail);
        let why = format!("malformed message of {length} bytes over {name}");
        self.fail_link(Failure::ProtocolError, &why);
    }

    /// Counts of the peer: slots freed, messages taken; `false` if they are invalid.
    pub(super) fn peer_freed(&mut self, rail: u8, freed: [u32; 2], taken: u32) -> bool {
        let Some(lane) = self.rails.lane_mut(rail) else { return true };
        lane.slots_mut().is_none_or(|slots| slots.peer_freed(freed))
            && self.messages.outgoing_mut(MessageClass::Caller).taken(taken)
    }

    fn accept_message(&mut self, header: &Header, location: PayloadLocation) {
        let class = header.body.class();
        if header.body == Body::Credit {
            return self.release(location, class);
        }
        match self.messages.arrival(header) {
            Arrival::InOrder => {
                self.apply(header.body, location);
                while let Some((header, bytes)) = self.messages.next_early(class) {
                    self.apply(header.body, PayloadLocation::Copied { bytes, begin: 0 });
                }
            }
            Arrival::Early => {
                let payload = self.payload(&location);
                let kept = self.messages.keep(*header, payload);
                self.release(location, class);
                if !kept {
                    self.too_many_untaken();
                }
            }
            Arrival::Duplicate => self.release(location, class),
            Arrival::ProtocolError => {
                self.release(location, class);
                self.fail_link(
                    Failure::ProtocolError,
                    "a message from the peer is too far out of order",
                );
            }
        }
    }

    #[cold]
    fn too_many_untaken(&mut self) {
        let why = "the peer exceeds the limit of untaken messages";
        self.fail_link(Failure::ProtocolError, why);
    }

    fn apply(&mut self, body: Body, location: PayloadLocation) {
        match body {
            Body::Fragment { .. } | Body::WriteImm { .. } | Body::Void => {
                let matched = self.messages.inbox_mut().take_immediately(body, location.length());
                if let Some((receive, done)) = matched {
                    self.copy(&location, receive.work.local(), 0);
                    self.release(location, MessageClass::Caller);
                    return self.completions.finish(receive, Ok(done));
                }
                let location = self.copy_out(location);
                self.messages.inbox_mut().push(InboxMessage { body, location });
                self.match_receives();
                if self.messages.has_too_many_untaken() {
                    self.too_many_untaken();
                }
                return;
            }
            Body::Atomic { request, region, offset, op } => {
                self.execute_atomic(request, region, offset, op);
            }
            Body::OldValue { request, old } => self.answered(request, old),
            Body::Credit => {}
        }
        self.release(location, MessageClass::Internal);
    }

    /// Copies a message that has to wait out of its slot, if its lane's slots are not for that.
    fn copy_out(&mut self, location: PayloadLocation) -> PayloadLocation {
        let PayloadLocation::Slot { rail, slot, payload } = location else { return location };
        let slots = self.rails.lane_mut(rail).and_then(RailLane::slots_mut);
        let Some((slots, bytes)) =
            slots.and_then(|slots| slots.copy_out(slot, payload).map(|bytes| (slots, bytes)))
        else {
            return location;
        };
        if slots.exceeds_credits() {
            self.fail_link(
                Failure::ProtocolError,
                "the peer sends more messages than it has credits",
            );
        }
        PayloadLocation::CopiedFrom { rail, bytes }
    }

    /// Executes an atomic operation of the peer.
    fn execute_atomic(&mut self, request: u32, region: u64, offset: u64, op: AtomicOp) {
        self.completions.stats().add_peer_operations(1);
        let old = self.regions.word(region, offset).map(|word| {
            let memory = word.region().memory();
            match op {
                AtomicOp::Add(add) => memory.fetch_add(word.offset(), add),
                AtomicOp::Swap { expect, new } => memory.compare_swap(word.offset(), expect, new),
            }
        });
        self.messages.push(UnnumberedMessage::OldValue { request, old });
        if self.messages.has_too_many_answers() {
            let why = "the peer exceeds the limit of atomic operations in flight";
            self.fail_link(Failure::ProtocolError, why);
        }
    }

    /// The peer answered an atomic operation of ours.
    fn answered(&mut self, row: u32, old: Option<u64>) {
        let operation = self.operations.get(row).filter(|found| found.awaits_answer());
        let Some(operation) = operation else {
            return self.fail_link(Failure::ProtocolError, "the peer answered an unknown request");
        };
        if let (Some(old), [location]) = (old, operation.work().local()) {
            location.region().memory().store(location.offset(), old);
        }
        self.finish_operation(row, old.map(Done::Old).ok_or(Failure::Access));
    }

    /// Matches messages with receives, as long as there are both.
    #[inline]
    pub(super) fn match_receives(&mut self) {
        loop {
            let step = match self.messages.inbox_mut().step() {
                InboxStep::Skip(message) => {
                    self.release(message.location, MessageClass::Caller);
                    continue;
                }
                InboxStep::Fill { from } => {
                    let copied = self.messages.inbox().first().map(|(receive, message)| {
                        self.copy(&message.location, receive.work.local(), from)
                    });
                    match self.messages.inbox_mut().filled(copied.unwrap_or(0)) {
                        InboxStep::Nothing => {
                            if let Some(message) = self.messages.inbox_mut().pop_message() {
                                self.release(message.location, MessageClass::Caller);
                            }
                            continue;
                        }
                        step => step,
                    }
                }
                step => step,
            };
            match step {
                InboxStep::Nothing | InboxStep::Fill { .. } | InboxStep::Skip(_) => return,
                InboxStep::Complete(receive, outcome, message) => {
                    if let Some(message) = message {
                        self.release(message.location, MessageClass::Caller);
                    }
                    self.completions.finish(receive, outcome);
                }
                InboxStep::ProtocolError => {
                    return self.fail_link(
                        Failure::ProtocolError,
                        "the fragments of a message are inconsistent",
                    );
                }
            }
        }
    }

    /// Copies a message into a receive at an offset; returns the number of bytes copied.
    fn copy(&self, location: &PayloadLocation, into: &[Slice], from: u64) -> u64 {
        match location {
            PayloadLocation::Slot { rail, slot, payload } => {
                let slots = self.rails.lane(*rail).and_then(RailLane::slots);
                slots.map_or(0, |slots| slots.copy(*slot, *payload, into, from))
            }
            PayloadLocation::Copied { bytes, begin } => copy_bytes(&bytes[*begin..], into, from),
            PayloadLocation::CopiedFrom { bytes, .. } => copy_bytes(bytes, into, from),
        }
    }

    /// A copy of a payload.
    fn payload(&self, location: &PayloadLocation) -> Vec<u8> {
        match location {
            PayloadLocation::Slot { rail, slot, payload } => {
                let slots = self.rails.lane(*rail).and_then(RailLane::slots);
                slots.map(|slots| slots.payload(*slot, *payload)).unwrap_or_default()
            }
            PayloadLocation::Copied { bytes, begin } => bytes[*begin..].to_vec(),
            PayloadLocation::CopiedFrom { bytes, .. } => bytes.clone(),
        }
    }

    fn release(&mut self, location: PayloadLocation, class: MessageClass) {
        match location {
            PayloadLocation::Slot { rail, slot, .. } => self.free(rail, slot, class),
            PayloadLocation::CopiedFrom { rail, .. } => {
                if let Some(slots) = self.rails.lane_mut(rail).and_then(RailLane::slots_mut) {
                    slots.return_credit(class);
                }
            }
            PayloadLocation::Copied { bytes, .. } => self.packets.buffers.give_back(bytes),
        }
    }

    fn free(&mut self, rail: u8, slot: u32, class: MessageClass) {
        if let Some(slots) = self.rails.lane_mut(rail).and_then(RailLane::slots_mut) {
            slots.free(slot, class);
        }
    }
}

/// Copies bytes into slices at `offset`, as far as they fit; returns the number of bytes copied.
#[inline]
pub(super) fn copy_bytes(bytes: &[u8], into: &[Slice], offset: u64) -> u64 {
    if let ([only], 0) = (into, offset)
        && bytes.len() <= only.len()
    {
        only.region().memory().write(only.offset(), bytes);
        return bytes.len() as u64;
    }
    let mut copied = 0;
    for (region, run) in runs(into, offset, bytes.len() as u64) {
        region.memory().write(run.start, &bytes[copied..copied + run.len()]);
        copied += run.len();
    }
    copied as u64
}
