//! The inline functions of the headers: they call through the tables of open objects.
//!
//! Unsafe here: each dereferences pointers exactly as the C function of the same name does, and has the
//! same requirements: live objects of the library, used according to their manual page, and operations
//! of a capability that was requested when the endpoint was created, since without it there may be
//! no table.
#![allow(unsafe_code, reason = "ports of C inlines")]
#![allow(clippy::missing_safety_doc, reason = "one promise for all of them, stated above")]
#![allow(clippy::too_many_arguments, reason = "C chose the arguments")]
#![allow(missing_docs, reason = "C's own names, documented by their manual pages")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use super::consts::*;
use super::fi_addr_t;
use super::info::fi_info;
use super::objects::*;
use super::work::*;
use crate::returns::{Convention, Errno, FabricCount, FabricStatus, NegativeErrno, Plain};

/// Ports of the inline functions that only call one slot of a table. If
/// the slot takes a `fid`, the object's pointer is passed: every object begins with its `fid`.
macro_rules! forward {
    ($(
        $(#[$doc:meta])*
        $name:ident($object:ident: $type:ty $(, $arg:ident: $ty:ty)*) -> $ret:ty, $convention:ident
            = $table:ident.$slot:ident;
    )*) => { $(
        $(#[$doc])*
        #[inline]
        pub unsafe fn $name($object: *mut $type $(, $arg: $ty)*)
            -> <$convention as Convention<$ret>>::Out
        {
            // SAFETY: the caller's object is alive and was created by the library with this table.
            let call = unsafe { (*(*$object).$table).$slot };
            // SAFETY: guaranteed by the caller.
            <$convention as Convention<$ret>>::read(unsafe { call($object.cast() $(, $arg)*) })
        }
    )* };
}

// Any object.
forward! {
    fi_close(fid: fid) -> c_int, FabricStatus = ops.close;
    fi_bind(fid: fid, other: *mut fid, flags: u64) -> c_int, FabricStatus = ops.bind;
    fi_control(fid: fid, command: c_int, argument: *mut c_void) -> c_int, FabricStatus
        = ops.control;
}

// Fabrics and domains.
forward! {
    fi_domain(fabric: fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain,
        context: *mut c_void) -> c_int, FabricStatus = ops.domain;
    /// `Ok`: the caller may wait on the descriptors of these objects; `EAGAIN`: there is something to read.
    fi_trywait(fabric: fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int, FabricStatus
        = ops.trywait;
    fi_endpoint(domain: fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep,
        context: *mut c_void) -> c_int, FabricStatus = ops.endpoint;
    fi_cq_open(domain: fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq,
        context: *mut c_void) -> c_int, FabricStatus = ops.cq_open;
    fi_av_open(domain: fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av,
        context: *mut c_void) -> c_int, FabricStatus = ops.av_open;
}

// Address vectors.
forward! {
    /// Returns the number of inserted addresses; the others are `FI_ADDR_NOTAVAIL`.
    fi_av_insert(av: fid_av, addresses: *const c_void, count: usize, peers: *mut fi_addr_t,
        flags: u64, context: *mut c_void) -> c_int, NegativeErrno = ops.insert;
    fi_av_remove(av: fid_av, peers: *mut fi_addr_t, count: usize, flags: u64)
        -> c_int, FabricStatus = ops.remove;
    fi_av_lookup(av: fid_av, peer: fi_addr_t, address: *mut c_void, length: *mut usize)
        -> c_int, FabricStatus = ops.lookup;
    fi_av_straddr(av: fid_av, address: *const c_void, text: *mut c_char, length: *mut usize)
        -> *const c_char, Plain = ops.straddr;
}

// Memory.
forward! {
    fi_mr_reg(domain: fid_domain, start: *const c_void, length: usize, access: u64, offset: u64,
        requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void)
        -> c_int, FabricStatus = mr.reg;
    fi_mr_regattr(domain: fid_domain, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr)
        -> c_int, FabricStatus = mr.regattr;
}

pub unsafe fn fi_mr_desc(mr: *mut fid_mr) -> *mut c_void {
    // SAFETY: the caller's registration is alive.
    unsafe { (*mr).mem_desc }
}

/// `FI_KEY_NOTAVAIL` if the key is longer; then [`fi_mr_raw_attr()`] returns it.
pub unsafe fn fi_mr_key(mr: *mut fid_mr) -> u64 {
    // SAFETY: the caller's registration is alive.
    unsafe { (*mr).key }
}

/// The complete key, with `FI_MR_RAW`. On `FI_ETOOSMALL`, `key_size` is the required size.
pub unsafe fn fi_mr_raw_attr(
    mr: *mut fid_mr,
    base_addr: *mut u64,
    raw_key: *mut u8,
    key_size: *mut usize,
    flags: u64,
) -> Result<(), Errno> {
    let mut attr = fi_mr_raw_attr { flags, base_addr, raw_key, key_size };
    // SAFETY: guaranteed by the caller; `attr` is what this command reads, during the call.
    unsafe { fi_control(mr.cast(), FI_GET_RAW_MR, (&raw mut attr).cast()) }
}

/// Maps a peer's complete key to 8 bytes for operations; freed with [`fi_mr_unmap_key`].
pub unsafe fn fi_mr_map_raw(
    domain: *mut fid_domain,
    base_addr: u64,
    raw_key: *mut u8,
    key_size: usize,
    key: *mut u64,
    flags: u64,
) -> Result<(), Errno> {
    let mut map = fi_mr_map_raw { flags, base_addr, raw_key, key_size, key };
    // SAFETY: guaranteed by the caller; `map` is what this command reads, during the call.
    unsafe { fi_control(domain.cast(), FI_MAP_RAW_MR, (&raw mut map).cast()) }
}

pub unsafe fn fi_mr_unmap_key(domain: *mut fid_domain, mut key: u64) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller; `key` is what this command reads, during the call.
    unsafe { fi_control(domain.cast(), FI_UNMAP_KEY, (&raw mut key).cast()) }
}

pub unsafe fn fi_mr_bind(mr: *mut fid_mr, other: *mut fid, flags: u64) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller; a registration begins with its fid.
    unsafe { fi_bind(mr.cast(), other, flags) }
}

pub unsafe fn fi_mr_enable(mr: *mut fid_mr) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller; a registration begins with its fid.
    unsafe { fi_control(mr.cast(), FI_ENABLE, null_mut()) }
}

