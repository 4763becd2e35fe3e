//! An address vector, with one peer.
//!
//! Unsafe here: `Av` owns the C object, created and closed once, and its domain.
#![allow(unsafe_code, reason = "owns an address vector")]

use std::mem::zeroed;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::ofi::consts::FI_ADDR_NOTAVAIL;
use rdma_sys::ofi::fi_addr_t;
use rdma_sys::ofi::inline::{fi_av_insert, fi_av_open, fi_close};
use rdma_sys::ofi::objects::{fi_av_attr, fid_av};

use super::fid_domain::FidDomain;

pub(super) struct Av {
    av: NonNull<fid_av>,
    _fid_domain: Arc<FidDomain>,
}

// SAFETY: the domain was opened with `FI_THREAD_SAFE`.
unsafe impl Send for Av {}

impl Av {
    pub(super) fn new(fid_domain: Arc<FidDomain>) -> Result<Self, Errno> {
        // SAFETY: numbers and null pointers, for which zero selects the provider's default.
        let mut attr: fi_av_attr = unsafe { zeroed() };
        // A larger count would increase the provider's queues, on some devices beyond their limits.
        attr.count = 2;
        let mut av = null_mut();
        // SAFETY: `Av` owns the domain; `av` is writable.
        unsafe { fi_av_open(fid_domain.as_ptr(), &mut attr, &mut av, null_mut()) }?;
        let av = NonNull::new(av).ok_or(Errno(libc::EIO))?;
        Ok(Av { av, _fid_domain: fid_domain })
    }

    pub(super) fn as_ptr(&self) -> *mut fid_av {
        self.av.as_ptr()
    }

    /// Inserts the peer's address.
    pub(super) fn insert(&self, address: &Address) -> Result<fi_addr_t, Errno> {
        let mut peer = FI_ADDR_NOTAVAIL;
        let at = address.0.as_ptr().cast();
        // SAFETY: an address of any provider's format ends within the padding of `Address`.
        let count = unsafe { fi_av_insert(self.av.as_ptr(), at, 1, &mut peer, 0, null_mut()) }?;
        if count == 1 && peer != FI_ADDR_NOTAVAIL { Ok(peer) } else { Err(Errno(libc::EINVAL)) }
    }
}

impl Drop for Av {
    fn drop(&mut self) {
        // SAFETY: created in `new`, closed here only, after the endpoint that used it.
        let _ = unsafe { fi_close(self.av.as_ptr().cast()) };
    }
}

/// An endpoint's address, padded with zeroes: a provider reads as many bytes as its address format has,
/// or up to a zero, whatever the peer sent.
pub(super) struct Address([u64; Address::MAX_BYTES / 8 + 1]);

impl Address {
    pub(super) const MAX_BYTES: usize = 256;

    /// `None` if it is too long.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > Self::MAX_BYTES {
            return None;
        }
        let mut words = [0; Self::MAX_BYTES / 8 + 1];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        Some(Address(words))
    }
}
