//! An endpoint with its completion queue and one peer, to which a lane posts.
//!
//! Unsafe here: `Endpoint` owns the C object, created and closed once, and closes it before the queue and the
//! address vector that it is bound to. Memory passed to an operation must stay until the operation completes, or until the
//! endpoint is closed: its callers guarantee that.
#![allow(unsafe_code, reason = "owns an endpoint and posts to it")]

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use libc::iovec;
use rdma_sys::Errno;
use rdma_sys::ofi::consts::*;
use rdma_sys::ofi::fi_addr_t;
use rdma_sys::ofi::inline::*;
use rdma_sys::ofi::objects::fid_ep;
use rdma_sys::ofi::work::{fi_msg, fi_msg_rma, fi_rma_iov};

use super::av::{Address, Av};
use super::cq::Cq;
use super::fid_domain::FidDomain;
use super::gather::Gather;
use crate::unreleased::leak_counted;

pub(super) struct Endpoint {
    ep: NonNull<fid_ep>,
    closed: bool,
    peer: fi_addr_t,
    // Dropped after the endpoint, and never if it cannot be closed.
    cq: ManuallyDrop<Cq>,
    av: ManuallyDrop<Av>,
}

// SAFETY: the domain was opened with `FI_THREAD_SAFE`.
unsafe impl Send for Endpoint {}

impl Endpoint {
    pub(super) fn new(fid_domain: &Arc<FidDomain>, entries: usize) -> Result<Self, Errno> {
        let (cq, av) = (Cq::new(fid_domain.clone(), entries)?, Av::new(fid_domain.clone())?);
        let mut ep = null_mut();
        // SAFETY: domain and entry are alive, owned by the queue; `ep` is writable.
        unsafe {
            fi_endpoint(fid_domain.as_ptr(), fid_domain.info().as_ptr(), &mut ep, null_mut())
        }?;
        let ep = NonNull::new(ep).ok_or(Errno(libc::EIO))?;
        let (cq, av) = (ManuallyDrop::new(cq), ManuallyDrop::new(av));
        let endpoint = Endpoint { ep, closed: false, peer: FI_ADDR_UNSPEC, cq, av };
        let (ep, av) = (endpoint.ep.as_ptr(), endpoint.av.as_ptr());
        // SAFETY: all three are alive, and both are closed after the endpoint.
        unsafe { fi_ep_bind(ep, av.cast(), 0) }?;
        // SAFETY: endpoint and queue are alive, and the queue is closed after the endpoint.
        unsafe { fi_ep_bind(ep, endpoint.cq.as_ptr().cast(), FI_TRANSMIT | FI_RECV) }?;
        // SAFETY: the endpoint is alive, and bound to its queue and address vector.
        unsafe { fi_enable(ep) }?;
        Ok(endpoint)
    }

    /// The endpoint's address, for the peer.
    pub(super) fn name(&self) -> Result<Vec<u8>, Errno> {
        let mut name = vec![0; Address::MAX_BYTES];
        let mut length = name.len();
        // SAFETY: the endpoint is enabled; `name` has `length` writable bytes.
        unsafe { fi_getname(self.ep.as_ptr(), name.as_mut_ptr().cast(), &mut length) }?;
        name.truncate(length);
        Ok(name)
    }

    /// Inserts the peer's address.
    pub(super) fn connect(&mut self, address: &Address) -> Result<(), Errno> {
        self.peer = self.av.insert(address)?;
        Ok(())
    }

    pub(super) fn cq(&self) -> &Cq {
        &self.cq
    }

    /// Posts a receive for one message.
    ///
    /// # Safety
    /// The buffer is writable, and it and the context stay until the receive completes or the endpoint is closed.
    pub(super) unsafe fn receive(
        &self,
        buffer: (*mut u8, usize),
        desc: *mut c_void,
        context: *mut c_void,
    ) -> Result<(), Errno> {
        let (at, length) = buffer;
        // SAFETY: passed on from the caller.
        unsafe { fi_recv(self.ep.as_ptr(), at.cast(), length, desc, FI_ADDR_UNSPEC, context) }
    }

    /// Sends one message.
    ///
    /// # Safety
    /// The memory and the context stay until the send completes or the endpoint is closed. There are as many descriptors as `iovec`s.
    #[inline]
    pub(super) unsafe fn send(
        &self,
        iov: &[iovec],
        desc: &mut [*mut c_void],
        context: *mut c_void,
    ) -> Result<(), Errno> {
        let msg = fi_msg {
            msg_iov: iov.as_ptr(),
            iov_count: iov.len(),
            desc: desc.as_mut_ptr(),
            addr: self.peer,
            context,
            data: 0,
        };
        // SAFETY: guaranteed by the caller; the lists are alive during the call.
        unsafe { fi_sendmsg(self.ep.as_ptr(), &msg, FI_COMPLETION) }
    }

    /// Writes to the peer's memory, or reads it. A write completes when it is placed.
    ///
    /// # Safety
    /// The memory, writable for a read, and the context stay until the transfer completes or the endpoint is closed.
    #[inline]
    pub(super) unsafe fn transfer(
        &self,
        gather: &mut Gather,
        remote: Remote,
        direction: Direction,
        context: *mut c_void,
    ) -> Result<(), Errno> {
        let target = fi_rma_iov { addr: remote.address, len: gather.total(), key: remote.key };
        let (iov, desc) = gather.parts();
        let msg = fi_msg_rma {
            msg_iov: iov.as_ptr(),
            iov_count: iov.len(),
            desc: desc.as_mut_ptr(),
            addr: self.peer,
            rma_iov: &target,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        // SAFETY: guaranteed by the caller; the peer's provider checks the access to its memory.
        unsafe {
            match direction {
                Direction::Write => {
                    fi_writemsg(self.ep.as_ptr(), &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE)
                }
                Direction::Read => fi_readmsg(self.ep.as_ptr(), &msg, FI_COMPLETION),
            }
        }
    }
}

/// An address and key of the peer's memory, as the provider defines them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) address: u64,
    pub(super) key: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Write,
    Read,
}

impl Endpoint {
    /// Closes it: after that the provider does not access memory through it, and only `drop` may follow. `false` if the
    /// provider refuses.
    pub(super) fn close(&mut self) -> bool {
        if !self.closed {
            // SAFETY: created in `new`, not closed yet; the objects that it is bound to are closed after it.
            self.closed = unsafe { fi_close(self.ep.as_ptr().cast()) }.is_ok();
        }
        self.closed
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if !self.close() {
            // It still uses the queue and the address vector.
            return leak_counted(());
        }
        // SAFETY: both are dropped here only, and nothing uses them after this.
        unsafe {
            ManuallyDrop::drop(&mut self.cq);
            ManuallyDrop::drop(&mut self.av);
        }
    }
}
