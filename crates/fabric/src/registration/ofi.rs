//! One memory's registrations with libfabric devices, which may be added and removed at any time.
//!
//! Unsafe here: `Mr` has a provider's handle, a pointer that is never dereferenced here.
#![allow(unsafe_code, reason = "sends a provider's handle between threads")]

use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::{DeviceObject, Registered};
use crate::memory::Memory;

/// A memory's registration with one device.
pub(crate) struct Mr {
    domain: u32,
    desc: *mut c_void,
    key: u64,
    start: u64,
    registered: Registered,
}

// SAFETY: the device was opened with `FI_THREAD_SAFE`; the handle is immutable.
unsafe impl Send for Mr {}
// SAFETY: the fields do not change after `new`; the handle is only passed on, to functions of a device opened with `FI_THREAD_SAFE`.
unsafe impl Sync for Mr {}

impl Mr {
    pub(crate) fn new(
        object: Box<dyn DeviceObject>,
        domain: u32,
        desc: *mut c_void,
        (start, key): (u64, u64),
        memory: &Memory,
    ) -> Self {
        Mr { domain, desc, key, start, registered: Registered::new(object, memory) }
    }

    /// The descriptor for local operations.
    #[inline]
    pub(crate) fn desc(&self) -> *mut c_void {
        self.desc
    }

    /// The key for peers.
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// The base of the addresses that peers use.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn memory(&self) -> &Memory {
        self.registered.memory()
    }

    /// The id of its device.
    #[inline]
    pub(crate) fn domain(&self) -> u32 {
        self.domain
    }
}

impl fmt::Debug for Mr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mr")
    }
}

/// At most one registration per device. Read for every operation, rarely changed.
#[derive(Debug, Default)]
pub(crate) struct Registrations(RwLock<Vec<Arc<Mr>>>);

impl Registrations {
    #[inline]
    pub(crate) fn get(&self, domain: u32) -> Option<Arc<Mr>> {
        self.all().iter().find(|mr| mr.domain() == domain).cloned()
    }

    #[inline]
    pub(crate) fn has(&self, domain: u32) -> bool {
        self.all().iter().any(|mr| mr.domain() == domain)
    }

    /// Adds a registration, unless there is one with its device.
    pub(crate) fn add(&self, mr: Arc<Mr>) {
        let mut mrs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if mrs.iter().all(|known| known.domain() != mr.domain()) {
            mrs.push(mr);
        }
    }

    /// Removes the registration with this device. It is closed when its last user drops it.
    pub(crate) fn remove(&self, domain: u32) {
        let mut mrs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let at = mrs.iter().position(|mr| mr.domain() == domain);
        let removed = at.map(|at| mrs.swap_remove(at));
        drop(mrs);
        // Closed without holding the lock.
        drop(removed);
    }

    pub(crate) fn contains(&self, mr: &Arc<Mr>) -> bool {
        self.all().iter().any(|own| Arc::ptr_eq(own, mr))
    }

    /// Whether both contain a common registration.
    pub(crate) fn shares_any(&self, other: &Registrations) -> bool {
        let own = self.all().clone();
        own.iter().any(|mr| other.contains(mr))
    }

    fn all(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Mr>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
