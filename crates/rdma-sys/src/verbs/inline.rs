//! The inline functions of the header: they call through the tables of an open device.
//!
//! Unsafe here: each dereferences pointers exactly as the C function of the same name does, and has the
//! same requirements: live objects of the library, used according to their manual page; for `ibv_wr_*`
//! and `ibv_wc_read_*` also that the operation was requested when the object was created.
#![allow(unsafe_code, reason = "ports of C inlines")]
#![allow(clippy::missing_safety_doc, reason = "one promise for all of them, stated above")]
#![allow(missing_docs, reason = "C's own names, documented by their manual pages")]

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;
use std::ptr::NonNull;

use super::Verbs;
use super::consts::IBV_QP_INIT_ATTR_PD;
use super::device::*;
use super::objects::*;
use super::work::*;
use crate::returns::{Convention, Errno, ErrnoValue, NegativeCount, NullErrno};

const NOT_SUPPORTED: Errno = Errno(libc::EOPNOTSUPP);

#[inline]
pub unsafe fn ibv_post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> Result<(), Errno> {
    // SAFETY: the caller's queue pair is alive, and so is the device it points to.
    let post = unsafe { (*(*qp).context).ops.post_send };
    // SAFETY: guaranteed by the caller.
    ErrnoValue::read(unsafe { post(qp, wr, bad) })
}

#[inline]
pub unsafe fn ibv_post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> Result<(), Errno> {
    // SAFETY: the caller's queue pair is alive, and so is the device it points to.
    let post = unsafe { (*(*qp).context).ops.post_recv };
    // SAFETY: guaranteed by the caller.
    ErrnoValue::read(unsafe { post(qp, wr, bad) })
}

#[inline]
pub unsafe fn ibv_post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> Result<(), Errno> {
    // SAFETY: the caller's shared queue is alive, and so is the device it points to.
    let post = unsafe { (*(*srq).context).ops.post_srq_recv };
    let post = post.ok_or(NOT_SUPPORTED)?;
    // SAFETY: guaranteed by the caller.
    ErrnoValue::read(unsafe { post(srq, wr, bad) })
}

/// Fills at most `entries` completions and returns their number.
#[inline]
pub unsafe fn ibv_poll_cq(
    cq: *mut ibv_cq,
    entries: c_int,
    wc: *mut ibv_wc,
) -> Result<usize, Errno> {
    // SAFETY: the caller's completion queue is alive, and so is the device it points to.
    let poll = unsafe { (*(*cq).context).ops.poll_cq };
    // SAFETY: guaranteed by the caller.
    NegativeCount::read(unsafe { poll(cq, entries, wc) })
}

#[inline]
pub unsafe fn ibv_req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> Result<(), Errno> {
    // SAFETY: the caller's completion queue is alive, and so is the device it points to.
    let request = unsafe { (*(*cq).context).ops.req_notify_cq };
    // SAFETY: guaranteed by the caller.
    ErrnoValue::read(unsafe { request(cq, solicited_only) })
}

pub unsafe fn ibv_alloc_mw(pd: *mut ibv_pd, kind: c_uint) -> Result<NonNull<ibv_mw>, Errno> {
    // SAFETY: the caller's domain is alive, and so is the device it points to.
    let alloc = unsafe { (*(*pd).context).ops.alloc_mw };
    let alloc = alloc.ok_or(NOT_SUPPORTED)?;
    // SAFETY: guaranteed by the caller.
    NullErrno::read(unsafe { alloc(pd, kind) })
}

pub unsafe fn ibv_dealloc_mw(mw: *mut ibv_mw) -> Result<(), Errno> {
    // SAFETY: the caller's window is alive, and so is the device it points to.
    let dealloc = unsafe { (*(*mw).context).ops.dealloc_mw };
    let dealloc = dealloc.ok_or(NOT_SUPPORTED)?;
    // SAFETY: guaranteed by the caller.
    ErrnoValue::read(unsafe { dealloc(mw) })
}

/// The device's attributes; fields are zero if the library or the driver is older.
pub unsafe fn ibv_query_device_ex(
    verbs: &Verbs,
    context: *mut ibv_context,
    attr: *mut ibv_device_attr_ex,
) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller.
    let extended = unsafe { extended(context, offset_of!(verbs_context, query_device_ex)) };
    // SAFETY: `extended` returns a pointer only if the library has this field.
    let query = extended.and_then(|verbs| unsafe { (*verbs.as_ptr()).query_device_ex });
    if let Some(query) = query {
        let size = size_of::<ibv_device_attr_ex>();
        // SAFETY: guaranteed by the caller; the size is that of the struct behind `attr`.
        let answer = unsafe { query(context, std::ptr::null(), attr, size) };
        if !matches!(answer, libc::EOPNOTSUPP | libc::ENOSYS) {
            return ErrnoValue::read(answer);
        }
    }
    // SAFETY: the caller's struct is writable; all zero bits are a valid value of it.
    unsafe { attr.write_bytes(0, 1) };
    // SAFETY: guaranteed by the caller; the plain struct is the first field of the extended one.
    unsafe { verbs.ibv_query_device(context, attr.cast()) }
}

