//! An open domain of a provider (`fid_domain`), with which memory is registered and endpoints are created.
//!
//! Unsafe here: `FidDomain` owns the C object, created and closed once, and the fabric and entry it was created with.
#![allow(unsafe_code, reason = "owns a domain of libfabric")]

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use rdma_sys::Errno;
use rdma_sys::ofi::inline::{fi_close, fi_domain};
use rdma_sys::ofi::objects::fid_domain;

use super::fabric::OpenFabric;
use super::info::{Facts, Info};

pub(super) struct FidDomain {
    /// Unique in this process, and never reused: a region looks up its registration by it.
    number: u32,
    domain: NonNull<fid_domain>,
    fabric: OpenFabric,
    info: Info,
    facts: Facts,
}

// SAFETY: opened with `FI_THREAD_SAFE`: it may be used from any thread, and from several concurrently.
unsafe impl Send for FidDomain {}
// SAFETY: opened with `FI_THREAD_SAFE`, so methods that take `&self` may be called from several threads.
unsafe impl Sync for FidDomain {}

impl FidDomain {
    pub(super) fn open(info: Info) -> Result<Self, Errno> {
        let fabric = OpenFabric::new(&info)?;
        let mut domain = null_mut();
        // SAFETY: fabric and entry are alive, and owned by `FidDomain`; `domain` is writable.
        unsafe { fi_domain(fabric.as_ptr(), info.as_ptr(), &mut domain, null_mut()) }?;
        let domain = NonNull::new(domain).ok_or(Errno(libc::EIO))?;
        // Does not overflow: opening four billion devices would take years.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(FidDomain { number, domain, fabric, facts: info.facts(), info })
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn as_ptr(&self) -> *mut fid_domain {
        self.domain.as_ptr()
    }

    pub(super) fn fabric(&self) -> &OpenFabric {
        &self.fabric
    }

    pub(super) fn info(&self) -> &Info {
        &self.info
    }

    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }
}

impl std::fmt::Debug for FidDomain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FidDomain").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Drop for FidDomain {
    fn drop(&mut self) {
        // SAFETY: created in `open`, closed here only; its child objects own it by `Arc` and were dropped before.
        let _ = unsafe { fi_close(self.domain.as_ptr().cast()) };
    }
}
