//! Memory registered with a provider, as its mode asks for.
//!
//! Unsafe here: `Object` owns the C object and holds its device; the `Mr` around it holds the memory it was made of, and
//! drops it last, so that a provider never writes into pages that are somebody else's by then.
#![allow(unsafe_code, reason = "owns a memory registration")]

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::ofi::consts::*;
use rdma_sys::ofi::inline::{fi_close, fi_mr_desc, fi_mr_key, fi_mr_reg};
use rdma_sys::ofi::objects::fid_mr;

use super::device::Device;
use super::failure::error;
use super::info::Facts;
use crate::error::Error;
use crate::grants::random;
use crate::memory::{Memory, size};
use crate::region::{Region, Rights};
use crate::registration::Registration;
use crate::registration::ofi::Mr;

/// What the provider has of a registration.
struct Object {
    mr: NonNull<fid_mr>,
    /// Must outlive it.
    _device: Arc<Device>,
}

// SAFETY: the device was opened with `FI_THREAD_SAFE`, and a registration is not changed after it was made.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: made in `register`, closed here only. Where that fails nothing is left to be done.
        let _ = unsafe { fi_close(self.mr.as_ptr().cast()) };
    }
}

/// Registers memory with a device.
pub(super) fn register(device: Arc<Device>, memory: &Memory, rights: Rights) -> Result<Mr, Error> {
    let mut tries = 0;
    let mr = loop {
        tries += 1;
        match register_as(&device, memory, rights, choose_key(device.facts())?) {
            // Somebody has the number that we drew.
            Err(Errno(FI_ENOKEY)) if tries < 8 => {}
            other => break other,
        }
    };
    let mr = mr.map_err(|errno| {
        error(device.facts(), &format!("register {}", size(memory.len() as u64)), errno)
    })?;
    // SAFETY: made just now.
    let (desc, key) = unsafe { (fi_mr_desc(mr.as_ptr()), fi_mr_key(mr.as_ptr())) };
    // What peers count from.
    let start = if device.facts().is_virtual() { memory.address().addr() as u64 } else { 0 };
    let domain = device.number();
    Ok(Mr::new(Box::new(Object { mr, _device: device }), domain, desc, (start, key), memory))
}

fn register_as(
    device: &Device,
    memory: &Memory,
    rights: Rights,
    key: u64,
) -> Result<NonNull<fid_mr>, Errno> {
    let mut mr = null_mut();
    // SAFETY: the memory lives and is all of one allocation; the `Mr` that is made of this holds it, and the device by its object.
    unsafe {
        let start = memory.address().cast();
        let access = access(rights);
        fi_mr_reg(device.as_ptr(), start, memory.len(), access, 0, key, 0, &mut mr, null_mut())
    }?;
    NonNull::new(mr).ok_or(Errno(libc::EIO))
}

/// A region's registration with this device. It may be taken off the region at any time.
#[inline]
pub(super) fn registration(region: &Region, domain: u32) -> Option<Arc<Mr>> {
    match region.registration() {
        Registration::Ofi(mr) => (mr.domain() == domain).then(|| mr.clone()),
        Registration::Several(keys) => keys.ofi.get(domain),
        Registration::Verbs(_) | Registration::Software | Registration::Near => None,
    }
}

/// Whether it has one.
#[inline]
pub(super) fn is_registered(region: &Region, domain: u32) -> bool {
    match region.registration() {
        Registration::Ofi(mr) => mr.domain() == domain,
        Registration::Several(keys) => keys.ofi.has(domain),
        Registration::Verbs(_) | Registration::Software | Registration::Near => false,
    }
}

/// A key that nobody can guess, unless the provider wants to choose.
fn choose_key(facts: &Facts) -> Result<u64, Error> {
    if facts.mr_mode & FI_MR_PROV_KEY != 0 {
        return Ok(0);
    }
    let bits = 8 * facts.key_size.clamp(1, 8) as u32;
    // All bits set would mean that there is no key.
    Ok(random()? as u64 & (u64::MAX >> (65 - bits)))
}

/// Every use of our own, and what peers may do. Atomic operations are executed by this process itself.
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
    fn rights_are_the_flags_of_the_same_name() {
        let own = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
        assert_eq!(access(Rights::NONE), own);
        assert_eq!(access(Rights { atomic: true, ..Rights::NONE }), own);
        assert_eq!(access(Rights::ALL), own | FI_REMOTE_READ | FI_REMOTE_WRITE);
    }

    #[test]
    fn keys_are_drawn_unless_the_provider_chooses() {
        let facts = |mr_mode, key_size| Facts { mr_mode, key_size, ..Facts::default() };
        assert_eq!(choose_key(&facts(FI_MR_PROV_KEY | FI_MR_LOCAL, 8)), Ok(0));
        assert_ne!(choose_key(&facts(FI_MR_LOCAL, 8)), choose_key(&facts(0, 8)));
        for _ in 0..100 {
            assert!(choose_key(&facts(0, 4)).unwrap() < 1 << 31, "as long as they may be");
        }
    }
}
