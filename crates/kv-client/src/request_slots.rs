//! Our request slots: requests and answers without a message, for a store that polls them. [`SlotBlock`]'s file has both sides.

use std::sync::atomic::{self, Ordering};

use fabric::Memory;
use kv_proto::wire::{RequestSlot, SlotBlock};

use crate::pending_batches::PendingBatch;

/// Our side of the slot block.
pub(crate) struct RequestSlots {
    /// The slot sequence of the last slot.
    last: u64,
    /// Announced batches without an answer, by slot.
    announced: [Option<PendingSlot>; SlotBlock::SLOTS],
    count: usize,
    asleep: bool,
}

#[derive(Clone, Copy)]
struct PendingSlot {
    tag: u32,
    slot_sequence: u64,
    /// The offset of its completion flag.
    completion_flag: usize,
}

/// The words of a client buffer, which a test replaces.
pub(crate) trait Words {
    /// Acquire.
    fn load(&self, at: usize) -> u64;
    /// Release.
    fn store(&self, at: usize, word: u64);
    /// Sequentially consistent: no load after it precedes a store before it.
    fn fence();
}

impl Words for Memory {
    #[inline]
    fn load(&self, at: usize) -> u64 {
        Memory::load(self, at)
    }

    #[inline]
    fn store(&self, at: usize, word: u64) {
        Memory::store(self, at, word);
    }

