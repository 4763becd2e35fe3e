//! Registrations of memory with devices, and their keys, which lanes look up for every operation. A region owns them. The C objects
//! are created by the transports, and only stored here.

pub(crate) mod ofi;
pub(crate) mod verbs;

use std::sync::Arc;

use crate::memory::Memory;
use crate::unreleased::leak_counted;

/// A device's object for a memory registration.
pub(crate) trait DeviceObject: Send + Sync {
    /// Ends the registration, once; `false` if the device refuses: it may still access the memory.
    fn release(&mut self) -> bool;
}

/// Memory with a device's object for it. On drop the object is released before the memory: a device must not write into pages
/// that were freed. If the device refuses, the memory is kept for good.
pub(crate) struct Registered {
    object: Box<dyn DeviceObject>,
    memory: Memory,
}

impl Registered {
    fn new(object: Box<dyn DeviceObject>, memory: &Memory) -> Self {
        Registered { object, memory: memory.clone() }
    }

    fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if !self.object.release() {
            leak_counted(self.memory.clone());
        }
    }
}

/// What a region is registered with.
pub(crate) enum Registration {
    /// A device.
    Verbs(Arc<verbs::Mr>),
    /// A libfabric provider.
    Ofi(Arc<ofi::Mr>),
    /// Any number of devices, possibly none; software lanes use the region directly. Boxed, so that the enum, which is
    /// read for every operation, stays two words long.
    Shared(Box<SharedRegistrations>),
    /// No device: software lanes use the region directly.
    Software,
    /// No device, and links grant it only to peers on the same host.
    SameHost,
}

/// The registrations of one memory with any number of devices.
#[derive(Debug, Default)]
pub(crate) struct SharedRegistrations {
    pub(crate) verbs: verbs::Registrations,
    pub(crate) ofi: ofi::Registrations,
}

const _: () = assert!(size_of::<Registration>() == 2 * size_of::<usize>());
