//! Our request slots: requests and answers without a message, for a store that polls them.

use std::sync::atomic::{Ordering, fence};

use kv_proto::wire::{RequestSlot, SlotBlock};

use crate::client_buffer::ClientBuffer;
use crate::pending_batches::PendingBatch;

/// Our side of the slot block.
pub(crate) struct RequestSlots {
    /// The sequence of the last slot.
    last: u64,
    /// Announced batches without an answer, by slot.
    announced: [Option<PendingSlot>; SlotBlock::SLOTS],
    count: usize,
    asleep: bool,
}

#[derive(Clone, Copy)]
struct PendingSlot {
    tag: u32,
    sequence: u64,
    /// The offset of its completion flag.
    completion_flag: usize,
}

/// The result of announcing a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// The store polls the slots.
    Polled,
    /// The store stopped polling meanwhile, and needs a message.
    NeedsWakeup,
    /// The store does not poll, or no slot is free: nothing was announced.
    NotPolled,
}

impl RequestSlots {
    /// An empty slot block, for a connection that is about to be opened.
    pub(crate) fn new(client_buffer: &ClientBuffer) -> Self {
        client_buffer.memory().write(0, &[0; SlotBlock::LENGTH]);
        RequestSlots { last: 0, announced: [None; SlotBlock::SLOTS], count: 0, asleep: false }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Announces a batch in a slot.
    #[inline]
    pub(crate) fn announce(
        &mut self,
        client_buffer: &ClientBuffer,
        tag: u32,
        batch: &PendingBatch,
    ) -> Announced {
        let memory = client_buffer.memory();
        let polls = || memory.load(SlotBlock::STORE) == SlotBlock::SET;
        let sequence = self.last + 1;
        let place = (sequence % SlotBlock::SLOTS as u64) as usize;
        let (at, length) = batch.position();
        if length > usize::from(u16::MAX) || self.announced[place].is_some() || !polls() {
            return Announced::NotPolled;
        }
        self.last = sequence;
        let completion_flag = batch.completion_flag();
        self.announced[place] = Some(PendingSlot { tag, sequence, completion_flag });
        memory.store(completion_flag, 0);
        self.count += 1;
        let at = (at / RequestSlot::UNIT) as u32;
        let slot = RequestSlot { sequence: sequence as u16, length: length as u16, at };
        memory.store(SlotBlock::slot(sequence), slot.to_word());
        // The store stops polling and then polls once more; we fill a slot and then check whether the store still polls.
        // So at least one of the two sees the other's write.
        fence(Ordering::SeqCst);
        if polls() { Announced::Polled } else { Announced::NeedsWakeup }
    }

    /// The tag of a batch that was answered.
    #[inline]
    pub(crate) fn completed(&mut self, client_buffer: &ClientBuffer) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        for announced in &mut self.announced {
            if let Some(PendingSlot { tag, sequence, completion_flag }) = *announced
                && client_buffer.memory().load(completion_flag) == sequence
            {
                *announced = None;
                self.count -= 1;
                return Some(tag);
            }
        }
        None
    }

    /// Publishes that all answers before the oldest announced batch were consumed: the store releases the values pinned for
    /// them.
    #[inline]
    pub(crate) fn publish_consumed(&self, client_buffer: &ClientBuffer) {
        let oldest = self.announced.iter().flatten().map(|announced| announced.sequence).min();
        client_buffer
            .memory()
            .store(SlotBlock::CONSUMED, oldest.map_or(self.last, |oldest| oldest - 1));
    }

    /// Publishes that we are about to sleep; `false`: a flag is set already.
    pub(crate) fn sleep(&mut self, client_buffer: &ClientBuffer) -> bool {
        if self.count == 0 {
            return true;
        }
        client_buffer.memory().store(SlotBlock::CLIENT, SlotBlock::SET);
        self.asleep = true;
        fence(Ordering::SeqCst);
        let is_set = |announced: &PendingSlot| {
            client_buffer.memory().load(announced.completion_flag) == announced.sequence
        };
        let any = self.announced.iter().flatten().any(is_set);
        if any {
            self.wake(client_buffer);
        }
        !any
    }

    /// We are awake.
    #[inline]
    pub(crate) fn wake(&mut self, client_buffer: &ClientBuffer) {
        if std::mem::take(&mut self.asleep) {
            client_buffer.memory().store(SlotBlock::CLIENT, 0);
        }
    }
}
