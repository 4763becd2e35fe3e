//! Work requests and their completions.

use std::ffi::{c_int, c_uint, c_void};

use super::objects::{ibv_ah, ibv_mw, ibv_mw_bind_info};
use crate::layout::{Field, Layout, Match, c_structs};

c_structs! {
    /// A piece of registered memory.
    (Match::Exact)
    pub struct ibv_sge {
        pub addr: u64,
        pub length: u32,
        pub lkey: u32,
    }

    /// Inline data, to be copied into the work request.
    (Match::Exact)
    pub struct ibv_data_buf {
        pub addr: *mut c_void,
        pub length: usize,
    }

    /// A send work request.
    (Match::Exact)
    pub struct ibv_send_wr {
        pub wr_id: u64,
        pub next: *mut ibv_send_wr,
        pub sg_list: *mut ibv_sge,
        pub num_sge: c_int,
        pub opcode: c_uint,
        pub send_flags: c_uint,
        /// Network byte order; for `*_INV` the key to invalidate.
        pub imm_data: u32,
        pub wr: SendTarget,
        pub qp_type: XrcTarget,
        pub bind_mw: BindMw,
    }

    /// A receive work request.
    (Match::Exact)
    pub struct ibv_recv_wr {
        pub wr_id: u64,
        pub next: *mut ibv_recv_wr,
        pub sg_list: *mut ibv_sge,
        pub num_sge: c_int,
    }

    /// A work completion.
    (Match::Exact)
    pub struct ibv_wc {
        pub wr_id: u64,
        pub status: c_uint,
        pub opcode: c_uint,
        pub vendor_err: u32,
        pub byte_len: u32,
        /// Network byte order; with `IBV_WC_WITH_INV` the invalidated key.
        pub imm_data: u32,
        pub qp_num: u32,
        pub src_qp: u32,
        pub wc_flags: c_uint,
        pub pkey_index: u16,
        pub slid: u16,
        pub sl: u8,
        pub dlid_path_bits: u8,
    }
}

/// The target of a send work request; the opcode determines the field.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "C's own names")]
pub union SendTarget {
    pub rdma: RdmaTarget,
    pub atomic: AtomicTarget,
    pub ud: UdTarget,
}

/// The target of a write or read.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "C's own names")]
pub struct RdmaTarget {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// The target and operands of an atomic operation.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "C's own names")]
pub struct AtomicTarget {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// The target of a datagram.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "C's own names")]
pub struct UdTarget {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// The shared receive queue, for XRC, which is not used here.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "C's own names")]
pub struct XrcTarget {
    pub remote_srqn: u32,
}

/// The memory window a work request binds. (In C a union with segmentation fields of raw packets.)
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "C's own names")]
pub struct BindMw {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}

macro_rules! nested {
    ($c:literal, $($path:ident).+, $ty:ty) => {
        Field {
            name: $c,
            offset: std::mem::offset_of!(ibv_send_wr, $($path).+),
            size: size_of::<$ty>(),
            type_text: stringify!($ty),
        }
    };
}

/// The fields inside the unions of [`ibv_send_wr`], which C does not name as types.
#[doc(hidden)]
pub const NESTED: &[Layout] = &[Layout {
    name: "ibv_send_wr",
    kind: "struct",
    matches: Match::Exact,
    size: size_of::<ibv_send_wr>(),
    fields: &[
        nested!("wr.rdma.remote_addr", wr.rdma.remote_addr, u64),
        nested!("wr.rdma.rkey", wr.rdma.rkey, u32),
        nested!("wr.atomic.remote_addr", wr.atomic.remote_addr, u64),
        nested!("wr.atomic.compare_add", wr.atomic.compare_add, u64),
        nested!("wr.atomic.swap", wr.atomic.swap, u64),
        nested!("wr.atomic.rkey", wr.atomic.rkey, u32),
        nested!("wr.ud.ah", wr.ud.ah, *mut ibv_ah),
        nested!("wr.ud.remote_qpn", wr.ud.remote_qpn, u32),
        nested!("wr.ud.remote_qkey", wr.ud.remote_qkey, u32),
        nested!("qp_type.xrc.remote_srqn", qp_type.remote_srqn, u32),
        nested!("bind_mw.mw", bind_mw.mw, *mut ibv_mw),
        nested!("bind_mw.rkey", bind_mw.rkey, u32),
        nested!("bind_mw.bind_info", bind_mw.bind_info, ibv_mw_bind_info),
    ],
}];
