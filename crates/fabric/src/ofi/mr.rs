//! Memory registered with a provider.
//!
//! Unsafe here: `Object` owns the C object and its domain; the `Mr` around it owns the registered memory, and
//! frees it only after the object was closed, so that a provider never writes into pages that were freed.
#![allow(unsafe_code, reason = "owns a memory registration")]

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::ofi::consts::*;
use rdma_sys::ofi::inline::{fi_close, fi_mr_desc, fi_mr_key, fi_mr_reg};
use rdma_sys::ofi::objects::fid_mr;

use super::failure::error;
use super::fid_domain::FidDomain;
use super::info::Facts;
use crate::error::Error;
use crate::grants::random;
use crate::memory::{Memory, size};
use crate::region::{Region, Rights};
use crate::registration::ofi::Mr;
use crate::registration::{DeviceObject, Registration};

/// The provider's object of a registration.
struct Object {
    mr: NonNull<fid_mr>,
    /// Must outlive it.
    fid_domain: Arc<FidDomain>,
}

// SAFETY: the domain was opened with `FI_THREAD_SAFE`, and a registration is immutable.
unsafe impl Send for Object {}
// SAFETY: a registration is immutable, and its domain was opened with `FI_THREAD_SAFE`.
unsafe impl Sync for Object {}

impl DeviceObject for Object {
    fn release(&mut self) -> bool {
        // SAFETY: created in `register`, and closed once, when its `Mr` is dropped.
        let released = unsafe { fi_close(self.mr.as_ptr().cast()) }.is_ok();
        if !released {
            // The domain cannot be closed before it.
            std::mem::forget(self.fid_domain.clone());
        }
        released
    }
}

/// Registers memory with a domain.
pub(super) fn register(
    fid_domain: Arc<FidDomain>,
    memory: &Memory,
    rights: Rights,
) -> Result<Mr, Error> {
    let mut tries = 0;
    let mr = loop {
        tries += 1;
        match register_as(&fid_domain, memory, rights, choose_key(fid_domain.facts())?) {
            // The random key is already in use.
            Err(Errno(FI_ENOKEY)) if tries < 8 => {}
            other => break other,
        }
    };
    let mr = mr.map_err(|errno| {
        error(fid_domain.facts(), &format!("register {}", size(memory.len() as u64)), errno)
    })?;
    // SAFETY: just created.
    let (desc, key) = unsafe { (fi_mr_desc(mr.as_ptr()), fi_mr_key(mr.as_ptr())) };
    // The base of the addresses that peers use.
    let start = if fid_domain.facts().is_virtual() { memory.address().addr() as u64 } else { 0 };
    let domain = fid_domain.number();
    Ok(Mr::new(Box::new(Object { mr, fid_domain }), domain, desc, (start, key), memory))
}

fn register_as(
    fid_domain: &FidDomain,
    memory: &Memory,
    rights: Rights,
    key: u64,
) -> Result<NonNull<fid_mr>, Errno> {
    let mut mr = null_mut();
    // SAFETY: the memory is one allocation; the resulting `Mr` owns it, and by its object the domain.
    unsafe {
        let start = memory.address().cast();
        let access = access(rights);
        fi_mr_reg(fid_domain.as_ptr(), start, memory.len(), access, 0, key, 0, &mut mr, null_mut())
    }?;
    NonNull::new(mr).ok_or(Errno(libc::EIO))
}

/// A region's registration with this domain. It may be detached from the region at any time.
#[inline]
pub(super) fn registration(region: &Region, domain: u32) -> Option<Arc<Mr>> {
    match region.registration() {
        Registration::Ofi(mr) => (mr.domain() == domain).then(|| mr.clone()),
        Registration::Shared(keys) => keys.ofi.get(domain),
        Registration::Verbs(_) | Registration::Software | Registration::SameHost => None,
    }
}

/// Whether a region is registered with this domain.
#[inline]
pub(super) fn is_registered(region: &Region, domain: u32) -> bool {
    match region.registration() {
        Registration::Ofi(mr) => mr.domain() == domain,
        Registration::Shared(keys) => keys.ofi.has(domain),
        Registration::Verbs(_) | Registration::Software | Registration::SameHost => false,
    }
}

/// A random key, which cannot be guessed; 0 if the provider chooses keys.
fn choose_key(facts: &Facts) -> Result<u64, Error> {
    if facts.mr_mode & FI_MR_PROV_KEY != 0 {
        return Ok(0);
    }
    let bits = 8 * facts.key_size.clamp(1, 8) as u32;
    // All bits set would mean "no key".
    Ok(random()? as u64 & (u64::MAX >> (65 - bits)))
}

/// All local operations, and the peers' rights. Atomic operations are executed by this process itself.
fn access(rights: Rights) -> u64 {
    let mut access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
    for (allowed, flag) in [(rights.read, FI_REMOTE_READ), (rights.write, FI_REMOTE_WRITE)] {
        if allowed {
            access |= flag;
        }
    }
    access
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_converted_to_access_flags() {
        let own = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
        assert_eq!(access(Rights::NONE), own);
        assert_eq!(access(Rights { atomic: true, ..Rights::NONE }), own);
        assert_eq!(access(Rights::ALL), own | FI_REMOTE_READ | FI_REMOTE_WRITE);
    }

    #[test]
    fn keys_are_random_unless_the_provider_chooses() {
        let facts = |mr_mode, key_size| Facts { mr_mode, key_size, ..Facts::default() };
        assert_eq!(choose_key(&facts(FI_MR_PROV_KEY | FI_MR_LOCAL, 8)), Ok(0));
        assert_ne!(choose_key(&facts(FI_MR_LOCAL, 8)), choose_key(&facts(0, 8)));
        for _ in 0..100 {
            assert!(choose_key(&facts(0, 4)).unwrap() < 1 << 31, "within the key size");
        }
    }
}
