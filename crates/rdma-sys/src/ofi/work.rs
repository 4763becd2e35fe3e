//! Operations and their completions.

use std::ffi::{c_int, c_uint, c_void};

use libc::iovec;

use super::fi_addr_t;
use crate::layout::{Match, c_structs};

c_structs! {
    /// A message to send, or a receive.
    (Match::Exact)
    pub struct fi_msg {
        pub msg_iov: *const iovec,
        /// A descriptor per piece if `FI_MR_LOCAL` requires it, else null.
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub context: *mut c_void,
        pub data: u64,
    }

    /// A piece of a peer's memory.
    (Match::Exact)
    pub struct fi_rma_iov {
        pub addr: u64,
        pub len: usize,
        pub key: u64,
    }

    /// A write to a peer's memory, or a read of it.
    (Match::Exact)
    pub struct fi_msg_rma {
        pub msg_iov: *const iovec,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub rma_iov: *const fi_rma_iov,
        pub rma_iov_count: usize,
        pub context: *mut c_void,
        pub data: u64,
    }

    /// Local operands of an atomic; `count` is in elements, not bytes.
    (Match::Exact)
    pub struct fi_ioc {
        pub addr: *mut c_void,
        pub count: usize,
    }

    /// Remote operands of an atomic.
    (Match::Exact)
    pub struct fi_rma_ioc {
        pub addr: u64,
        pub count: usize,
        pub key: u64,
    }

    /// An atomic operation.
    (Match::Exact)
    pub struct fi_msg_atomic {
        pub msg_iov: *const fi_ioc,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub rma_iov: *const fi_rma_ioc,
        pub rma_iov_count: usize,
        pub datatype: c_uint,
        pub op: c_uint,
        pub context: *mut c_void,
        pub data: u64,
    }

    /// Memory for the provider while an operation is in flight, if its mode has `FI_CONTEXT`.
    (Match::Exact)
    pub struct fi_context {
        pub internal: [*mut c_void; 4],
    }

    /// The same for `FI_CONTEXT2`.
    (Match::Exact)
    pub struct fi_context2 {
        pub internal: [*mut c_void; 8],
    }

    /// A completion in `FI_CQ_FORMAT_MSG`.
    (Match::Exact)
    pub struct fi_cq_msg_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
    }

    /// A completion in `FI_CQ_FORMAT_DATA`.
    (Match::Exact)
    pub struct fi_cq_data_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
        pub buf: *mut c_void,
        pub data: u64,
    }

    /// A failed completion.
    (Match::Ahead)
    pub struct fi_cq_err_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
        pub buf: *mut c_void,
        pub data: u64,
        pub tag: u64,
        pub olen: usize,
        /// Converted by [`Errno::of_entry`](crate::Errno::of_entry).
        pub err: c_int,
        pub prov_errno: c_int,
        /// A buffer of the caller with its size, or null: then the provider's, valid until the next read.
        pub err_data: *mut c_void,
        pub err_data_size: usize,
        /// libfabric 1.20; `FI_ADDR_NOTAVAIL` if the library is older.
        pub src_addr: fi_addr_t,
    }
}
