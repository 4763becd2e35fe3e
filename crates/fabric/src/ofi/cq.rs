//! A completion queue, with a descriptor to sleep on.
//!
//! Unsafe here: `Cq` owns the C object, created and closed once, and its domain. The descriptor
//! belongs to the object and is not used after it.
#![allow(unsafe_code, reason = "owns a completion queue")]

use std::ffi::{c_int, c_uint};
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::ofi::consts::*;
use rdma_sys::ofi::inline::*;
use rdma_sys::ofi::objects::{fi_cq_attr, fid, fid_cq};
use rdma_sys::ofi::work::{fi_cq_data_entry, fi_cq_err_entry};

use super::failure::errno_of;
use super::fid_domain::FidDomain;

pub(super) struct Cq {
    cq: NonNull<fid_cq>,
    fd: Option<c_int>,
    fid_domain: Arc<FidDomain>,
}

// SAFETY: the domain was opened with `FI_THREAD_SAFE`.
unsafe impl Send for Cq {}

/// A completion.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// The address of its context; 0 for an operation that was not posted here.
    pub(super) context: usize,
    pub(super) length: usize,
    pub(super) result: Result<(), Errno>,
}

impl Cq {
    /// With a descriptor to sleep on, if the provider has one.
    pub(super) fn new(fid_domain: Arc<FidDomain>, size: usize) -> Result<Self, Errno> {
        let cq = open(&fid_domain, size, FI_WAIT_FD)
            .or_else(|_| open(&fid_domain, size, FI_WAIT_NONE))?;
        let mut cq = Cq { cq, fd: None, fid_domain };
        let mut fd: c_int = -1;
        // SAFETY: the queue is alive; this command writes an int if there is a descriptor.
        let queried =
            unsafe { fi_control(cq.cq.as_ptr().cast(), FI_GETWAIT, (&raw mut fd).cast()) };
        cq.fd = queried.ok().map(|()| fd).filter(|fd| *fd >= 0);
        Ok(cq)
    }

    pub(super) fn as_ptr(&self) -> *mut fid_cq {
        self.cq.as_ptr()
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the queue's own, open until `Drop` closes the queue.
        self.fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Drives the provider's progress and appends completions.
    #[inline]
    pub(super) fn read(&self, events: &mut Vec<Event>) -> Result<(), Errno> {
        let mut entries = [const { MaybeUninit::<fi_cq_data_entry>::uninit() }; READ_BATCH];
        // SAFETY: the queue was opened with this format, and the array has as many entries.
        match unsafe { fi_cq_read(self.cq.as_ptr(), entries.as_mut_ptr().cast(), READ_BATCH) } {
            Ok(count) => events.extend(entries[..count].iter().map(|entry| {
                // SAFETY: the provider has written `count` entries.
                let entry = unsafe { entry.assume_init_ref() };
                Event { context: entry.op_context.addr(), length: entry.len, result: Ok(()) }
            })),
            Err(Errno(FI_EAVAIL)) => events.extend(self.failed()?),
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    #[cold]
    fn failed(&self) -> Result<Option<Event>, Errno> {
        // SAFETY: numbers and pointers, for which zero is valid.
        let mut entry: fi_cq_err_entry = unsafe { zeroed() };
        // SAFETY: the queue is alive, the entry writable.
        let count = unsafe { fi_cq_readerr(self.cq.as_ptr(), &mut entry, 0) }?;
        Ok((count == 1).then(|| Event {
            context: entry.op_context.addr(),
            length: 0,
            result: Err(errno_of(self.fid_domain.facts(), entry.err, entry.prov_errno)),
        }))
    }

    /// Whether the caller may sleep on the descriptor now; else there is something to read.
    pub(super) fn may_sleep(&self) -> bool {
        let mut fids = [self.cq.as_ptr().cast::<fid>()];
        // SAFETY: fabric and queue are alive; one entry.
        unsafe { fi_trywait(self.fid_domain.fabric().as_ptr(), fids.as_mut_ptr(), 1) }.is_ok()
    }
}

fn open(fid_domain: &FidDomain, size: usize, wait: c_uint) -> Result<NonNull<fid_cq>, Errno> {
    // SAFETY: numbers and null pointers, for which zero selects the provider's default.
    let mut attr: fi_cq_attr = unsafe { zeroed() };
    (attr.size, attr.format, attr.wait_obj) = (size, FI_CQ_FORMAT_DATA, wait);
    let mut cq = null_mut();
    // SAFETY: the domain is alive, and owned by the resulting `Cq`; `cq` is writable.
    unsafe { fi_cq_open(fid_domain.as_ptr(), &mut attr, &mut cq, null_mut()) }?;
    NonNull::new(cq).ok_or(Errno(libc::EIO))
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: created in `new`, closed here only, after the endpoint that used it.
        let _ = unsafe { fi_close(self.cq.as_ptr().cast()) };
    }
}

/// The maximum number of completions fetched by one read.
const READ_BATCH: usize = 32;
