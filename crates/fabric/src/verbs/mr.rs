//! Memory registered with a device.
//!
//! Unsafe here: `Object` owns the C object and its domain; the `Mr` around it owns the registered memory, and
//! frees it only after the object was released, so that a device never writes into pages that were freed.
#![allow(unsafe_code, reason = "owns a memory registration")]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::consts::*;
use rdma_sys::objects::ibv_mr;
use rustix::process::{Resource, getrlimit};

use super::domain::Pd;
use crate::error::{Error, ErrorKind};
use crate::memory::{Memory, size};
use crate::region::{Region, Rights, Slice};
use crate::registration::verbs::Mr;
use crate::registration::{DeviceObject, Registration};

/// The device's object of a registration.
struct Object {
    pd: Arc<Pd>,
    mr: NonNull<ibv_mr>,
}

// SAFETY: libibverbs' objects may be used from any thread, and from several concurrently.
unsafe impl Send for Object {}
// SAFETY: methods that take `&self` may be called from several threads: libibverbs locks its objects.
unsafe impl Sync for Object {}

impl DeviceObject for Object {
    fn release(&mut self) -> bool {
        let context = self.pd.context();
        // SAFETY: created in `register`, and released once, when its `Mr` is dropped.
        let released = unsafe { context.verbs().ibv_dereg_mr(self.mr.as_ptr()) }.is_ok();
        // The kernel has released the objects of a removed device.
        let released = released || !context.is_listed();
        if !released {
            // The domain cannot be freed before it.
            std::mem::forget(self.pd.clone());
        }
        released
    }
}

/// Registers memory with a domain.
pub(super) fn register(
    device: &str,
    pd: Arc<Pd>,
    memory: &Memory,
    rights: Rights,
) -> Result<Mr, Error> {
    let verbs = pd.context().verbs();
    let (address, length) = (memory.address().cast::<c_void>(), memory.len());
    let access = access(rights);
    // SAFETY: the `Mr` created below owns the memory, and by its object the domain, until it is dropped.
    let relaxed = unsafe {
        let iova = address.addr() as u64;
        verbs.ibv_reg_mr_iova2(pd.as_ptr(), address, length, iova, access | RELAXED)
    };
    let mr = relaxed.unwrap_or_else(|| {
        let access = access.cast_signed();
        // SAFETY: the `Mr` created below owns the memory, and by its object the domain, until it is dropped.
        unsafe { verbs.ibv_reg_mr(pd.as_ptr(), address, length, access) }
    });
    let mr = mr.map_err(|errno| explain(device, length as u64, errno))?;
    // SAFETY: just created.
    let keys = unsafe { ((*mr.as_ptr()).lkey, (*mr.as_ptr()).rkey) };
    let domain = pd.number();
    Ok(Mr::new(Box::new(Object { pd, mr }), domain, keys, memory))
}

/// Whether a region is registered with this domain.
#[inline]
pub(super) fn is_registered(region: &Region, pd: &Arc<Pd>) -> bool {
    match region.registration() {
        Registration::Verbs(mr) => mr.domain() == pd.number(),
        Registration::Shared(keys) => keys.verbs.lkey(pd.number()).is_some(),
        Registration::Ofi(_) | Registration::Software | Registration::SameHost => false,
    }
}

/// The local key for a work request of this domain. Lanes accept only memory that is registered with
/// their domain; 0, which no device assigns, is returned for a region that was detached since.
#[inline]
pub(super) fn lkey(slice: &Slice, domain: u32) -> u32 {
    match slice.region().registration() {
        Registration::Verbs(mr) => mr.lkey(),
        Registration::Shared(keys) => keys.verbs.lkey(domain).unwrap_or(0),
        Registration::Ofi(_) | Registration::Software | Registration::SameHost => 0,
    }
}

/// The remote key for peers of this domain's lanes, if the region is registered with it.
pub(super) fn rkey(region: &Region, pd: &Arc<Pd>) -> Option<u32> {
    match region.registration() {
        Registration::Verbs(mr) => (mr.domain() == pd.number()).then(|| mr.rkey()),
        Registration::Shared(keys) => keys.verbs.rkey(pd.number()),
        Registration::Ofi(_) | Registration::Software | Registration::SameHost => None,
    }
}

/// The device may reorder its writes into this memory, which is faster over PCI Express; no code
/// here polls for the last byte. An optional flag: devices without support ignore it.
const RELAXED: u32 = IBV_ACCESS_RELAXED_ORDERING;

fn access(rights: Rights) -> u32 {
    let mut access = IBV_ACCESS_LOCAL_WRITE;
    for (allowed, flag) in [
        (rights.read, IBV_ACCESS_REMOTE_READ),
        (rights.write, IBV_ACCESS_REMOTE_WRITE),
        (rights.atomic, IBV_ACCESS_REMOTE_ATOMIC),
    ] {
        if allowed {
            access |= flag;
        }
    }
    access
}

/// Explains the kernel's errors for registrations.
fn explain(device: &str, length: u64, errno: Errno) -> Error {
    const ENOMEM: i32 = 12;
    const EINVAL: i32 = 22;
    const EOPNOTSUPP: i32 = 95;
    let call = format!("register {} on {device}", size(length));
    let limit = getrlimit(Resource::Memlock).current;
    match (errno.0, limit) {
        (ENOMEM, Some(limit)) if breaks_memlock(length, limit) => Error::new(
            ErrorKind::Full,
            call,
            format!("{errno}; this process may lock {} (RLIMIT_MEMLOCK)", size(limit)),
            "raise memlock: `ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit, or \
             the capability CAP_IPC_LOCK",
        ),
        (EINVAL | EOPNOTSUPP, _) => {
            let fix = "request fewer rights; the device may not support remote atomics";
            Error::new(ErrorKind::Unsupported, call, errno, fix)
        }
        _ if errno.is_denied() => {
            Error::new(ErrorKind::Denied, call, errno, "run as a user who may use the device")
        }
        _ => {
            let fix =
                "register less memory, or check the kernel log (`dmesg`) for the driver's error";
            Error::new(ErrorKind::System, call, errno, fix)
        }
    }
}

/// Whether this process may lock so many more bytes.
pub(super) fn may_lock(length: u64) -> bool {
    getrlimit(Resource::Memlock).current.is_none_or(|limit| !breaks_memlock(length, limit))
}

/// Whether pinning `length` more bytes exceeds the limit: pinned memory counts, and a
/// process with CAP_IPC_LOCK has no limit.
fn breaks_memlock(length: u64, limit: u64) -> bool {
    const CAP_IPC_LOCK: u64 = 1 << 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let capabilities = field("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let pinned = field("VmPin:").and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
    let unlimited = capabilities.is_some_and(|capabilities| capabilities & CAP_IPC_LOCK != 0);
    !unlimited && length.saturating_add(pinned.unwrap_or(0) * 1024) > limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_converted_to_access_flags() {
        assert_eq!(access(Rights::NONE), IBV_ACCESS_LOCAL_WRITE);
        assert_eq!(access(Rights::ALL), 0b1111);
        assert_eq!(access(Rights { read: true, ..Rights::NONE }), 0b101);
    }
}
