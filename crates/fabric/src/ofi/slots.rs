//! The buffers that receive the peer's frames.
//!
//! Unsafe here: a provider writes to memory that `Slots` owns. The lane closes the endpoint before it
//! drops `Slots`.
#![allow(unsafe_code, reason = "posts receives")]

use std::sync::Arc;

use rdma_sys::Errno;

use super::contexts::Contexts;
use super::endpoint::Endpoint;
use super::failure::error;
use super::fid_domain::FidDomain;
use super::frame::HEADER_BYTES;
use super::mr;
use crate::error::Error;
use crate::memory::{Memory, Pages};
use crate::region::Rights;
use crate::registration::ofi::Mr;

pub(super) struct Slots {
    mr: Arc<Mr>,
    contexts: Arc<Contexts>,
    /// Neither posted nor in use.
    unposted: Vec<u32>,
}

impl Slots {
    /// Slots in addition to the peer's credit: for frames that use no credit, and for slots whose posting is deferred.
    pub(super) const SPARE_SLOTS: usize = 20 + MAX_DEFERRED_SLOTS;
    /// The length of a slot, including the header: the maximum that ofi_rxm sends eagerly, without rendezvous.
    pub(super) const SLOT_BYTES: usize = 16 * 1024;

    pub(super) fn new(fid_domain: &Arc<FidDomain>, count: usize) -> Result<Self, Error> {
        let memory = Memory::allocate(count * Self::SLOT_BYTES, Pages::Plain)?;
        let mr = Arc::new(mr::register(fid_domain.clone(), &memory, Rights::NONE)?);
        Ok(Slots {
            mr,
            contexts: Arc::new(Contexts::new(count)),
            unposted: (0..count as u32).rev().collect(),
        })
    }

    /// The resources that the endpoint uses as long as it is open.
    pub(super) fn used(&self) -> (Arc<Mr>, Arc<Contexts>) {
        (self.mr.clone(), self.contexts.clone())
    }

    pub(super) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// The number of slots that the peer's frames may occupy: its credit.
    pub(super) fn credit(&self) -> u64 {
        (self.contexts.len() - Self::SPARE_SLOTS) as u64
    }

    /// Whether some slots are not posted.
    pub(super) fn has_unposted(&self) -> bool {
        !self.unposted.is_empty()
    }

    /// Whether so many slots are unposted that posting must not be deferred.
    #[inline]
    pub(super) fn must_post(&self) -> bool {
        self.unposted.len() > MAX_DEFERRED_SLOTS
    }

    /// Posts the unposted slots, as many as the provider accepts.
    #[inline]
    pub(super) fn post(&mut self, endpoint: &Endpoint) -> Result<(), Errno> {
        while let Some(slot) = self.unposted.last() {
            let start = self.mr.memory().address().wrapping_add(*slot as usize * Self::SLOT_BYTES);
            let context = self.contexts.at(*slot as usize);
            // SAFETY: `self` owns the slot's memory and context, and outlives the endpoint: the lane
            // closes that first.
            match unsafe { endpoint.receive((start, Self::SLOT_BYTES), self.mr.desc(), context) } {
                Ok(()) => self.unposted.pop(),
                Err(Errno(libc::EAGAIN)) => return Ok(()),
                Err(errno) => return Err(errno),
            };
        }
        Ok(())
    }

    /// The header received in a slot.
    pub(super) fn header(&self, slot: u32) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        self.mr.memory().read(slot as usize * Self::SLOT_BYTES, &mut header);
        header
    }

    /// The location of a slot's payload.
    pub(super) fn payload(&self, slot: u32) -> (&Memory, usize) {
        (self.mr.memory(), slot as usize * Self::SLOT_BYTES + HEADER_BYTES)
    }

    /// Frees a slot.
    pub(super) fn free(&mut self, slot: u32) {
        self.unposted.push(slot);
    }
}

/// The number of slots whose posting may be deferred until there is nothing else to do.
const MAX_DEFERRED_SLOTS: usize = 4;

/// The number of slots of a lane, limited by the provider.
pub(super) fn count(fid_domain: &FidDomain) -> Result<usize, Error> {
    const WANTED: usize = 64 + Slots::SPARE_SLOTS;
    let receives = fid_domain.facts().receives;
    if receives < 2 * Slots::SPARE_SLOTS {
        return Err(error(fid_domain.facts(), "create an endpoint", Errno(libc::ENOSPC)));
    }
    Ok(receives.min(WANTED))
}
