//! Registered memory, and the rights of peers.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::memory::Memory;
use crate::registration::Registration;

/// What peers may do with a region. Its owner may always read and write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rights {
    /// Peers may read it.
    pub read: bool,
    /// Peers may write it.
    pub write: bool,
    /// Peers may add to it, and compare and swap, eight bytes at a time.
    pub atomic: bool,
}

impl Rights {
    /// Only the owner has access.
    pub const NONE: Rights = Rights { read: false, write: false, atomic: false };
    /// Everything.
    pub const ALL: Rights = Rights { read: true, write: true, atomic: true };

    /// The bits of the wire format.
    pub(crate) fn bits(self) -> u8 {
        u8::from(self.read) | u8::from(self.write) << 1 | u8::from(self.atomic) << 2
    }

    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        (bits < 8).then_some(Rights {
            read: bits & 1 != 0,
            write: bits & 2 != 0,
            atomic: bits & 4 != 0,
        })
    }

    /// Whether everything `wanted` is allowed.
    pub(crate) fn allow(self, wanted: Rights) -> bool {
        self.bits() & wanted.bits() == wanted.bits()
    }
}

/// Registered memory. Clones share the registration; when the last one is dropped, peers that were
/// granted the region are refused. (Over verbs, when the last region of the same memory and rights is dropped: they
/// have one key, for all lanes of the device.)
#[derive(Clone)]
pub struct Region {
    inner: Arc<Inner>,
}

struct Inner {
    memory: Memory,
    rights: Rights,
    registration: Registration,
    /// Hooks to call when the region is dropped, each with its key.
    granted: Mutex<Vec<(Weak<dyn RevokeHook>, u128)>>,
}

/// Called when a region is dropped, to revoke a grant of it.
pub(crate) trait RevokeHook: Send + Sync {
    /// Revokes the grant with this key; if its lane shares memory with the peer, the peer does not access it any more
    /// after this returns.
    fn revoke(&self, key: u128, memory: &Memory);
}

impl Region {
    pub(crate) fn new(memory: Memory, rights: Rights, registration: Registration) -> Self {
        Region {
            inner: Arc::new(Inner { memory, rights, registration, granted: Mutex::default() }),
        }
    }

    /// Memory for lanes of several fabrics: usable directly by those without a device, by others after
    /// [`attach`](crate::Fabric::attach). Fabrics may be opened and dropped while it lives.
    pub fn shared(memory: &Memory, rights: Rights) -> Self {
        Region::new(memory.clone(), rights, Registration::Shared(Box::default()))
    }

    /// Memory that only peers on this host may access, read-only and by mapping it: a link grants it over
    /// shared memory or not at all.
    pub fn same_host(memory: &Memory) -> Self {
        let rights = Rights { read: true, ..Rights::NONE };
        Region::new(memory.clone(), rights, Registration::SameHost)
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        &self.inner.memory
    }

    /// What peers may do with it.
    pub fn rights(&self) -> Rights {
        self.inner.rights
    }

    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "memory is never empty")]
    pub fn len(&self) -> usize {
        self.inner.memory.len()
    }

    /// A part of it, for an operation.
    ///
    /// # Panics
    /// If the range is out of bounds, as for slices.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Slice {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => *start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => *end + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len(),
        };
        assert!(start <= end && end <= self.len(), "{start}..{end} of a region of {}", self.len());
        Slice { region: self.clone(), offset: start, length: end - start }
    }

    /// Whether both use one registration, like regions of the same memory and rights; for a shared
    /// region, any of its registrations counts.
    pub fn shares_registration(&self, other: &Region) -> bool {
        use Registration::{Ofi, SameHost, Shared, Software, Verbs};
        Arc::ptr_eq(&self.inner, &other.inner)
            || match (self.registration(), other.registration()) {
                (Verbs(ours), Verbs(theirs)) => Arc::ptr_eq(ours, theirs),
                (Verbs(one), Shared(keys)) | (Shared(keys), Verbs(one)) => keys.verbs.contains(one),
                (Ofi(ours), Ofi(theirs)) => Arc::ptr_eq(ours, theirs),
                (Ofi(one), Shared(keys)) | (Shared(keys), Ofi(one)) => keys.ofi.contains(one),
                (Shared(ours), Shared(theirs)) => {
                    ours.verbs.shares_any(&theirs.verbs) || ours.ofi.shares_any(&theirs.ofi)
                }
                (Verbs(_), Ofi(_)) | (Ofi(_), Verbs(_)) => false,
                (Software | SameHost, _) | (_, Software | SameHost) => false,
            }
    }

    pub(crate) fn registration(&self) -> &Registration {
        &self.inner.registration
    }

    /// Records a grant, and removes those of dropped lanes.
    pub(crate) fn add_grant(&self, by: Weak<dyn RevokeHook>, key: u128) {
        let mut granted = self.inner.granted.lock().unwrap_or_else(PoisonError::into_inner);
        granted.retain(|(by, _)| by.strong_count() > 0);
        granted.push((by, key));
    }

    /// Whether there is no other clone of it, nor a slice.
    pub(crate) fn is_unique(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    pub(crate) fn downgrade(&self) -> WeakRegion {
        WeakRegion(Arc::downgrade(&self.inner))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let granted = self.granted.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (by, key) in granted.drain(..) {
            if let Some(by) = by.upgrade() {
                by.revoke(key, &self.memory);
            }
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { memory, rights, .. } = &*self.inner;
        f.debug_struct("Region").field("memory", memory).field("rights", rights).finish()
    }
}

/// A region that may have been dropped.
#[derive(Clone)]
pub(crate) struct WeakRegion(Weak<Inner>);

impl WeakRegion {
    pub(crate) fn upgrade(&self) -> Option<Region> {
        Some(Region { inner: self.0.upgrade()? })
    }

    pub(crate) fn gone() -> Self {
        WeakRegion(Weak::new())
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    pub(crate) fn is(&self, region: &Region) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&region.inner))
    }
}

