//! Waking a peer only if it sleeps.
//!
//! An end that is going to sleep sets its flag and polls once more; an end that has written data checks the
//! other's flag. Each writes before it reads, with a fence between: so at least one of them sees the other.
//! The test below tries every order.

/// A word of an end's control block: whether it sleeps.
pub(crate) trait SleepFlag {
    fn store(&self, value: u32);
    fn load(&self) -> u32;
    /// A sequentially consistent fence.
    fn fence();
}

/// Awake.
pub(crate) const AWAKE: u32 = 0;
/// Asleep until there is something to read.
pub(crate) const ASLEEP: u32 = 1;
/// Asleep until there is something to read, or space to write.
pub(crate) const ASLEEP_FOR_SPACE: u32 = 2;

/// Announces that its owner is about to sleep. The owner must check for data after this, and sleep only if there is none.
pub(crate) fn announce<F: SleepFlag>(own: &F, state: u32) {
    own.store(state);
    F::fence();
}

/// Whether the peer must be woken, after data was written for it (`has_data`), or space was
/// freed for it to write.
pub(crate) fn must_wake<F: SleepFlag>(peer: &F, has_data: bool) -> bool {
    F::fence();
    match peer.load() {
        AWAKE => false,
        ASLEEP => has_data,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    use loom::sync::{Arc, Condvar, Mutex};

    impl SleepFlag for AtomicU32 {
        fn store(&self, value: u32) {
            AtomicU32::store(self, value, Ordering::Relaxed);
        }

        fn load(&self) -> u32 {
            AtomicU32::load(self, Ordering::Relaxed)
        }

        fn fence() {
            fence(Ordering::SeqCst);
        }
    }

    /// A model of the socket: a wakeup stays pending until it is read.
    #[derive(Default)]
    struct Signal {
        pending: Mutex<bool>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct World {
        tail: AtomicU64,
        sleeping: AtomicU32,
        signal: Signal,
    }

    /// In every order of steps, a receiver that sleeps between two messages gets both: loom reports a lost
    /// wake-up as a deadlock.
    #[test]
    fn no_order_of_steps_loses_a_wake_up() {
        let mut every_order = loom::model::Builder::new();
        // More switches between the two threads than any lost wake-up needs; all of them take minutes.
        every_order.preemption_bound = Some(3);
        every_order.check(|| {
            let world = Arc::new(World::default());
            let producer = Arc::clone(&world);
            let thread = loom::thread::spawn(move || {
                for message in 1..=2 {
                    producer.tail.store(message, Ordering::Release);
                    if must_wake(&producer.sleeping, true) {
                        *producer.signal.pending.lock().unwrap() = true;
                        producer.signal.changed.notify_one();
                    }
                }
            });
            loop {
                let seen = world.tail.load(Ordering::Acquire);
                if seen == 2 {
                    break;
                }
                // As in `ShmLane::arm`: discard old wakeups, announce, check again, sleep.
                *world.signal.pending.lock().unwrap() = false;
                announce(&world.sleeping, ASLEEP);
                if world.tail.load(Ordering::Acquire) == seen {
                    let mut pending = world.signal.pending.lock().unwrap();
                    while !*pending {
                        pending = world.signal.changed.wait(pending).unwrap();
                    }
                }
                SleepFlag::store(&world.sleeping, AWAKE);
            }
            thread.join().unwrap();
        });
    }

    #[test]
    fn free_space_wakes_only_a_peer_that_waits_for_it() {
        loom::model(|| {
            for (state, has_data, woken) in [
                (AWAKE, true, false),
                (ASLEEP, true, true),
                (ASLEEP, false, false),
                (ASLEEP_FOR_SPACE, true, true),
                (ASLEEP_FOR_SPACE, false, true),
            ] {
                let flag = AtomicU32::new(AWAKE);
                announce(&flag, state);
                assert_eq!(must_wake(&flag, has_data), woken);
            }
        });
    }
}