    #[inline]
    fn fence() {
        atomic::fence(Ordering::SeqCst);
    }
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
    pub(crate) fn new(memory: &Memory) -> Self {
        memory.write(0, &[0; SlotBlock::LENGTH]);
        RequestSlots { last: 0, announced: [None; SlotBlock::SLOTS], count: 0, asleep: false }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Announces a batch in a slot.
    #[inline]
    pub(crate) fn announce<W: Words>(
        &mut self,
        words: &W,
        tag: u32,
        batch: &PendingBatch,
    ) -> Announced {
        let polls = || words.load(SlotBlock::STORE) == SlotBlock::SET;
        let slot_sequence = self.last + 1;
        let place = (slot_sequence % SlotBlock::SLOTS as u64) as usize;
        let (at, length) = batch.position();
        if length > usize::from(u16::MAX) || self.announced[place].is_some() || !polls() {
            return Announced::NotPolled;
        }
        self.last = slot_sequence;
        let completion_flag = batch.completion_flag();
        self.announced[place] = Some(PendingSlot { tag, slot_sequence, completion_flag });
        words.store(completion_flag, 0);
        self.count += 1;
        let at = (at / RequestSlot::UNIT) as u32;
        let slot = RequestSlot { slot_sequence: slot_sequence as u16, length: length as u16, at };
        words.store(SlotBlock::slot(slot_sequence), slot.to_word());
        // The store stops polling and then polls once more; we fill a slot and then check whether the store still polls.
        // So at least one of the two sees the other's write.
        W::fence();
        if polls() { Announced::Polled } else { Announced::NeedsWakeup }
    }

    /// The tag of a batch that was answered.
    #[inline]
    pub(crate) fn completed(&mut self, words: &impl Words) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        for announced in &mut self.announced {
            if let Some(PendingSlot { tag, slot_sequence, completion_flag }) = *announced
                && words.load(completion_flag) == slot_sequence
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
    pub(crate) fn publish_consumed(&self, words: &impl Words) {
        let oldest = self.announced.iter().flatten().map(|announced| announced.slot_sequence).min();
        words.store(SlotBlock::CONSUMED, oldest.map_or(self.last, |oldest| oldest - 1));
    }

    /// Publishes that we are about to sleep; `false`: a flag is set already.
    pub(crate) fn sleep<W: Words>(&mut self, words: &W) -> bool {
        if self.count == 0 {
            return true;
        }
        words.store(SlotBlock::CLIENT, SlotBlock::SET);
        self.asleep = true;
        // The store sets a flag and then checks whether we sleep.
        W::fence();
        let is_set = |announced: &PendingSlot| {
            words.load(announced.completion_flag) == announced.slot_sequence
        };
        let any = self.announced.iter().flatten().any(is_set);
        if any {
            self.wake(words);
        }
        !any
    }

    /// We are awake.
    #[inline]
    pub(crate) fn wake(&mut self, words: &impl Words) {
        if std::mem::take(&mut self.asleep) {
            words.store(SlotBlock::CLIENT, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering, fence};
    use loom::thread;

    use super::*;
    use crate::client_buffer::tests::client_buffer;

    /// The words of a slot block with one batch.
    struct Block {
        client: AtomicU64,
        slot: AtomicU64,
        store: AtomicU64,
        flag: AtomicU64,
    }

    impl Block {
        /// With a store that polls.
        fn polled() -> Arc<Self> {
            let [client, slot, flag] = [(); 3].map(|()| AtomicU64::new(0));
            Arc::new(Block { client, slot, store: AtomicU64::new(SlotBlock::SET), flag })
        }

        fn word(&self, at: usize) -> &AtomicU64 {
            match at {
                SlotBlock::CLIENT => &self.client,
                SlotBlock::STORE => &self.store,
                _ if at == SlotBlock::slot(1) => &self.slot,
                _ => &self.flag,
            }
        }

        /// As the store: an operation writes a word, and after it `SlotPoller::read_client_line` reads the client's line.
        fn write_and_read_line(&self, write: &AtomicU64, word: u64) -> (u64, RequestSlot) {
            write.store(word, Ordering::Release);
            fence(Ordering::SeqCst);
            let state = self.client.load(Ordering::Relaxed);
            (state, RequestSlot::from_word(self.slot.load(Ordering::Relaxed)))
        }
    }

    impl Words for Block {
        fn load(&self, at: usize) -> u64 {
            self.word(at).load(Ordering::Acquire)
        }

        fn store(&self, at: usize, word: u64) {
            self.word(at).store(word, Ordering::Release);
        }

        fn fence() {
            fence(Ordering::SeqCst);
        }
    }

    fn slots() -> RequestSlots {
        RequestSlots { last: 0, announced: [None; SlotBlock::SLOTS], count: 0, asleep: false }
    }

    fn batch() -> PendingBatch {
        PendingBatch::new(client_buffer(8192).lease(1024).unwrap(), 100, Vec::new())
    }

    /// In every order of the steps of both, a store that stops polling sees the slot, or the client sees that it stopped.
    #[test]
    fn no_order_of_steps_misses_a_batch() {
        let batch = std::sync::Arc::new(batch());
        loom::model(move || {
            let block = Block::polled();
            let store = Arc::clone(&block);
            let stop = thread::spawn(move || store.write_and_read_line(&store.store, 0).1);
            let announced = slots().announce(&*block, 0, &batch);
            let is_seen = stop.join().unwrap().slot_sequence == 1;
            match announced {
                Announced::Polled => assert!(is_seen, "a batch that nobody serves"),
                Announced::NotPolled => assert!(!is_seen, "a batch in a slot and in a message"),
                Announced::NeedsWakeup => {}
            }
        });
    }

    /// In every order of the steps of both, a client that goes to sleep sees the flag, or the store sees that it sleeps.
    #[test]
    fn no_order_of_steps_misses_an_answer() {
        let batch = std::sync::Arc::new(batch());
        loom::model(move || {
            let block = Block::polled();
            let mut slots = slots();
            assert_eq!(slots.announce(&*block, 0, &batch), Announced::Polled);
            let store = Arc::clone(&block);
            let complete = thread::spawn(move || store.write_and_read_line(&store.flag, 1).0);
            let sleeps = slots.sleep(&*block);
            let is_woken = complete.join().unwrap() == SlotBlock::SET;
            assert!(!sleeps || is_woken, "a client that nobody wakes");
            slots.wake(&*block);
            assert_eq!(slots.completed(&*block), Some(0));
        });
    }
}
