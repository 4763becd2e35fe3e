//! The objects: fabrics, domains, endpoints, queues, address vectors, memory.
//!
//! Each begins with a [`fid`], so that a pointer to it is also one to its `fid`. The library allocates
//! objects; `fi_close` closes them, in reverse order. Attributes are allocated in Rust, in the
//! size of the newest version and zero if not set, so that no library reads beyond them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::iovec;

use super::tables::*;
use crate::layout::{Match, c_structs};

c_structs! {
    /// The beginning of every object.
    (Match::Exact)
    pub struct fid {
        pub fclass: usize,
        pub context: *mut c_void,
        pub ops: *mut fi_ops,
    }

    /// An open fabric.
    (Match::Prefix)
    pub struct fid_fabric {
        pub fid: fid,
        pub ops: *mut fi_ops_fabric,
        pub api_version: u32,
    }

    /// An open domain.
    (Match::Prefix)
    pub struct fid_domain {
        pub fid: fid,
        pub ops: *mut fi_ops_domain,
        pub mr: *mut fi_ops_mr,
    }

    /// An endpoint. It may be shorter than this: a table exists only if its capability was requested.
    (Match::Prefix)
    pub struct fid_ep {
        pub fid: fid,
        pub ops: *mut fi_ops_ep,
        pub cm: *mut fi_ops_cm,
        pub msg: *mut fi_ops_msg,
        pub rma: *mut fi_ops_rma,
        pub tagged: *mut c_void,
        pub atomic: *mut fi_ops_atomic,
    }

    /// An address vector: maps handles to peers.
    (Match::Prefix)
    pub struct fid_av {
        pub fid: fid,
        pub ops: *mut fi_ops_av,
    }

    /// A completion queue.
    (Match::Prefix)
    pub struct fid_cq {
        pub fid: fid,
        pub ops: *mut fi_ops_cq,
    }

    /// Registered memory.
    (Match::Prefix)
    pub struct fid_mr {
        pub fid: fid,
        pub mem_desc: *mut c_void,
        pub key: u64,
    }

    /// The attributes of a new address vector.
    (Match::Ahead)
    pub struct fi_av_attr {
        pub r#type: c_uint,
        pub rx_ctx_bits: c_int,
        pub count: usize,
        pub ep_per_node: usize,
        pub name: *const c_char,
        pub map_addr: *mut c_void,
        pub flags: u64,
    }

    /// The attributes of a new completion queue.
    (Match::Ahead)
    pub struct fi_cq_attr {
        pub size: usize,
        pub flags: u64,
        pub format: c_uint,
        pub wait_obj: c_uint,
        pub signaling_vector: c_int,
        pub wait_cond: c_uint,
        pub wait_set: *mut c_void,
        /// In no release as of 2.6.
        pub xpu_ctx: *mut c_void,
    }

    /// The attributes of a registration.
    (Match::Ahead)
    pub struct fi_mr_attr {
        /// With `FI_MR_DMABUF` one [`fi_mr_dmabuf`].
        pub mr_iov: *const iovec,
        pub iov_count: usize,
        pub access: u64,
        pub offset: u64,
        pub requested_key: u64,
        pub context: *mut c_void,
        pub auth_key_size: usize,
        pub auth_key: *mut u8,
        /// libfabric 1.11, as what follows it.
        pub iface: c_uint,
        pub device: MrDevice,
        /// libfabric 1.19.
        pub hmem_data: *mut c_void,
        /// libfabric 1.22.
        pub page_size: usize,
        /// libfabric 2.0, as what follows it.
        pub base_mr: *const fid_mr,
        pub sub_mr_cnt: usize,
    }

    /// Memory of another device, by its dma-buf. (libfabric 1.20.)
    (Match::Exact)
    pub struct fi_mr_dmabuf {
        pub fd: c_int,
        pub offset: u64,
        pub len: usize,
        pub base_addr: *mut c_void,
    }

    /// Arguments of `FI_GET_RAW_MR`, which returns a key longer than 8 bytes.
    (Match::Exact)
    pub struct fi_mr_raw_attr {
        pub flags: u64,
        pub base_addr: *mut u64,
        pub raw_key: *mut u8,
        pub key_size: *mut usize,
    }

    /// Arguments of `FI_MAP_RAW_MR`, which maps such a key to 8 bytes.
    (Match::Exact)
    pub struct fi_mr_map_raw {
        pub flags: u64,
        pub base_addr: u64,
        pub raw_key: *mut u8,
        pub key_size: usize,
        pub key: *mut u64,
    }
}

/// The device that memory belongs to; `iface` determines the field.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "C's own names")]
pub union MrDevice {
    pub reserved: u64,
    pub cuda: c_int,
    pub ze: c_int,
    pub neuron: c_int,
    pub synapseai: c_int,
}
