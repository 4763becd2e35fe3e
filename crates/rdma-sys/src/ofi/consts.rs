//! The headers' constants, under their own names.
//!
//! All are in libfabric 1.17 unless their block names a later version. An older library
//! refuses a newer constant, or never returns it.

use std::ffi::{c_int, c_uint};

use crate::layout::constants;

/// An API version, as passed to `fi_getinfo`.
#[allow(non_snake_case, reason = "C's own name")]
pub const fn FI_VERSION(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

constants! {
    // Capabilities of an endpoint, and flags of operations and completions.
    u64 {
        FI_MSG = 1 << 1,
        FI_RMA = 1 << 2,
        FI_TAGGED = 1 << 3,
        FI_ATOMIC = 1 << 4,
        FI_READ = 1 << 8,
        FI_WRITE = 1 << 9,
        FI_RECV = 1 << 10,
        FI_SEND = 1 << 11,
        FI_TRANSMIT = 1 << 11,
        FI_REMOTE_READ = 1 << 12,
        FI_REMOTE_WRITE = 1 << 13,
        FI_MULTI_RECV = 1 << 16,
        FI_REMOTE_CQ_DATA = 1 << 17,
        FI_MORE = 1 << 18,
        FI_FENCE = 1 << 21,
        FI_COMPLETION = 1 << 24,
        FI_INJECT = 1 << 25,
        FI_INJECT_COMPLETE = 1 << 26,
        FI_TRANSMIT_COMPLETE = 1 << 27,
        FI_DELIVERY_COMPLETE = 1 << 28,
        FI_AFFINITY = 1 << 29,
        FI_SOURCE_ERR = 1 << 50,
        FI_LOCAL_COMM = 1 << 51,
        FI_REMOTE_COMM = 1 << 52,
        FI_PROV_ATTR_ONLY = 1 << 54,
        FI_NUMERICHOST = 1 << 55,
        FI_RMA_EVENT = 1 << 56,
        FI_SOURCE = 1 << 57,
        FI_DIRECTED_RECV = 1 << 59,
        FI_SELECTIVE_COMPLETION = 1 << 59,
        FI_FETCH_ATOMIC = 1 << 58,
        FI_COMPARE_ATOMIC = 1 << 59,
    }
    // Memory of accelerators. DMABUF: 1.20.
    u64 {
        FI_HMEM = 1 << 47,
        FI_HMEM_DEVICE_ONLY = 1 << 46,
        FI_MR_DMABUF = 1 << 40,
    }
    // Modes: the requirements of a provider.
    u64 {
        FI_CONTEXT = 1 << 59,
        FI_MSG_PREFIX = 1 << 58,
        FI_ASYNC_IOV = 1 << 57,
        FI_RX_CQ_DATA = 1 << 56,
        FI_CONTEXT2 = 1 << 52,
    }
    // Requirements for registrations.
    c_int {
        FI_MR_LOCAL = 1 << 2,
        FI_MR_RAW = 1 << 3,
        FI_MR_VIRT_ADDR = 1 << 4,
        FI_MR_ALLOCATED = 1 << 5,
        FI_MR_PROV_KEY = 1 << 6,
        FI_MR_MMU_NOTIFY = 1 << 7,
        FI_MR_RMA_EVENT = 1 << 8,
        FI_MR_ENDPOINT = 1 << 9,
        FI_MR_HMEM = 1 << 10,
    }
    // Ordering of operations: read, write or send after read, write or send.
    u64 {
        FI_ORDER_RAR = 1 << 0,
        FI_ORDER_RAW = 1 << 1,
        FI_ORDER_RAS = 1 << 2,
        FI_ORDER_WAR = 1 << 3,
        FI_ORDER_WAW = 1 << 4,
        FI_ORDER_WAS = 1 << 5,
        FI_ORDER_SAR = 1 << 6,
        FI_ORDER_SAW = 1 << 7,
        FI_ORDER_SAS = 1 << 8,
        FI_ORDER_RMA_RAR = 1 << 32,
        FI_ORDER_RMA_RAW = 1 << 33,
        FI_ORDER_RMA_WAR = 1 << 34,
        FI_ORDER_RMA_WAW = 1 << 35,
        FI_ORDER_ATOMIC_RAR = 1 << 36,
        FI_ORDER_ATOMIC_RAW = 1 << 37,
        FI_ORDER_ATOMIC_WAR = 1 << 38,
        FI_ORDER_ATOMIC_WAW = 1 << 39,
    }
    u32 {
        FI_FORMAT_UNSPEC = 0,
        FI_SOCKADDR = 1,
        FI_SOCKADDR_IN = 2,
        FI_SOCKADDR_IN6 = 3,
        FI_SOCKADDR_IB = 4,
        FI_ADDR_STR = 9,
        FI_ADDR_IB_UD = 11,
        FI_ADDR_EFA = 12,
    }
    u64 {
        FI_ADDR_UNSPEC = u64::MAX,
        FI_ADDR_NOTAVAIL = u64::MAX,
        FI_KEY_NOTAVAIL = u64::MAX,
    }
    c_uint {
        FI_AV_UNSPEC = 0,
        FI_AV_MAP = 1,
        FI_AV_TABLE = 2,
    }
    // Progress models. CONTROL_UNIFIED: 1.21.
    c_uint {
        FI_PROGRESS_UNSPEC = 0,
        FI_PROGRESS_AUTO = 1,
        FI_PROGRESS_MANUAL = 2,
        FI_PROGRESS_CONTROL_UNIFIED = 3,
    }
    c_uint {
        FI_THREAD_UNSPEC = 0,
        FI_THREAD_SAFE = 1,
        FI_THREAD_FID = 2,
        FI_THREAD_DOMAIN = 3,
        FI_THREAD_COMPLETION = 4,
        FI_THREAD_ENDPOINT = 5,
    }
    c_uint {
        FI_RM_UNSPEC = 0,
        FI_RM_DISABLED = 1,
        FI_RM_ENABLED = 2,
    }
    c_uint {
        FI_EP_UNSPEC = 0,
        FI_EP_MSG = 1,
        FI_EP_DGRAM = 2,
        FI_EP_RDM = 3,
    }
    c_uint {
        FI_BUS_UNSPEC = 0,
        FI_BUS_PCI = 1,
    }
    c_uint {
        FI_LINK_UNKNOWN = 0,
        FI_LINK_DOWN = 1,
        FI_LINK_UP = 2,
    }
    c_uint {
        FI_WAIT_NONE = 0,
        FI_WAIT_UNSPEC = 1,
        FI_WAIT_SET = 2,
        FI_WAIT_FD = 3,
        FI_WAIT_MUTEX_COND = 4,
        FI_WAIT_YIELD = 5,
        FI_WAIT_POLLFD = 6,
    }
    c_uint {
        FI_CQ_FORMAT_UNSPEC = 0,
        FI_CQ_FORMAT_CONTEXT = 1,
        FI_CQ_FORMAT_MSG = 2,
        FI_CQ_FORMAT_DATA = 3,
        FI_CQ_FORMAT_TAGGED = 4,
    }
    c_uint {
        FI_CQ_COND_NONE = 0,
        FI_CQ_COND_THRESHOLD = 1,
    }
    c_uint {
        FI_HMEM_SYSTEM = 0,
        FI_HMEM_CUDA = 1,
        FI_HMEM_ROCR = 2,
        FI_HMEM_ZE = 3,
        FI_HMEM_NEURON = 4,
        FI_HMEM_SYNAPSEAI = 5,
    }
    c_uint {
        FI_UINT32 = 5,
        FI_INT64 = 6,
        FI_UINT64 = 7,
    }
    c_uint {
        FI_SUM = 2,
        FI_BOR = 6,
        FI_BAND = 7,
        FI_BXOR = 9,
        FI_ATOMIC_READ = 10,
        FI_ATOMIC_WRITE = 11,
        FI_CSWAP = 12,
    }
    // Commands of `fi_control`.
    c_int {
        FI_GETOPSFLAG = 2,
        FI_SETOPSFLAG = 3,
        FI_GETWAIT = 5,
        FI_ENABLE = 6,
        FI_GET_RAW_MR = 8,
        FI_MAP_RAW_MR = 9,
        FI_UNMAP_KEY = 10,
        FI_GETWAITOBJ = 16,
    }
    // Options of an endpoint. CUDA_API_PERMITTED: 1.18; SHARED_MEMORY_PERMITTED: 1.21; from
    // MAX_MSG_SIZE on: 1.22.
    c_int {
        FI_OPT_ENDPOINT = 0,
        FI_OPT_MIN_MULTI_RECV = 0,
        FI_OPT_CM_DATA_SIZE = 1,
        FI_OPT_TX_SIZE = 6,
        FI_OPT_RX_SIZE = 7,
        FI_OPT_FI_HMEM_P2P = 8,
        FI_OPT_CUDA_API_PERMITTED = 10,
        FI_OPT_SHARED_MEMORY_PERMITTED = 11,
        FI_OPT_MAX_MSG_SIZE = 12,
        FI_OPT_MAX_RMA_SIZE = 14,
        FI_OPT_INJECT_MSG_SIZE = 16,
        FI_OPT_INJECT_RMA_SIZE = 18,
    }
    c_int {
        FI_HMEM_P2P_ENABLED = 0,
        FI_HMEM_P2P_REQUIRED = 1,
        FI_HMEM_P2P_PREFERRED = 2,
        FI_HMEM_P2P_DISABLED = 3,
    }
    // Errors in addition to those of the operating system; `returns` has their texts. NOMR: 1.20,
    // FIREWALLADDR: 2.2.
    c_int {
        FI_EOTHER = 256,
        FI_ETOOSMALL = 257,
        FI_EOPBADSTATE = 258,
        FI_EAVAIL = 259,
        FI_EBADFLAGS = 260,
        FI_ENOEQ = 261,
        FI_EDOMAIN = 262,
        FI_ENOCQ = 263,
        FI_ECRC = 264,
        FI_ETRUNC = 265,
        FI_ENOKEY = 266,
        FI_ENOAV = 267,
        FI_EOVERRUN = 268,
        FI_ENORX = 269,
        FI_ENOMR = 270,
        FI_EFIREWALLADDR = 271,
    }
}