/// The port's attributes, by the library's newest call.
pub unsafe fn ibv_query_port(
    verbs: &Verbs,
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller.
    let extended = unsafe { extended(context, offset_of!(verbs_context, query_port)) };
    // SAFETY: `extended` returns a pointer only if the library has this field.
    let query = extended.and_then(|verbs| unsafe { (*verbs.as_ptr()).query_port });
    let Some(query) = query else {
        // The old call fills only a prefix.
        // SAFETY: the caller's struct is writable; all zero bits are a valid value of it.
        unsafe { attr.write_bytes(0, 1) };
        // SAFETY: guaranteed by the caller.
        return unsafe { verbs.ibv_query_port(context, port, attr.cast()) };
    };
    // SAFETY: guaranteed by the caller; the size is that of the struct behind `attr`.
    ErrnoValue::read(unsafe { query(context, port, attr, size_of::<ibv_port_attr>()) })
}

pub unsafe fn ibv_create_qp_ex(
    verbs: &Verbs,
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> Result<NonNull<ibv_qp>, Errno> {
    // SAFETY: the caller's attributes are alive.
    let (mask, pd) = unsafe { ((*attr).comp_mask, (*attr).pd) };
    if mask == IBV_QP_INIT_ATTR_PD {
        // SAFETY: guaranteed by the caller; the plain struct is a prefix of the extended one.
        return unsafe { verbs.ibv_create_qp(pd, attr.cast()) };
    }
    // SAFETY: guaranteed by the caller.
    let extended = unsafe { extended(context, offset_of!(verbs_context, create_qp_ex)) };
    // SAFETY: `extended` returns a pointer only if the library has this field.
    let create = extended.and_then(|verbs| unsafe { (*verbs.as_ptr()).create_qp_ex });
    let create = create.ok_or(NOT_SUPPORTED)?;
    // SAFETY: guaranteed by the caller.
    NullErrno::read(unsafe { create(context, attr) })
}

pub unsafe fn ibv_create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> Result<NonNull<ibv_cq_ex>, Errno> {
    // SAFETY: guaranteed by the caller.
    let extended = unsafe { extended(context, offset_of!(verbs_context, create_cq_ex)) };
    // SAFETY: `extended` returns a pointer only if the library has this field.
    let create = extended.and_then(|verbs| unsafe { (*verbs.as_ptr()).create_cq_ex });
    let create = create.ok_or(NOT_SUPPORTED)?;
    // SAFETY: guaranteed by the caller.
    NullErrno::read(unsafe { create(context, attr) })
}

/// The `verbs_context` of an open device, if the library's version includes `field`.
unsafe fn extended(context: *mut ibv_context, field: usize) -> Option<NonNull<verbs_context>> {
    // SAFETY: the caller's device is open.
    let marker = unsafe { (*context).abi_compat };
    if marker.addr() != usize::MAX {
        return None;
    }
    // SAFETY: the marker shows that this context is the last field of a verbs_context; in every
    // version the size directly precedes it.
    let size = unsafe { *context.byte_sub(BEFORE_CONTEXT).cast::<usize>() };
    if size < size_of::<verbs_context>() - field {
        return None;
    }
    // An older library has fewer fields at the front: the address may be before its allocation, and
    // only the fields that `size` covers are accessed.
    let verbs = context.wrapping_byte_sub(offset_of!(verbs_context, context));
    NonNull::new(verbs.cast::<verbs_context>())
}

/// The distance from the size field to the context.
const BEFORE_CONTEXT: usize = offset_of!(verbs_context, context) - offset_of!(verbs_context, sz);

/// Ports of the inline functions that only call one slot of a table.
macro_rules! forward {
    ($( $name:ident($object:ident: $table:ty $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)? = $slot:ident; )*) => { $(
        #[inline]
        pub unsafe fn $name($object: *mut $table $(, $arg: $ty)*) $(-> $ret)? {
            // SAFETY: the caller's object is alive and was created by the library.
            let call = unsafe { (*$object).$slot };
            // SAFETY: the caller requested this operation when it created the object, so the
            // provider has filled the slot.
            let call = unsafe { call.unwrap_unchecked() };
            // SAFETY: guaranteed by the caller.
            unsafe { call($object $(, $arg)*) }
        }
    )* };
}

forward! {
    ibv_wr_start(qp: ibv_qp_ex) = wr_start;
    ibv_wr_abort(qp: ibv_qp_ex) = wr_abort;
    ibv_wr_rdma_write(qp: ibv_qp_ex, rkey: u32, remote: u64) = wr_rdma_write;
    ibv_wr_rdma_write_imm(qp: ibv_qp_ex, rkey: u32, remote: u64, imm: u32) = wr_rdma_write_imm;
    ibv_wr_rdma_read(qp: ibv_qp_ex, rkey: u32, remote: u64) = wr_rdma_read;
    ibv_wr_atomic_cmp_swp(qp: ibv_qp_ex, rkey: u32, remote: u64, compare: u64, swap: u64)
        = wr_atomic_cmp_swp;
    ibv_wr_atomic_fetch_add(qp: ibv_qp_ex, rkey: u32, remote: u64, add: u64)
        = wr_atomic_fetch_add;
    ibv_wr_send(qp: ibv_qp_ex) = wr_send;
    ibv_wr_send_imm(qp: ibv_qp_ex, imm: u32) = wr_send_imm;
    ibv_wr_send_inv(qp: ibv_qp_ex, rkey: u32) = wr_send_inv;
    ibv_wr_local_inv(qp: ibv_qp_ex, rkey: u32) = wr_local_inv;
    ibv_wr_bind_mw(qp: ibv_qp_ex, mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info)
        = wr_bind_mw;
    ibv_wr_set_ud_addr(qp: ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) = wr_set_ud_addr;
    ibv_wr_set_sge(qp: ibv_qp_ex, lkey: u32, addr: u64, length: u32) = wr_set_sge;
    ibv_wr_set_sge_list(qp: ibv_qp_ex, count: usize, list: *const ibv_sge) = wr_set_sge_list;
    ibv_wr_set_inline_data(qp: ibv_qp_ex, addr: *mut c_void, length: usize) = wr_set_inline_data;
    ibv_wr_set_inline_data_list(qp: ibv_qp_ex, count: usize, list: *const ibv_data_buf)
        = wr_set_inline_data_list;
    ibv_end_poll(cq: ibv_cq_ex) = end_poll;
    ibv_wc_read_opcode(cq: ibv_cq_ex) -> c_uint = read_opcode;
    ibv_wc_read_vendor_err(cq: ibv_cq_ex) -> u32 = read_vendor_err;
    ibv_wc_read_byte_len(cq: ibv_cq_ex) -> u32 = read_byte_len;
    ibv_wc_read_imm_data(cq: ibv_cq_ex) -> u32 = read_imm_data;
    ibv_wc_read_qp_num(cq: ibv_cq_ex) -> u32 = read_qp_num;
    ibv_wc_read_src_qp(cq: ibv_cq_ex) -> u32 = read_src_qp;
    ibv_wc_read_wc_flags(cq: ibv_cq_ex) -> c_uint = read_wc_flags;
}

#[inline]
pub unsafe fn ibv_wr_complete(qp: *mut ibv_qp_ex) -> Result<(), Errno> {
    // SAFETY: the caller's queue pair is alive and was created by the library.
    let complete = unsafe { (*qp).wr_complete };
    // SAFETY: every provider that creates such an object fills this slot.
    let complete = unsafe { complete.unwrap_unchecked() };
    // SAFETY: guaranteed by the caller.
    ErrnoValue::read(unsafe { complete(qp) })
}

/// `ENOENT` if the queue is empty; then `ibv_end_poll` must not be called.
#[inline]
pub unsafe fn ibv_start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> Result<(), Errno> {
    // SAFETY: the caller's completion queue is alive and was created by the library.
    let start = unsafe { (*cq).start_poll };
    // SAFETY: every provider that creates such an object fills this slot.
    let start = unsafe { start.unwrap_unchecked() };
    // SAFETY: guaranteed by the caller.
    ErrnoValue::read(unsafe { start(cq, attr) })
}

/// `ENOENT` if there is no further completion.
#[inline]
pub unsafe fn ibv_next_poll(cq: *mut ibv_cq_ex) -> Result<(), Errno> {
    // SAFETY: the caller's completion queue is alive and was created by the library.
    let next = unsafe { (*cq).next_poll };
    // SAFETY: every provider that creates such an object fills this slot.
    let next = unsafe { next.unwrap_unchecked() };
    // SAFETY: guaranteed by the caller.
    ErrnoValue::read(unsafe { next(cq) })
}