/// Consecutive bytes of a region. Owns a clone of the region, so that memory in flight stays registered.
#[derive(Debug, Clone)]
pub struct Slice {
    region: Region,
    offset: usize,
    length: usize,
}

impl Slice {
    /// The region it is part of.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Its offset in the region.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The same start with another length.
    ///
    /// # Panics
    /// If that is out of the region's bounds.
    #[track_caller]
    pub(crate) fn resized(self, length: usize) -> Slice {
        assert!(length <= self.region.len() - self.offset, "{length} bytes at {}", self.offset);
        Slice { length, ..self }
    }

    /// Copies its bytes out.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.region.memory().read(self.offset, &mut bytes);
        bytes
    }

    /// The address of its bytes; valid as long as the slice lives.
    #[inline]
    pub(crate) fn address(&self) -> *mut u8 {
        // In bounds by `Region::slice`.
        self.region.memory().address().wrapping_add(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Pages;

    #[test]
    fn rights_are_decoded_from_their_bits() {
        for bits in 0..8 {
            assert_eq!(Rights::from_bits(bits).unwrap().bits(), bits);
        }
        assert_eq!(Rights::from_bits(8), None);
        assert!(Rights::ALL.allow(Rights::NONE) && !Rights::NONE.allow(Rights::ALL));
    }

    #[test]
    fn the_last_clone_revokes_once() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let region = Region::new(memory, Rights::ALL, Registration::Software);
        let (revoked, gone) = std::sync::mpsc::channel();
        let lane: Arc<dyn RevokeHook> = Arc::new(Recorder(Mutex::new(revoked)));
        region.add_grant(Arc::downgrade(&lane), 7);
        let slice = region.slice(10..20);
        let weak = region.downgrade();
        drop(region);
        assert!(gone.try_recv().is_err() && !weak.is_gone());
        drop(slice);
        assert!(gone.try_recv() == Ok(7) && weak.upgrade().is_none());
        assert!(gone.try_recv().is_err(), "revoked twice");
    }

    struct Recorder(Mutex<std::sync::mpsc::Sender<u128>>);

    impl RevokeHook for Recorder {
        fn revoke(&self, key: u128, _: &Memory) {
            self.0.lock().unwrap().send(key).unwrap();
        }
    }

    #[test]
    fn a_new_shared_region_shares_a_registration_only_with_itself() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let [one, other] = [(); 2].map(|()| Region::shared(&memory, Rights::ALL));
        let software = Region::new(memory, Rights::ALL, Registration::Software);
        assert!(one.shares_registration(&one.clone()) && software.shares_registration(&software));
        assert!(!one.shares_registration(&other) && !one.shares_registration(&software));
        assert!(one.downgrade().is(&one.clone()) && !one.downgrade().is(&other));
    }

    #[test]
    fn grants_of_dropped_lanes_are_removed() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let region = Region::new(memory, Rights::ALL, Registration::Software);
        for key in 0..100 {
            let lane: Arc<dyn RevokeHook> =
                Arc::new(Recorder(Mutex::new(std::sync::mpsc::channel().0)));
            region.add_grant(Arc::downgrade(&lane), key);
        }
        assert_eq!(region.inner.granted.lock().unwrap().len(), 1);
    }

    #[test]
    #[should_panic(expected = "4..4097 of a region of 4096")]
    fn a_slice_out_of_bounds_panics() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        Region::new(memory, Rights::NONE, Registration::Software).slice(4..=4096);
    }
}
