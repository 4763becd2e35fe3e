//! Registered memory for messages that no lane uses at present.

use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::region::Region;

/// The memory of one direction. Filled when the first lane needs some; lanes beyond it register their own.
#[derive(Debug)]
pub(super) struct MessageMemory {
    max_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    regions: Vec<Region>,
    filled: bool,
}

impl MessageMemory {
    pub(super) fn new(max_bytes: usize) -> Self {
        MessageMemory { max_bytes, kept: Mutex::default() }
    }

    /// The memory of one lane. `may_fill`: whether this many bytes can be registered and leave enough for others.
    pub(super) fn take(
        &self,
        bytes: usize,
        register: impl Fn() -> Result<Region, Error>,
        may_fill: impl FnOnce(usize) -> bool,
    ) -> Result<Region, Error> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut kept.filled, true) && may_fill(self.max_bytes) {
            // Those that cannot be registered are left out: the lane that needs one reports the error.
            kept.regions =
                (0..self.max_bytes / bytes.max(1)).map_while(|_| register().ok()).collect();
        }
        // All lanes of an endpoint need the same.
        match kept.regions.iter().position(|region| region.len() >= bytes) {
            Some(at) => Ok(kept.regions.swap_remove(at)),
            None => {
                drop(kept);
                register()
            }
        }
    }

    /// Keeps the memory of a lane that has ended, which nobody uses, or frees it if there is enough.
    pub(super) fn put(&self, region: Region) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: usize = kept.regions.iter().map(Region::len).sum();
        if bytes + region.len() <= self.max_bytes {
            kept.regions.push(region);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::memory::{Memory, Pages};
    use crate::region::Rights;
    use crate::setup::register_software;

    #[test]
    fn memory_is_registered_at_once_and_used_again() {
        let registered = Cell::new(0);
        let register = || {
            registered.set(registered.get() + 1);
            Ok(register_software(&Memory::allocate(4096, Pages::Plain)?, Rights::NONE))
        };
        let memory = MessageMemory::new(3 * 4096 + 5);
        let take = || memory.take(4096, register, |_| true).unwrap();
        let lanes = [take(), take(), take()];
        assert_eq!(registered.get(), 3);
        let beyond = take();
        assert_eq!(registered.get(), 4, "more lanes register their own");
        lanes.into_iter().for_each(|region| memory.put(region));
        memory.put(beyond);
        let again: Vec<Region> = (0..3).map(|_| take()).collect();
        assert_eq!(registered.get(), 4);
        take();
        assert_eq!(registered.get(), 5, "no more is kept than allowed");
        drop(again);

        let limited = MessageMemory::new(3 * 4096);
        limited.take(4096, register, |_| false).unwrap();
        assert_eq!(registered.get(), 6, "not filled where locked memory is scarce");
    }
}
