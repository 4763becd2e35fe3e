//! A copy of one entry of libfabric's provider list (`fi_info`).
//!
//! Unsafe here: `Info` owns the entry; the library allocates it with all its parts, and it is freed once.
//! Only the library itself modifies it, while it opens the described provider.
#![allow(unsafe_code, reason = "owns an entry of libfabric's list")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::net::IpAddr;
use std::ptr::{NonNull, null, null_mut};

use rdma_sys::ofi::consts::*;
use rdma_sys::ofi::info::fi_info;
use rdma_sys::{Errno, Ofi};

/// A provider on one device or interface.
pub(super) struct Info {
    ofi: &'static Ofi,
    info: NonNull<fi_info>,
}

// SAFETY: the entry is plain memory of the library, and not modified after its creation.
unsafe impl Send for Info {}
// SAFETY: `&self` only reads the entry, which is not modified after its creation.
unsafe impl Sync for Info {}

/// The fields of an entry that lanes use.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) provider: String,
    /// Major and minor.
    pub(super) version: (u32, u32),
    pub(super) fabric: String,
    pub(super) domain: String,
    pub(super) mr_mode: c_int,
    /// The maximum number of bytes of a key.
    pub(super) key_size: usize,
    pub(super) max_message: usize,
    /// The maximum number of `iovec`s of a message, a write or a read.
    pub(super) iov_limit: usize,
    /// The maximum number of operations, and of receives, of an endpoint.
    pub(super) sends: usize,
    pub(super) receives: usize,
}

/// The criteria of a query.
#[derive(Debug, Default)]
pub(super) struct Query<'a> {
    pub(super) provider: Option<&'a str>,
    pub(super) address: Option<IpAddr>,
}

impl Query<'_> {
    /// Lists matching entries, the provider's best first. Addressing by offsets is preferred, if a provider supports
    /// both: only then `shm` checks keys.
    pub(super) fn find(&self, ofi: &'static Ofi) -> Result<Vec<Info>, Errno> {
        let mut all = Vec::new();
        let mut missing = Errno(libc::ENODATA);
        for mode in [MR_MODE, MR_MODE | FI_MR_VIRT_ADDR] {
            match self.get_info(ofi, mode) {
                Ok(found) => all.extend(found),
                Err(errno) => missing = errno,
            }
        }
        if all.is_empty() {
            return Err(missing);
        }
        let mut seen: Vec<Facts> = Vec::new();
        all.retain(|info| {
            let facts = info.facts();
            let known = seen.iter().any(|known| known.is_same_path(&facts));
            seen.push(facts);
            !known
        });
        Ok(all)
    }

    fn get_info(&self, ofi: &'static Ofi, mr_mode: c_int) -> Result<Vec<Info>, Errno> {
        let hints = Info { ofi, info: ofi.fi_allocinfo()? };
        let hints_at = hints.info.as_ptr();
        // No provider's name contains a zero.
        let invalid = |_| Errno(libc::EINVAL);
        let provider = self.provider.map(CString::new).transpose().map_err(invalid)?;
        // SAFETY: the hints were just allocated with all their parts; their strings must be allocated by
        // malloc, since `fi_freeinfo` frees them.
        unsafe {
            (*hints_at).caps = FI_MSG | FI_RMA;
            (*hints_at).mode = FI_CONTEXT | FI_CONTEXT2;
            (*(*hints_at).ep_attr).r#type = FI_EP_RDM;
            (*(*hints_at).domain_attr).mr_mode = mr_mode;
            (*(*hints_at).domain_attr).threading = FI_THREAD_SAFE;
            (*(*hints_at).domain_attr).resource_mgmt = FI_RM_ENABLED;
            if let Some(provider) = &provider {
                (*(*hints_at).fabric_attr).prov_name = libc::strdup(provider.as_ptr());
            }
        }
        let node = self.address.map(|address| CString::new(address.to_string()).expect("no zero"));
        let flags = if node.is_some() { FI_SOURCE | FI_NUMERICHOST } else { 0 };
        let node = node.as_ref().map_or(null(), |node| node.as_ptr());
        let mut list = null_mut();
        // SAFETY: the strings and the hints are alive during the call; `list` is writable.
        unsafe { ofi.fi_getinfo(ofi.api_version(), node, null(), flags, hints_at, &mut list) }?;
        let copied = copies(ofi, list);
        // SAFETY: returned by the call above, and no longer used.
        unsafe { ofi.fi_freeinfo(list) };
        copied
    }
}

/// Copies every entry of a list.
fn copies(ofi: &'static Ofi, list: *mut fi_info) -> Result<Vec<Info>, Errno> {
    let mut copies = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: an entry of the list, which the caller frees after this call.
        copies.push(Info { ofi, info: unsafe { ofi.fi_dupinfo(at) }? });
        // SAFETY: an entry of the list is alive until the caller frees the list, after this call.
        at = unsafe { (*at).next };
    }
    Ok(copies)
}

impl Info {
    pub(super) fn ofi(&self) -> &'static Ofi {
        self.ofi
    }

    /// For the library's functions that open the provider.
    pub(super) fn as_ptr(&self) -> *mut fi_info {
        self.info.as_ptr()
    }

    pub(super) fn facts(&self) -> Facts {
        // SAFETY: allocated by the library with all its parts, and alive until `Drop`.
        let (fabric, domain, ep, tx, rx) = unsafe {
            let info = self.info.as_ref();
            (&*info.fabric_attr, &*info.domain_attr, &*info.ep_attr, &*info.tx_attr, &*info.rx_attr)
        };
        Facts {
            provider: text(fabric.prov_name),
            version: (fabric.prov_version >> 16, fabric.prov_version & 0xffff),
            fabric: text(fabric.name),
            domain: text(domain.name),
            mr_mode: domain.mr_mode,
            key_size: domain.mr_key_size,
            max_message: ep.max_msg_size,
            iov_limit: tx.iov_limit.min(rx.iov_limit),
            sends: tx.size,
            receives: rx.size,
        }
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: allocated by the library, freed here only; opened objects have their own copies.
        unsafe { self.ofi.fi_freeinfo(self.info.as_ptr()) };
    }
}

impl Facts {
    /// Whether remote addresses are virtual addresses; else they are offsets from the region's start.
    pub(super) fn is_virtual(&self) -> bool {
        self.mr_mode & FI_MR_VIRT_ADDR != 0
    }

    /// Whether it lets a peer access any memory of this process, registered or not (`shm`, which reads and writes the other
    /// process's memory). Then it is used for messages only, and lanes check keys themselves.
    pub(super) fn lacks_memory_protection(&self) -> bool {
        self.provider == "shm"
    }

    fn is_same_path(&self, other: &Facts) -> bool {
        (&self.provider, &self.fabric, &self.domain)
            == (&other.provider, &other.fabric, &other.domain)
    }
}

/// A C string of the library; empty if null.
fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: not null, so a string that is alive as long as the entry it was read from.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

/// The registration modes that lanes support: local buffers are registered, memory is allocated before, and keys may be
/// chosen by the provider.
const MR_MODE: c_int = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
