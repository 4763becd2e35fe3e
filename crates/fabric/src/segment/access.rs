//! Access to a grant that its owner may revoke at the same time.
//!
//! The accessing end announces the access and then checks the grant; the owner revokes the grant and then looks for an
//! announced access. Each writes before it reads, with a fence between: so at least one of them sees the other. The test
//! below tries every order.
//!
//! Each word is in pages that the reading end cannot write. Only relaxed loads are defined there, so fences order them.

use std::sync::atomic::Ordering;

/// A word that one end writes and the other reads.
pub(crate) trait Word {
    type Value: Copy + PartialEq;
    /// Release: the mark of an access comes after what was written during the one before it.
    fn store(&self, value: Self::Value);
    /// Relaxed.
    fn load(&self) -> Self::Value;
    fn fence(ordering: Ordering);
}

/// Announces an access; [`is_granted`] must follow.
#[inline]
pub(crate) fn announce<W: Word>(own: &W, mark: W::Value) {
    own.store(mark);
    W::fence(Ordering::SeqCst);
}

/// Whether the peer's grant is valid. After [`announce`]: then it stays so for its owner, until the access ends.
#[inline]
pub(crate) fn is_granted<W: Word>(peer: &W, generation: W::Value) -> bool {
    let granted = peer.load() == generation;
    W::fence(Ordering::Acquire);
    granted
}

/// The mark of the access that the peer has announced. After a grant was revoked.
pub(crate) fn announced<W: Word>(peer: &W) -> W::Value {
    W::fence(Ordering::SeqCst);
    let mark = peer.load();
    // What the peer wrote during its last access was written before its end.
    W::fence(Ordering::Acquire);
    mark
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering, fence};

    impl Word for AtomicU64 {
        type Value = u64;

        fn load(&self) -> u64 {
            AtomicU64::load(self, Ordering::Relaxed)
        }

        fn store(&self, value: u64) {
            AtomicU64::store(self, value, Ordering::Release);
        }

        fn fence(ordering: Ordering) {
            fence(ordering);
        }
    }

    /// The memory of a grant, the grant, and the peer's access.
    #[derive(Default)]
    struct World {
        memory: AtomicU64,
        grant: AtomicU64,
        access: AtomicU64,
    }

    /// In every order of steps, nothing is written to memory that its owner has reused after a revocation.
    #[test]
    fn no_order_of_steps_accesses_revoked_memory() {
        const GRANT: u64 = 7;
        const OTHER_GRANT: u64 = 8;
        const BY_PEER: u64 = 1;
        const BY_OWNER: u64 = 2;
        loom::model(|| {
            let world = Arc::new(World { grant: AtomicU64::new(GRANT), ..World::default() });
            let peer = Arc::clone(&world);
            let thread = loom::thread::spawn(move || {
                announce(&peer.access, GRANT);
                if is_granted(&peer.grant, GRANT) {
                    peer.memory.store(BY_PEER, Ordering::Relaxed);
                }
                peer.access.store(0, Ordering::Release);
                // The next access, which the owner may see instead of the end of this one.
                announce(&peer.access, OTHER_GRANT);
            });
            Word::store(&world.grant, 0);
            // As `Revoker::wait_for`.
            while announced(&world.access) == GRANT {
                loom::thread::yield_now();
            }
            Word::store(&world.memory, BY_OWNER);
            thread.join().unwrap();
            assert_eq!(Word::load(&world.memory), BY_OWNER);
        });
    }
}
