//! The client buffer: registered memory for requests, values and answers, leased in parts. The store reads and writes it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabric::{Memory, Region, Slice};
use kv_proto::wire::{Message, SlotBlock};

use crate::error::{Error, ErrorKind, Resource};

/// Registered memory that the store may read and write.
#[derive(Debug)]
pub(crate) struct ClientBuffer {
    region: Region,
    free: Mutex<Free>,
}

/// Free parts, in order; adjacent parts are merged.
#[derive(Debug)]
struct Free {
    parts: Vec<(usize, usize)>,
    /// The number of leases of a part beside the first, by its offset.
    shared: HashMap<usize, usize, BuildHasherDefault<OffsetHash>>,
}

/// A part of the client buffer. Batches keep theirs until the store has answered, and the values in it until they are dropped: the last
/// lease of a part frees it. Counted by the buffer, so that a lease needs no memory of its own.
#[derive(Debug)]
pub(crate) struct Lease {
    client_buffer: Arc<ClientBuffer>,
    offset: usize,
    length: usize,
}

impl ClientBuffer {
    pub(crate) fn new(region: Region) -> Arc<Self> {
        // Never leased: the slot block, and the one message that must be sent even when all else is in use.
        region.memory().write(SlotBlock::LENGTH, &Message::CHECK_SLOTS);
        let free = Free::new(RESERVED, region.len() - RESERVED);
        Arc::new(ClientBuffer { region, free: Mutex::new(free) })
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// The message that asks the store to check the request slots.
    pub(crate) fn check_slots_message(&self) -> Slice {
        self.region.slice(SlotBlock::LENGTH..SlotBlock::LENGTH + Message::CHECK_SLOTS.len())
    }

    /// Eight bytes for values that are not used.
    pub(crate) fn scratch(&self) -> Slice {
        self.region.slice(SlotBlock::LENGTH + 8..SlotBlock::LENGTH + 16)
    }

    pub(crate) fn memory(&self) -> &Memory {
        self.region.memory()
    }

    pub(crate) fn len(&self) -> usize {
        self.region.len()
    }

    /// Leases a part of at least this length.
    pub(crate) fn lease(self: &Arc<Self>, length: usize) -> Result<Lease, Error> {
        let length = length.max(1).next_multiple_of(ALIGNMENT);
        let taken = self.free().take(length);
        // Building the error needs the same lock, which is released here.
        let offset = taken.ok_or_else(|| self.exhausted(length))?;
        Ok(Lease { client_buffer: self.clone(), offset, length })
    }

    #[cold]
    fn exhausted(&self, length: usize) -> Error {
        let free = self.free().parts.iter().map(|part| part.1).sum::<usize>();
        let all = self.len() - RESERVED;
        let text = format!(
            "lease {length} bytes of the client buffer: {free} of {all} are free, not in one part — drop values \
             that are not needed, or raise client_buffer_bytes"
        );
        let kind = if length > all { ErrorKind::TooLong } else { ErrorKind::ClientLimit };
        Error::new(kind, text).of(Resource::ClientBuffer)
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Free {
    fn new(offset: usize, length: usize) -> Self {
        Free { parts: vec![(offset, length)], shared: HashMap::default() }
    }

    /// Counts more leases of a part.
    fn share(&mut self, offset: usize, more: usize) {
        if more > 0 {
            *self.shared.entry(offset).or_default() += more;
        }
    }

    /// Counts fewer leases of a part; `false` if there are not so many beside the first.
    fn unshare(&mut self, offset: usize, fewer: usize) -> bool {
        if self.shared.is_empty() {
            return false;
        }
        let Some(more) = self.shared.get_mut(&offset) else { return false };
        *more -= fewer;
        if *more == 0 {
            self.shared.remove(&offset);
        }
        true
    }

    /// The first part that is large enough, so that recently used memory is reused while it is in the caches.
    fn take(&mut self, length: usize) -> Option<usize> {
        let at = self.parts.iter().position(|part| part.1 >= length)?;
        let (offset, free) = self.parts[at];
        match free == length {
            true => drop(self.parts.remove(at)),
            false => self.parts[at] = (offset + length, free - length),
        }
        Some(offset)
    }

    fn release(&mut self, offset: usize, length: usize) {
        let at = self.parts.partition_point(|part| part.0 < offset);
        let follows = at > 0 && self.parts[at - 1].0 + self.parts[at - 1].1 == offset;
        let precedes = self.parts.get(at).is_some_and(|next| offset + length == next.0);
        match (follows, precedes) {
            (true, true) => {
                let (_, more) = self.parts.remove(at);
                self.parts[at - 1].1 += length + more;
            }
            (true, false) => self.parts[at - 1].1 += length,
            (false, true) => self.parts[at] = (offset, length + self.parts[at].1),
            (false, false) => self.parts.insert(at, (offset, length)),
        }
    }
}

impl Lease {
    pub(crate) fn client_buffer(&self) -> &ClientBuffer {
        &self.client_buffer
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// So many leases of the same part, counted at once.
    pub(crate) fn share(self, count: usize) -> SharedLeases {
        if count > 1 {
            self.client_buffer.free().share(self.offset, count - 1);
        }
        SharedLeases { lease: Some(self), left: count }
    }

    /// One that is counted already.
    fn counted(&self) -> Lease {
        let Lease { client_buffer, offset, length } = self;
        Lease { client_buffer: client_buffer.clone(), offset: *offset, length: *length }
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        self.client_buffer.free().share(self.offset, 1);
        self.counted()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut free = self.client_buffer.free();
        if !free.unshare(self.offset, 1) {
            free.release(self.offset, self.length);
        }
    }
}

/// A hash of offsets, which are our own, and multiples of [`ALIGNMENT`].
#[derive(Default)]
struct OffsetHash(u64);

impl Hasher for OffsetHash {
    fn write(&mut self, _: &[u8]) {}

    fn write_usize(&mut self, offset: usize) {
        // The map uses the highest and the lowest bits.
        self.0 = (offset as u64 / ALIGNMENT as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Leases of one part.
pub(crate) struct SharedLeases {
    lease: Option<Lease>,
    left: usize,
}

impl Iterator for SharedLeases {
    type Item = Lease;

    fn next(&mut self) -> Option<Lease> {
        self.left = self.left.checked_sub(1)?;
        match self.left {
            0 => self.lease.take(),
            _ => self.lease.as_ref().map(Lease::counted),
        }
    }
}

impl Drop for SharedLeases {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.as_ref().filter(|_| self.left > 1) {
            lease.client_buffer.free().unshare(lease.offset, self.left - 1);
        }
    }
}

const RESERVED: usize = SlotBlock::LENGTH + ALIGNMENT;
/// A cache line, so that leases do not share one.
const ALIGNMENT: usize = 64;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A client buffer that no store knows.
    pub(crate) fn client_buffer(length: usize) -> Arc<ClientBuffer> {
        let endpoint = fabric::link::Endpoint::new(Default::default()).unwrap();
        let memory = Memory::allocate(length, fabric::Pages::Plain).unwrap();
        ClientBuffer::new(endpoint.register(&memory, fabric::Rights::NONE).unwrap())
    }

    #[test]
    fn released_parts_are_merged() {
        let mut free = Free::new(0, 1024);
        let mut taken: Vec<usize> = (0..16).map(|_| free.take(64).unwrap()).collect();
        assert!(free.parts.is_empty() && free.take(64).is_none());
        for at in [3, 0, 7, 2, 9, 5, 5, 1, 0, 4, 3, 0, 1, 1, 0, 0] {
            let part = taken.remove(at % taken.len());
            free.release(part, 64);
        }
        assert_eq!(free.parts, [(0, 1024)]);
    }

    #[test]
    fn the_last_lease_of_a_part_frees_it() {
        let client_buffer = client_buffer(4096);
        let free = || client_buffer.free().parts.clone();
        let all = free();
        for (count, taken) in [(0, 0), (1, 0), (1, 1), (3, 0), (3, 1), (3, 2), (3, 3)] {
            let mut leases = client_buffer.lease(100).unwrap().share(count);
            let kept: Vec<Lease> = leases.by_ref().take(taken).collect();
            drop(leases);
            assert_eq!(free() == all, taken == 0, "{taken} of {count}");
            let clones = kept.clone();
            drop(kept);
            assert_eq!(free() == all, taken == 0, "clones of {taken} of {count}");
            drop(clones);
            assert_eq!(free(), all, "{taken} of {count}");
            assert!(client_buffer.free().shared.is_empty());
        }
    }

    #[test]
    fn a_lease_that_does_not_fit_is_busy_or_too_long() {
        let client_buffer = client_buffer(4096);
        let leases = client_buffer.lease(4000 - RESERVED).unwrap();
        assert_eq!(client_buffer.lease(100).unwrap_err().kind(), ErrorKind::ClientLimit);
        assert_eq!(client_buffer.lease(5000).unwrap_err().kind(), ErrorKind::TooLong);
        drop(leases);
        assert!(client_buffer.lease(4096 - RESERVED).is_ok());
    }

    /// Random leases never overlap, and in the end the buffer is one part again.
    #[test]
    fn leases_never_overlap() {
        let client_buffer = client_buffer(1 << 20);
        let (mut leases, mut seed) = (Vec::<Lease>::new(), 12345_u64);
        let mut chance = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % limit) as usize
        };
        for _ in 0..5000 {
            match chance(2) {
                0 if !leases.is_empty() => drop(leases.swap_remove(chance(leases.len() as u64))),
                _ => leases.extend(client_buffer.lease(chance(40_000)).ok()),
            }
            let mut parts: Vec<_> =
                leases.iter().map(|lease| (lease.offset(), lease.len())).collect();
            parts.sort_unstable();
            assert!(parts.first().is_none_or(|first| first.0 >= RESERVED));
            assert!(parts.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
            assert!(parts.iter().all(|part| part.0 % ALIGNMENT == 0 && part.1 > 0));
        }
        leases.clear();
        client_buffer.lease((1 << 20) - RESERVED).unwrap();
    }

    #[test]
    fn a_lease_outlives_the_client_that_made_it() {
        let lease = client_buffer(4096).lease(100).unwrap();
        lease.client_buffer().memory().write(lease.offset(), b"still here");
    }

    #[test]
    fn the_error_names_the_resource_and_the_setting() {
        let client_buffer = client_buffer(4096);
        let _lease = client_buffer.lease(3000).unwrap();
        let error = client_buffer.lease(2000).unwrap_err();
        assert_eq!(error.resource(), Some(Resource::ClientBuffer));
        assert!(error.to_string().contains("client_buffer_bytes"), "{error}");
    }

    #[test]
    fn the_first_part_that_fits_is_used() {
        let mut free = Free { parts: vec![(0, 64), (128, 256)], ..Free::new(0, 0) };
        assert_eq!(free.take(128), Some(128));
        assert_eq!(free.take(64), Some(0));
        assert_eq!(free.parts, [(256, 128)]);
    }
}
