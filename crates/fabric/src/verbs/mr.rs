//! Memory registered with a device.
//!
//! Unsafe here: `Mr` owns the C object and holds both the domain and the memory it was made of, so
//! that a device never writes into pages that are somebody else's by then.
#![allow(unsafe_code, reason = "owns a memory registration")]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::consts::*;
use rdma_sys::objects::ibv_mr;
use rustix::process::{Resource, getrlimit};

use super::domain::Pd;
use crate::error::{Error, Kind};
use crate::memory::{Memory, size};
use crate::region::{Region, Registration, Rights, Slice};

/// A registration.
pub(crate) struct Mr {
    pd: Arc<Pd>,
    mr: NonNull<ibv_mr>,
    lkey: u32,
    rkey: u32,
    memory: Memory,
}

// SAFETY: libibverbs' objects may be used from any thread, and from several at once.
unsafe impl Send for Mr {}
// SAFETY: as above.
unsafe impl Sync for Mr {}

impl Mr {
    pub(super) fn new(
        device: &str,
        pd: Arc<Pd>,
        memory: &Memory,
        rights: Rights,
    ) -> Result<Self, Error> {
        let verbs = pd.context().verbs();
        let (address, length) = (memory.address().cast::<c_void>(), memory.len());
        let access = access(rights);
        // SAFETY: `Mr` holds the domain and the memory until `Drop`.
        let relaxed = unsafe {
            let iova = address.addr() as u64;
            verbs.ibv_reg_mr_iova2(pd.as_ptr(), address, length, iova, access | RELAXED)
        };
        let mr = relaxed.unwrap_or_else(|| {
            let access = access.cast_signed();
            // SAFETY: as above.
            unsafe { verbs.ibv_reg_mr(pd.as_ptr(), address, length, access) }
        });
        let mr = mr.map_err(|errno| explain(device, length as u64, errno))?;
        // SAFETY: made just now.
        let (lkey, rkey) = unsafe { ((*mr.as_ptr()).lkey, (*mr.as_ptr()).rkey) };
        Ok(Mr { pd, mr, lkey, rkey, memory: memory.clone() })
    }

    /// The key by which our own work requests name this memory.
    #[inline]
    pub(super) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// The key by which peers name it.
    pub(super) fn rkey(&self) -> u32 {
        self.rkey
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether queue pairs of this domain may use it.
    #[inline]
    pub(super) fn is_of(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.pd, pd)
    }

    /// The number of its domain.
    pub(super) fn domain(&self) -> u32 {
        self.pd.number()
    }
}

impl std::fmt::Debug for Mr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mr")
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: made in `new`, freed here only. After the device went away this may fail, and
        // leaves nothing to be done.
        let _ = unsafe { self.pd.context().verbs().ibv_dereg_mr(self.mr.as_ptr()) };
    }
}

/// Whether a region is registered with this domain.
#[inline]
pub(super) fn is_registered(region: &Region, pd: &Arc<Pd>) -> bool {
    match region.registration() {
        Registration::Verbs(mr) => mr.is_of(pd),
        Registration::Several(keys) => keys.verbs.lkey(pd.number()).is_some(),
        Registration::Ofi(_) | Registration::Software | Registration::Near => false,
    }
}

/// The key for a piece of a work request of this domain. Lanes take memory only that is registered with
/// theirs; 0, which no device gives out, is the key of what was detached since.
#[inline]
pub(super) fn lkey(slice: &Slice, domain: u32) -> u32 {
    match slice.region().registration() {
        Registration::Verbs(mr) => mr.lkey(),
        Registration::Several(keys) => keys.verbs.lkey(domain).unwrap_or(0),
        Registration::Ofi(_) | Registration::Software | Registration::Near => 0,
    }
}

/// The key for peers of this domain's lanes, if the region is registered with it.
pub(super) fn rkey(region: &Region, pd: &Arc<Pd>) -> Option<u32> {
    match region.registration() {
        Registration::Verbs(mr) => mr.is_of(pd).then(|| mr.rkey()),
        Registration::Several(keys) => keys.verbs.rkey(pd),
        Registration::Ofi(_) | Registration::Software | Registration::Near => None,
    }
}

/// The device may reorder what it writes into this memory, which is faster over PCI Express; nobody
/// here polls for the last byte. An optional flag: devices that cannot do it ignore it.
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

/// What the kernel means by its few error numbers here.
fn explain(device: &str, length: u64, errno: Errno) -> Error {
    const ENOMEM: i32 = 12;
    const EINVAL: i32 = 22;
    const EOPNOTSUPP: i32 = 95;
    let call = format!("register {} on {device}", size(length));
    let limit = getrlimit(Resource::Memlock).current;
    match (errno.0, limit) {
        (ENOMEM, Some(limit)) if breaks_memlock(length, limit) => Error::new(
            Kind::Full,
            call,
            format!("{errno}; this process may lock {} (RLIMIT_MEMLOCK)", size(limit)),
            "raise memlock: `ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit, or \
             the capability CAP_IPC_LOCK",
        ),
        (EINVAL | EOPNOTSUPP, _) => {
            let remedy = "ask for fewer rights; the device may lack remote atomics";
            Error::new(Kind::Unsupported, call, errno, remedy)
        }
        _ if errno.is_denied() => {
            Error::new(Kind::Denied, call, errno, "run as a user who may use the device")
        }
        _ => {
            let remedy = "ask for less, or see the kernel's log for what the device refused";
            Error::new(Kind::System, call, errno, remedy)
        }
    }
}

/// Whether the kernel refuses to pin so much more for this process: what is pinned counts, and a
/// process with CAP_IPC_LOCK has no limit.
fn breaks_memlock(length: u64, limit: u64) -> bool {
    const CAP_IPC_LOCK: u64 = 1 << 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let capabilities = field("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let pinned = field("VmPin:").and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
    let free = capabilities.is_some_and(|capabilities| capabilities & CAP_IPC_LOCK != 0);
    !free && length.saturating_add(pinned.unwrap_or(0) * 1024) > limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_the_flags_of_the_same_name() {
        assert_eq!(access(Rights::NONE), IBV_ACCESS_LOCAL_WRITE);
        assert_eq!(access(Rights::ALL), 0b1111);
        assert_eq!(access(Rights { read: true, ..Rights::NONE }), 0b101);
    }
}