// Set-up of endpoints.
forward! {
    fi_getname(ep: fid_ep, address: *mut c_void, length: *mut usize) -> c_int, FabricStatus
        = cm.getname;
    fi_setname(ep: fid_ep, address: *mut c_void, length: usize) -> c_int, FabricStatus
        = cm.setname;
    fi_getopt(ep: fid_ep, level: c_int, name: c_int, value: *mut c_void, length: *mut usize)
        -> c_int, FabricStatus = ops.getopt;
    fi_setopt(ep: fid_ep, level: c_int, name: c_int, value: *const c_void, length: usize)
        -> c_int, FabricStatus = ops.setopt;
    fi_cancel(ep: fid_ep, context: *mut c_void) -> isize, FabricStatus = ops.cancel;
}

pub unsafe fn fi_ep_bind(ep: *mut fid_ep, other: *mut fid, flags: u64) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller; an endpoint begins with its fid.
    unsafe { fi_bind(ep.cast(), other, flags) }
}

pub unsafe fn fi_enable(ep: *mut fid_ep) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller; an endpoint begins with its fid.
    unsafe { fi_control(ep.cast(), FI_ENABLE, null_mut()) }
}

// Messages. `EAGAIN` from these and all that follow: the queue is full; read completions, then retry.
forward! {
    fi_recv(ep: fid_ep, start: *mut c_void, length: usize, desc: *mut c_void, from: fi_addr_t,
        context: *mut c_void) -> isize, FabricStatus = msg.recv;
    fi_recvmsg(ep: fid_ep, msg: *const fi_msg, flags: u64) -> isize, FabricStatus = msg.recvmsg;
    fi_send(ep: fid_ep, start: *const c_void, length: usize, desc: *mut c_void, to: fi_addr_t,
        context: *mut c_void) -> isize, FabricStatus = msg.send;
    fi_sendmsg(ep: fid_ep, msg: *const fi_msg, flags: u64) -> isize, FabricStatus = msg.sendmsg;
    fi_senddata(ep: fid_ep, start: *const c_void, length: usize, desc: *mut c_void, data: u64,
        to: fi_addr_t, context: *mut c_void) -> isize, FabricStatus = msg.senddata;
    fi_inject(ep: fid_ep, start: *const c_void, length: usize, to: fi_addr_t)
        -> isize, FabricStatus = msg.inject;
    fi_injectdata(ep: fid_ep, start: *const c_void, length: usize, data: u64, to: fi_addr_t)
        -> isize, FabricStatus = msg.injectdata;
}

