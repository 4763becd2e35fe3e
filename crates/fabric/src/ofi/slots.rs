//! The buffers that a peer's frames come into.
//!
//! Unsafe here: a provider is given places of memory that `Slots` holds. The lane closes the endpoint before it
//! lets go of them.
#![allow(unsafe_code, reason = "posts receives")]

use std::sync::Arc;

use rdma_sys::Errno;

use super::contexts::Contexts;
use super::device::Device;
use super::endpoint::Endpoint;
use super::failure::error;
use super::frame::HEADER;
use super::mr;
use crate::error::Error;
use crate::memory::{Memory, Pages};
use crate::region::Rights;
use crate::registration::ofi::Mr;

pub(super) struct Slots {
    mr: Arc<Mr>,
    contexts: Arc<Contexts>,
    /// Not with the provider, and not in use.
    idle: Vec<u32>,
}

impl Slots {
    /// Buffers beyond those that peers are promised: for what needs none, and instead of those that are posted late.
    pub(super) const SPARE: usize = 20 + LATE;
    /// How long one is, header and all: what ofi_rxm sends at once. It would ask for longer ones first.
    pub(super) const SIZE: usize = 16 * 1024;

    pub(super) fn new(device: &Arc<Device>, count: usize) -> Result<Self, Error> {
        let memory = Memory::allocate(count * Self::SIZE, Pages::Plain)?;
        let mr = Arc::new(mr::register(device.clone(), &memory, Rights::NONE)?);
        Ok(Slots {
            mr,
            contexts: Arc::new(Contexts::new(count)),
            idle: (0..count as u32).rev().collect(),
        })
    }

    /// What the endpoint uses as long as it is open.
    pub(super) fn used(&self) -> (Arc<Mr>, Arc<Contexts>) {
        (self.mr.clone(), self.contexts.clone())
    }

    pub(super) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// How many frames the peer may have in them.
    pub(super) fn promised(&self) -> u64 {
        (self.contexts.len() - Self::SPARE) as u64
    }

    /// Whether some are not with the provider that could be.
    pub(super) fn are_short(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Whether so many are missing that they must not wait any longer.
    #[inline]
    pub(super) fn are_late(&self) -> bool {
        self.idle.len() > LATE
    }

    /// Gives the provider what is idle, as far as it takes it.
    #[inline]
    pub(super) fn post(&mut self, endpoint: &Endpoint) -> Result<(), Errno> {
        while let Some(slot) = self.idle.last() {
            let place = self.mr.memory().address().wrapping_add(*slot as usize * Self::SIZE);
            let context = self.contexts.at(*slot as usize);
            // SAFETY: a slot of our own memory, which with its context outlives the endpoint: the lane
            // closes that first.
            match unsafe { endpoint.receive((place, Self::SIZE), self.mr.desc(), context) } {
                Ok(()) => self.idle.pop(),
                Err(Errno(libc::EAGAIN)) => return Ok(()),
                Err(errno) => return Err(errno),
            };
        }
        Ok(())
    }

    /// The frame that came into a slot, and its token.
    pub(super) fn header(&self, slot: u32) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        self.mr.memory().read(slot as usize * Self::SIZE, &mut header);
        header
    }

    /// Where the bytes behind a slot's frame are.
    pub(super) fn payload(&self, slot: u32) -> (&Memory, usize) {
        (self.mr.memory(), slot as usize * Self::SIZE + HEADER)
    }

    /// A slot is not used any more.
    pub(super) fn free(&mut self, slot: u32) {
        self.idle.push(slot);
    }
}

/// How many may be posted later, when there is nothing else to do.
const LATE: usize = 4;

/// How many slots a device lets a lane have.
pub(super) fn count(device: &Device) -> Result<usize, Error> {
    const WANTED: usize = 64 + Slots::SPARE;
    let receives = device.facts().receives;
    if receives < 2 * Slots::SPARE {
        return Err(error(device.facts(), "make an endpoint", Errno(libc::ENOSPC)));
    }
    Ok(receives.min(WANTED))
}
