//! Waking a peer that sleeps, and only then.
//!
//! Who sleeps says so and looks once more; who brings news looks whether the other sleeps. Each writes
//! before it reads, with a fence between: so at least one of them sees the other. The test at the end
//! tries every order.

/// A word of an end's control block that tells whether it sleeps.
pub(crate) trait Flag {
    fn store(&self, value: u32);
    fn load(&self) -> u32;
    /// Orders what was written before it and what is read after it, for everybody.
    fn fence();
}

/// Awake.
pub(crate) const AWAKE: u32 = 0;
/// Asleep until there is something to read.
pub(crate) const ASLEEP: u32 = 1;
/// Asleep until there is something to read, or room to write.
pub(crate) const ASLEEP_FOR_ROOM: u32 = 2;

/// Says that its owner is about to sleep. It must look for news after this, and sleep if there is none.
pub(crate) fn announce<F: Flag>(own: &F, state: u32) {
    own.store(state);
    F::fence();
}

/// Whether the peer must be woken, after something was written for it to read (`news`), or room was
/// made for it to write.
pub(crate) fn must_wake<F: Flag>(peer: &F, news: bool) -> bool {
    F::fence();
    match peer.load() {
        AWAKE => false,
        ASLEEP => news,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    use loom::sync::{Arc, Condvar, Mutex};

    impl Flag for AtomicU32 {
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

    /// What the socket does: remembers that it was rung until somebody looks.
    #[derive(Default)]
    struct Signal {
        rung: Mutex<bool>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct World {
        tail: AtomicU64,
        sleeping: AtomicU32,
        signal: Signal,
    }

    /// In every order of steps, whoever sleeps for two messages gets both: loom reports a sleep that
    /// nobody ends as a deadlock.
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
                        *producer.signal.rung.lock().unwrap() = true;
                        producer.signal.changed.notify_one();
                    }
                }
            });
            loop {
                let seen = world.tail.load(Ordering::Acquire);
                if seen == 2 {
                    break;
                }
                // As in `ShmLane::arm`: forget old rings, announce, look again, sleep.
                *world.signal.rung.lock().unwrap() = false;
                announce(&world.sleeping, ASLEEP);
                if world.tail.load(Ordering::Acquire) == seen {
                    let mut rung = world.signal.rung.lock().unwrap();
                    while !*rung {
                        rung = world.signal.changed.wait(rung).unwrap();
                    }
                }
                Flag::store(&world.sleeping, AWAKE);
            }
            thread.join().unwrap();
        });
    }

    #[test]
    fn room_wakes_only_who_waits_for_it() {
        loom::model(|| {
            for (state, news, woken) in [
                (AWAKE, true, false),
                (ASLEEP, true, true),
                (ASLEEP, false, false),
                (ASLEEP_FOR_ROOM, true, true),
                (ASLEEP_FOR_ROOM, false, true),
            ] {
                let flag = AtomicU32::new(AWAKE);
                announce(&flag, state);
                assert_eq!(must_wake(&flag, news), woken);
            }
        });
    }
}