// Remote memory access.
forward! {
    fi_read(ep: fid_ep, start: *mut c_void, length: usize, desc: *mut c_void, from: fi_addr_t,
        remote: u64, key: u64, context: *mut c_void) -> isize, FabricStatus = rma.read;
    fi_readmsg(ep: fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize, FabricStatus
        = rma.readmsg;
    fi_write(ep: fid_ep, start: *const c_void, length: usize, desc: *mut c_void, to: fi_addr_t,
        remote: u64, key: u64, context: *mut c_void) -> isize, FabricStatus = rma.write;
    fi_writemsg(ep: fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize, FabricStatus
        = rma.writemsg;
    fi_writedata(ep: fid_ep, start: *const c_void, length: usize, desc: *mut c_void, data: u64,
        to: fi_addr_t, remote: u64, key: u64, context: *mut c_void) -> isize, FabricStatus
        = rma.writedata;
    fi_inject_write(ep: fid_ep, start: *const c_void, length: usize, to: fi_addr_t, remote: u64,
        key: u64) -> isize, FabricStatus = rma.inject;
    fi_inject_writedata(ep: fid_ep, start: *const c_void, length: usize, data: u64,
        to: fi_addr_t, remote: u64, key: u64) -> isize, FabricStatus = rma.injectdata;
}

// Atomic operations.
forward! {
    fi_atomicmsg(ep: fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize, FabricStatus
        = atomic.writemsg;
    fi_fetch_atomicmsg(ep: fid_ep, msg: *const fi_msg_atomic, result: *mut fi_ioc,
        result_desc: *mut *mut c_void, result_count: usize, flags: u64)
        -> isize, FabricStatus = atomic.readwritemsg;
    fi_compare_atomicmsg(ep: fid_ep, msg: *const fi_msg_atomic, compare: *const fi_ioc,
        compare_desc: *mut *mut c_void, compare_count: usize, result: *mut fi_ioc,
        result_desc: *mut *mut c_void, result_count: usize, flags: u64)
        -> isize, FabricStatus = atomic.compwritemsg;
    /// Whether the operation is supported; sets `count` to the maximum number of elements.
    fi_atomicvalid(ep: fid_ep, datatype: c_uint, op: c_uint, count: *mut usize)
        -> c_int, FabricStatus = atomic.writevalid;
    /// Like [`fi_atomicvalid`], for operations that return the old value.
    fi_fetch_atomicvalid(ep: fid_ep, datatype: c_uint, op: c_uint, count: *mut usize)
        -> c_int, FabricStatus = atomic.readwritevalid;
    /// Like [`fi_atomicvalid`], for operations that compare first.
    fi_compare_atomicvalid(ep: fid_ep, datatype: c_uint, op: c_uint, count: *mut usize)
        -> c_int, FabricStatus = atomic.compwritevalid;
}

// Completions.
forward! {
    /// Returns the number of completions read into `entries`, in the queue's format.
    /// `FI_EAVAIL`: the next one is an error, which [`fi_cq_readerr`] has.
    fi_cq_read(cq: fid_cq, entries: *mut c_void, count: usize) -> isize, FabricCount = ops.read;
    fi_cq_readfrom(cq: fid_cq, entries: *mut c_void, count: usize, from: *mut fi_addr_t)
        -> isize, FabricCount = ops.readfrom;
    /// Like [`fi_cq_read`], but waits up to a timeout in milliseconds; -1: forever.
    fi_cq_sread(cq: fid_cq, entries: *mut c_void, count: usize, condition: *const c_void,
        timeout: c_int) -> isize, FabricCount = ops.sread;
    fi_cq_signal(cq: fid_cq) -> c_int, FabricStatus = ops.signal;
    /// The provider's text for its `prov_errno`.
    fi_cq_strerror(cq: fid_cq, prov_errno: c_int, err_data: *const c_void, text: *mut c_char,
        length: usize) -> *const c_char, Plain = ops.strerror;
}

/// Returns 1, or 0 if there is no error to read.
#[inline]
pub unsafe fn fi_cq_readerr(
    cq: *mut fid_cq,
    entry: *mut fi_cq_err_entry,
    flags: u64,
) -> Result<usize, Errno> {
    // SAFETY: the caller's queue is alive and was created by the library with this table.
    let read = unsafe { (*(*cq).ops).readerr };
    // SAFETY: the caller's entry is writable. A library that does not know the field leaves it unchanged.
    unsafe { (*entry).src_addr = FI_ADDR_NOTAVAIL };
    // SAFETY: guaranteed by the caller.
    FabricCount::read(unsafe { read(cq, entry, flags) })
}
