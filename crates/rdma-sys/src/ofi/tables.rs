//! The function tables of objects, which the headers' inline functions call.
//!
//! A provider fills every slot; functions that it does not support return `FI_ENOSYS`.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::fi_addr_t;
use super::info::fi_info;
use super::objects::*;
use super::work::*;
use crate::layout::{Match, Unused, c_structs};

c_structs! {
    /// Functions of every object.
    (Match::Prefix)
    pub struct fi_ops {
        pub size: usize,
        pub close: unsafe extern "C" fn(*mut fid) -> c_int,
        pub bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
        pub control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
    }

    /// Functions of a fabric.
    (Match::Prefix)
    pub struct fi_ops_fabric {
        pub size: usize,
        pub domain: unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void) -> c_int,
        pub passive_ep: Unused,
        pub eq_open: Unused,
        pub wait_open: Unused,
        pub trywait: unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int,
    }

    /// Functions of a domain.
    (Match::Prefix)
    pub struct fi_ops_domain {
        pub size: usize,
        pub av_open: unsafe extern "C" fn(*mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void) -> c_int,
        pub cq_open: unsafe extern "C" fn(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int,
        pub endpoint: unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
    }

    /// Memory registration of a domain.
    (Match::Prefix)
    pub struct fi_ops_mr {
        pub size: usize,
        pub reg: unsafe extern "C" fn(*mut fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut fid_mr, *mut c_void) -> c_int,
        pub regv: Unused,
        pub regattr: unsafe extern "C" fn(*mut fid, *const fi_mr_attr, u64, *mut *mut fid_mr) -> c_int,
    }

    /// Functions of an address vector.
    (Match::Prefix)
    pub struct fi_ops_av {
        pub size: usize,
        pub insert: unsafe extern "C" fn(*mut fid_av, *const c_void, usize, *mut fi_addr_t, u64, *mut c_void) -> c_int,
        pub insertsvc: Unused,
        pub insertsym: Unused,
        pub remove: unsafe extern "C" fn(*mut fid_av, *mut fi_addr_t, usize, u64) -> c_int,
        pub lookup: unsafe extern "C" fn(*mut fid_av, fi_addr_t, *mut c_void, *mut usize) -> c_int,
        pub straddr: unsafe extern "C" fn(*mut fid_av, *const c_void, *mut c_char, *mut usize) -> *const c_char,
    }

    /// Functions of a completion queue.
    (Match::Prefix)
    pub struct fi_ops_cq {
        pub size: usize,
        pub read: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize,
        pub readfrom: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *mut fi_addr_t) -> isize,
        pub readerr: unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize,
        pub sread: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *const c_void, c_int) -> isize,
        pub sreadfrom: Unused,
        pub signal: unsafe extern "C" fn(*mut fid_cq) -> c_int,
        pub strerror: unsafe extern "C" fn(*mut fid_cq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
    }

    /// Functions of an endpoint in any state.
    (Match::Prefix)
    pub struct fi_ops_ep {
        pub size: usize,
        pub cancel: unsafe extern "C" fn(*mut fid, *mut c_void) -> isize,
        pub getopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
        pub setopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *const c_void, usize) -> c_int,
    }

    /// The local address of an endpoint.
    (Match::Prefix)
    pub struct fi_ops_cm {
        pub size: usize,
        pub setname: unsafe extern "C" fn(*mut fid, *mut c_void, usize) -> c_int,
        pub getname: unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int,
    }

    /// Messages.
    (Match::Prefix)
    pub struct fi_ops_msg {
        pub size: usize,
        pub recv: unsafe extern "C" fn(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize,
        pub recvv: Unused,
        pub recvmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize,
        pub send: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize,
        pub sendv: Unused,
        pub sendmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize,
        pub inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t) -> isize,
        pub senddata: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, *mut c_void, u64, fi_addr_t, *mut c_void) -> isize,
        pub injectdata: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64, fi_addr_t) -> isize,
    }

    /// Reads and writes of a peer's memory.
    (Match::Prefix)
    pub struct fi_ops_rma {
        pub size: usize,
        pub read: unsafe extern "C" fn(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void) -> isize,
        pub readv: Unused,
        pub readmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize,
        pub write: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void) -> isize,
        pub writev: Unused,
        pub writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize,
        pub inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t, u64, u64) -> isize,
        pub writedata: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, *mut c_void, u64, fi_addr_t, u64, u64, *mut c_void) -> isize,
        pub injectdata: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64, fi_addr_t, u64, u64) -> isize,
    }

    /// Atomic operations on a peer's memory.
    (Match::Prefix)
    pub struct fi_ops_atomic {
        pub size: usize,
        pub write: Unused,
        pub writev: Unused,
        pub writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, u64) -> isize,
        pub inject: Unused,
        pub readwrite: Unused,
        pub readwritev: Unused,
        pub readwritemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, *mut fi_ioc, *mut *mut c_void, usize, u64) -> isize,
        pub compwrite: Unused,
        pub compwritev: Unused,
        pub compwritemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, *const fi_ioc, *mut *mut c_void, usize, *mut fi_ioc, *mut *mut c_void, usize, u64) -> isize,
        pub writevalid: unsafe extern "C" fn(*mut fid_ep, c_uint, c_uint, *mut usize) -> c_int,
        pub readwritevalid: unsafe extern "C" fn(*mut fid_ep, c_uint, c_uint, *mut usize) -> c_int,
        pub compwritevalid: unsafe extern "C" fn(*mut fid_ep, c_uint, c_uint, *mut usize) -> c_int,
    }
}
