//! C structs with all fields zero.
//!
//! Unsafe here: `Zero` is implemented below only for structs of numbers and pointers, for which all
//! zero bits are a valid value.
#![allow(unsafe_code, reason = "creates zeroed C structs")]

use rdma_sys::device::ibv_async_event;
use rdma_sys::objects::{ibv_ah_attr, ibv_qp_attr, ibv_qp_init_attr};
use rdma_sys::work::{ibv_send_wr, ibv_wc};

pub(super) fn zeroed<T: Zero>() -> T {
    // SAFETY: implementations of `Zero` guarantee that this is a valid value.
    unsafe { std::mem::zeroed() }
}

/// A struct for which all zero bits are a valid value.
///
/// # Safety
/// Implement it for structs of numbers and pointers only.
pub(super) unsafe trait Zero {}

macro_rules! zero {
    ($( $name:ident )*) => { $(
        // SAFETY: numbers and pointers only, see `rdma-sys`.
        unsafe impl Zero for $name {}
    )* };
}

zero! { ibv_ah_attr ibv_async_event ibv_qp_attr ibv_qp_init_attr ibv_send_wr ibv_wc }
