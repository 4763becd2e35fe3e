//! Devices, ports and GIDs, and the function tables of an open device.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::pthread_mutex_t;

use super::objects::*;
use super::work::*;
use crate::layout::{Match, Unused, c_structs};

/// A global identifier: 16 bytes in network order. (A union in C, of these bytes and their halves.)
#[repr(C, align(8))]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "C's own name")]
pub struct ibv_gid {
    /// Subnet prefix, then interface id.
    pub raw: [u8; 16],
}

/// The port attributes of the first ABI: a prefix of [`ibv_port_attr`], filled by old libraries.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's own name")]
pub struct _compat_ibv_port_attr {
    _opaque: [u8; 0],
}

c_structs! {
    /// One entry of a GID table.
    (Match::Grows)
    pub struct ibv_gid_entry {
        pub gid: ibv_gid,
        pub gid_index: u32,
        pub port_num: u32,
        pub gid_type: u32,
        pub ndev_ifindex: u32,
    }

    /// A device that can be opened.
    (Match::Exact)
    pub struct ibv_device {
        pub _ops: [Unused; 2],
        pub node_type: c_int,
        pub transport_type: c_int,
        pub name: [c_char; 64],
        pub dev_name: [c_char; 64],
        pub dev_path: [c_char; 256],
        pub ibdev_path: [c_char; 256],
    }

    /// The attributes of a device.
    (Match::Exact)
    pub struct ibv_device_attr {
        pub fw_ver: [c_char; 64],
        /// Network byte order.
        pub node_guid: u64,
        /// Network byte order.
        pub sys_image_guid: u64,
        pub max_mr_size: u64,
        pub page_size_cap: u64,
        pub vendor_id: u32,
        pub vendor_part_id: u32,
        pub hw_ver: u32,
        pub max_qp: c_int,
        pub max_qp_wr: c_int,
        pub device_cap_flags: c_uint,
        pub max_sge: c_int,
        pub max_sge_rd: c_int,
        pub max_cq: c_int,
        pub max_cqe: c_int,
        pub max_mr: c_int,
        pub max_pd: c_int,
        pub max_qp_rd_atom: c_int,
        pub max_ee_rd_atom: c_int,
        pub max_res_rd_atom: c_int,
        pub max_qp_init_rd_atom: c_int,
        pub max_ee_init_rd_atom: c_int,
        pub atomic_cap: c_uint,
        pub max_ee: c_int,
        pub max_rdd: c_int,
        pub max_mw: c_int,
        pub max_raw_ipv6_qp: c_int,
        pub max_raw_ethy_qp: c_int,
        pub max_mcast_grp: c_int,
        pub max_mcast_qp_attach: c_int,
        pub max_total_mcast_qp_attach: c_int,
        pub max_ah: c_int,
        pub max_fmr: c_int,
        pub max_map_per_fmr: c_int,
        pub max_srq: c_int,
        pub max_srq_wr: c_int,
        pub max_srq_sge: c_int,
        pub max_pkeys: u16,
        pub local_ca_ack_delay: u8,
        pub phys_port_cnt: u8,
    }

    /// Empty so far: the extensible argument of `ibv_query_device_ex`.
    (Match::Grows)
    pub struct ibv_query_device_ex_input {
        pub comp_mask: u32,
    }

    /// On-demand paging, by operation.
    (Match::Exact)
    pub struct ibv_odp_caps {
        pub general_caps: u64,
        /// RC, UC, UD.
        pub per_transport_caps: [u32; 3],
    }

    /// TCP segmentation offload, for raw packets.
    (Match::Exact)
    pub struct ibv_tso_caps {
        pub max_tso: u32,
        pub supported_qpts: u32,
    }

    /// Receive-side scaling, for raw packets.
    (Match::Exact)
    pub struct ibv_rss_caps {
        pub supported_qpts: u32,
        pub max_rwq_indirection_tables: u32,
        pub max_rwq_indirection_table_size: u32,
        pub rx_hash_fields_mask: u64,
        pub rx_hash_function: u8,
    }

    /// Rate limits in kbit/s.
    (Match::Exact)
    pub struct ibv_packet_pacing_caps {
        pub qp_rate_limit_min: u32,
        pub qp_rate_limit_max: u32,
        pub supported_qpts: u32,
    }

    /// Tag matching by the NIC.
    (Match::Exact)
    pub struct ibv_tm_caps {
        pub max_rndv_hdr_size: u32,
        pub max_num_tags: u32,
        pub flags: u32,
        pub max_ops: u32,
        pub max_sge: u32,
    }

    /// Completion moderation.
    (Match::Exact)
    pub struct ibv_cq_moderation_caps {
        pub max_cq_count: u16,
        pub max_cq_period: u16,
    }

    /// Atomics over PCI Express, by operand size.
    (Match::Exact)
    pub struct ibv_pci_atomic_caps {
        pub fetch_add: u16,
        pub swap: u16,
        pub compare_swap: u16,
    }

    /// The attributes of a device, including later additions.
    (Match::Grows)
    pub struct ibv_device_attr_ex {
        pub orig_attr: ibv_device_attr,
        pub comp_mask: u32,
        pub odp_caps: ibv_odp_caps,
        pub completion_timestamp_mask: u64,
        /// kHz.
        pub hca_core_clock: u64,
        pub device_cap_flags_ex: u64,
        pub tso_caps: ibv_tso_caps,
        pub rss_caps: ibv_rss_caps,
        pub max_wq_type_rq: u32,
        pub packet_pacing_caps: ibv_packet_pacing_caps,
        pub raw_packet_caps: u32,
        pub tm_caps: ibv_tm_caps,
        pub cq_mod_caps: ibv_cq_moderation_caps,
        pub max_dm_size: u64,
        pub pci_atomic_caps: ibv_pci_atomic_caps,
        pub xrc_odp_caps: u32,
        pub phys_port_cnt_ex: u32,
    }

    /// The attributes of a port.
    (Match::Grows)
    pub struct ibv_port_attr {
        pub state: c_uint,
        pub max_mtu: c_uint,
        pub active_mtu: c_uint,
        pub gid_tbl_len: c_int,
        pub port_cap_flags: u32,
        pub max_msg_sz: u32,
        pub bad_pkey_cntr: u32,
        pub qkey_viol_cntr: u32,
        pub pkey_tbl_len: u16,
        pub lid: u16,
        pub sm_lid: u16,
        pub lmc: u8,
        pub max_vl_num: u8,
        pub sm_sl: u8,
        pub subnet_timeout: u8,
        pub init_type_reply: u8,
        pub active_width: u8,
        pub active_speed: u8,
        pub phys_state: u8,
        pub link_layer: u8,
        pub flags: u8,
        pub port_cap_flags2: u16,
    }

    /// An asynchronous event of a device, port, queue pair or queue.
    (Match::Exact)
    pub struct ibv_async_event {
        /// A pointer to the queue pair, queue or shared queue; for port events the port number.
        pub element: AsyncElement,
        pub event_type: c_uint,
    }

    /// The functions of the first ABI that are still called through the device.
    (Match::Exact)
    pub struct ibv_context_ops {
        pub _compat_query_device: Unused,
        pub _compat_query_port: Unused,
        pub _compat_alloc_pd: Unused,
        pub _compat_dealloc_pd: Unused,
        pub _compat_reg_mr: Unused,
        pub _compat_rereg_mr: Unused,
        pub _compat_dereg_mr: Unused,
        pub alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, c_uint) -> *mut ibv_mw>,
        pub bind_mw: Unused,
        pub dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
        pub _compat_create_cq: Unused,
        pub poll_cq: unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int,
        pub req_notify_cq: unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int,
        pub _compat_cq_event: Unused,
        pub _compat_resize_cq: Unused,
        pub _compat_destroy_cq: Unused,
        pub _compat_create_srq: Unused,
        pub _compat_modify_srq: Unused,
        pub _compat_query_srq: Unused,
        pub _compat_destroy_srq: Unused,
        pub post_srq_recv: Option<unsafe extern "C" fn(
            *mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
        pub _compat_create_qp: Unused,
        pub _compat_query_qp: Unused,
        pub _compat_modify_qp: Unused,
        pub _compat_destroy_qp: Unused,
        pub post_send: unsafe extern "C" fn(
            *mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
        pub post_recv: unsafe extern "C" fn(
            *mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
        pub _compat_create_ah: Unused,
        pub _compat_destroy_ah: Unused,
        pub _compat_attach_mcast: Unused,
        pub _compat_detach_mcast: Unused,
        pub _compat_async_event: Unused,
    }

    /// An open device.
    (Match::Prefix)
    pub struct ibv_context {
        pub device: *mut ibv_device,
        pub ops: ibv_context_ops,
        pub cmd_fd: c_int,
        pub async_fd: c_int,
        pub num_comp_vectors: c_int,
        pub mutex: pthread_mutex_t,
        pub abi_compat: *mut c_void,
    }

    /// Contains every [`ibv_context`] of libraries since 2012 as its last field, after functions that were added
    /// later. New ones are added at the front, so it is addressed from its end.
    (Match::Before("context"))
    pub struct verbs_context {
        pub query_port: Option<unsafe extern "C" fn(
            *mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>,
        pub advise_mr: Unused,
        pub alloc_null_mr: Unused,
        pub read_counters: Unused,
        pub attach_counters_point_flow: Unused,
        pub create_counters: Unused,
        pub destroy_counters: Unused,
        pub reg_dm_mr: Unused,
        pub alloc_dm: Unused,
        pub free_dm: Unused,
        pub modify_flow_action_esp: Unused,
        pub destroy_flow_action: Unused,
        pub create_flow_action_esp: Unused,
        pub modify_qp_rate_limit: Unused,
        pub alloc_parent_domain: Unused,
        pub dealloc_td: Unused,
        pub alloc_td: Unused,
        pub modify_cq: Unused,
        pub post_srq_ops: Unused,
        pub destroy_rwq_ind_table: Unused,
        pub create_rwq_ind_table: Unused,
        pub destroy_wq: Unused,
        pub modify_wq: Unused,
        pub create_wq: Unused,
        pub query_rt_values: Unused,
        pub create_cq_ex: Option<unsafe extern "C" fn(
            *mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
        pub r#priv: Unused,
        pub query_device_ex: Option<unsafe extern "C" fn(
            *mut ibv_context, *const ibv_query_device_ex_input, *mut ibv_device_attr_ex, usize,
        ) -> c_int>,
        pub ibv_destroy_flow: Unused,
        pub ABI_placeholder2: Unused,
        pub ibv_create_flow: Unused,
        pub ABI_placeholder1: Unused,
        pub open_qp: Unused,
        pub create_qp_ex: Option<unsafe extern "C" fn(
            *mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
        pub get_srq_num: Unused,
        pub create_srq_ex: Unused,
        pub open_xrcd: Unused,
        pub close_xrcd: Unused,
        pub _ABI_placeholder3: u64,
        /// The size of this struct in the library, counted from its end.
        pub sz: usize,
        pub context: ibv_context,
    }
}

/// The object of an asynchronous event; `event_type` determines the field.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "C's own names")]
pub union AsyncElement {
    pub cq: *mut ibv_cq,
    pub qp: *mut ibv_qp,
    pub srq: *mut ibv_srq,
    pub port_num: c_int,
}
