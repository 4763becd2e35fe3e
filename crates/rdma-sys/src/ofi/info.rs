//! A provider's offer, or the hints for a query: `fi_info` and its parts.
//!
//! The library allocates and frees these; hints are filled in a struct that it allocated
//! ([`fi_allocinfo`](super::Ofi::fi_allocinfo)). They are declared as of `FABRIC_1.3`, the oldest
//! supported version. Every later one appended fields, which are not declared here, so that no
//! code accesses memory beyond what the oldest library allocated:
//!
//! | version | in libfabric | appended |
//! |---|---|---|
//! | `FABRIC_1.7` | 1.20 | `fi_domain_attr`: `max_ep_auth_key` |
//! | `FABRIC_1.8` | 2.0 | `fi_domain_attr`: `max_group_id` |
//! | `FABRIC_1.9` | 2.5 | `fi_domain_attr`: `max_cntr_value`, `max_err_cntr_value` |
//!
//! (`FABRIC_1.10`, which appends to `fi_ep_attr` too, is in no release as of 2.6.)
//!
//! The library frees its strings with `free`: replacements must be allocated by `strdup`.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::objects::{fid, fid_domain, fid_fabric};
use crate::layout::{Match, c_structs};

c_structs! {
    /// A provider on one device or interface, or the hints of a query; a linked list.
    (Match::Prefix)
    pub struct fi_info {
        pub next: *mut fi_info,
        pub caps: u64,
        pub mode: u64,
        pub addr_format: u32,
        pub src_addrlen: usize,
        pub dest_addrlen: usize,
        pub src_addr: *mut c_void,
        pub dest_addr: *mut c_void,
        pub handle: *mut fid,
        pub tx_attr: *mut fi_tx_attr,
        pub rx_attr: *mut fi_rx_attr,
        pub ep_attr: *mut fi_ep_attr,
        pub domain_attr: *mut fi_domain_attr,
        pub fabric_attr: *mut fi_fabric_attr,
        /// Null if the provider does not describe its device.
        pub nic: *mut fid_nic,
    }

    /// Transmit attributes of an endpoint.
    (Match::Prefix)
    pub struct fi_tx_attr {
        pub caps: u64,
        pub mode: u64,
        pub op_flags: u64,
        pub msg_order: u64,
        pub comp_order: u64,
        pub inject_size: usize,
        pub size: usize,
        pub iov_limit: usize,
        pub rma_iov_limit: usize,
        pub tclass: u32,
    }

    /// Receive attributes of an endpoint.
    (Match::Prefix)
    pub struct fi_rx_attr {
        pub caps: u64,
        pub mode: u64,
        pub op_flags: u64,
        pub msg_order: u64,
        pub comp_order: u64,
        pub total_buffered_recv: usize,
        pub size: usize,
        pub iov_limit: usize,
    }

    /// Attributes of an endpoint.
    (Match::Prefix)
    pub struct fi_ep_attr {
        pub r#type: c_uint,
        pub protocol: u32,
        pub protocol_version: u32,
        pub max_msg_size: usize,
        pub msg_prefix_size: usize,
        pub max_order_raw_size: usize,
        pub max_order_war_size: usize,
        pub max_order_waw_size: usize,
        pub mem_tag_format: u64,
        pub tx_ctx_cnt: usize,
        pub rx_ctx_cnt: usize,
        pub auth_key_size: usize,
        pub auth_key: *mut u8,
    }

    /// Attributes of a domain.
    (Match::Prefix)
    pub struct fi_domain_attr {
        pub domain: *mut fid_domain,
        pub name: *mut c_char,
        pub threading: c_uint,
        pub control_progress: c_uint,
        pub data_progress: c_uint,
        pub resource_mgmt: c_uint,
        pub av_type: c_uint,
        pub mr_mode: c_int,
        pub mr_key_size: usize,
        pub cq_data_size: usize,
        pub cq_cnt: usize,
        pub ep_cnt: usize,
        pub tx_ctx_cnt: usize,
        pub rx_ctx_cnt: usize,
        pub max_ep_tx_ctx: usize,
        pub max_ep_rx_ctx: usize,
        pub max_ep_stx_ctx: usize,
        pub max_ep_srx_ctx: usize,
        pub cntr_cnt: usize,
        pub mr_iov_limit: usize,
        pub caps: u64,
        pub mode: u64,
        pub auth_key: *mut u8,
        pub auth_key_size: usize,
        pub max_err_data: usize,
        pub mr_cnt: usize,
        pub tclass: u32,
    }

    /// Attributes of a fabric: the provider and the network.
    (Match::Prefix)
    pub struct fi_fabric_attr {
        pub fabric: *mut fid_fabric,
        pub name: *mut c_char,
        pub prov_name: *mut c_char,
        pub prov_version: u32,
        pub api_version: u32,
    }

    /// The device of an `fi_info`.
    (Match::Prefix)
    pub struct fid_nic {
        pub fid: fid,
        pub device_attr: *mut fi_device_attr,
        pub bus_attr: *mut fi_bus_attr,
        pub link_attr: *mut fi_link_attr,
        pub prov_attr: *mut c_void,
    }

    /// The identification of a device.
    (Match::Prefix)
    pub struct fi_device_attr {
        pub name: *mut c_char,
        pub device_id: *mut c_char,
        pub device_version: *mut c_char,
        pub vendor_id: *mut c_char,
        pub driver: *mut c_char,
        pub firmware: *mut c_char,
    }

    /// A PCI address.
    (Match::Exact)
    pub struct fi_pci_attr {
        pub domain_id: u16,
        pub bus_id: u8,
        pub device_id: u8,
        pub function_id: u8,
    }

    /// The bus address of a device. (In C a union, with only this variant.)
    (Match::Prefix)
    pub struct fi_bus_attr {
        pub bus_type: c_uint,
        pub attr: fi_pci_attr,
    }

    /// The port of a device.
    (Match::Prefix)
    pub struct fi_link_attr {
        pub address: *mut c_char,
        pub mtu: usize,
        /// Bits per second.
        pub speed: usize,
        pub state: c_uint,
        pub network_type: *mut c_char,
    }
}
