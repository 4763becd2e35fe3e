//! libibverbs: its structs, its functions, and the inline functions of its header.
//!
//! Unsafe here: every row of the table is a C function. The caller must fulfil the requirements of its
//! manual page.
#![allow(unsafe_code, reason = "calls the C functions of the table")]

pub mod consts;
pub mod device;
pub mod inline;
pub mod objects;
pub mod work;

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

use crate::layout::Signature;
use crate::library::{Library, LoadError};
use crate::returns::{
    Convention, ErrnoValue, MinusOne, NegativeErrno, NullErrno, NullUnsupported, Plain,
};
use device::*;
use objects::*;

/// The soname of libibverbs, the same in every distribution.
pub const SONAME: &str = "libibverbs.so.1";

/// A number in network byte order, named as the header names it.
#[allow(non_camel_case_types, reason = "C's own name")]
pub type __be16 = u16;
/// A number in network byte order, named as the header names it.
#[allow(non_camel_case_types, reason = "C's own name")]
pub type __be64 = u64;

/// Generates the table: a function pointer per row, the loader that fills it, and one method per row
/// that calls the function and converts its result by the row's convention. Older libraries lack the functions of
/// optional rows; their methods then return `None`.
macro_rules! symbols {
    (
        required { $(
            $(#[$rdoc:meta])*
            $rversion:literal $rname:ident($($rarg:ident: $rty:ty),*) -> $rret:ty, $rconv:ident;
        )* }
        optional { $(
            $(#[$odoc:meta])*
            $oversion:literal $oname:ident($($oarg:ident: $oty:ty),*) -> $oret:ty, $oconv:ident;
        )* }
    ) => {
        /// libibverbs, loaded and bound. Never unloaded.
        pub struct Verbs {
            $( $rname: unsafe extern "C" fn($($rty),*) -> $rret, )*
            $( $oname: Option<unsafe extern "C" fn($($oty),*) -> $oret>, )*
        }

        impl Verbs {
            /// Opens `library` (a soname such as [`SONAME`], or a file) and binds every function.
            pub fn load(library: &Path) -> Result<Self, LoadError> {
                let library = Library::open(library)?;
                Ok(Verbs {
                    $( $rname: {
                        let address = library.symbol(c_str(concat!(stringify!($rname), "\0")),
                                                     c_str(concat!($rversion, "\0")))?;
                        // SAFETY: the library exports this name under this version with the type
                        // of this row; `tests/layout.rs` compiles the row against its header.
                        unsafe { std::mem::transmute::<*mut c_void,
                            unsafe extern "C" fn($($rty),*) -> $rret>(address.as_ptr()) }
                    }, )*
                    $( $oname: {
                        let address = library.symbol(c_str(concat!(stringify!($oname), "\0")),
                                                     c_str(concat!($oversion, "\0")));
                        // SAFETY: the library exports this name under this version with the type of this row, which
                        // `tests/layout.rs` compiles against its header; an absent function stays `None`.
                        address.ok().map(|address| unsafe { std::mem::transmute::<*mut c_void,
                            unsafe extern "C" fn($($oty),*) -> $oret>(address.as_ptr()) })
                    }, )*
                })
            }

            $(
                $(#[$rdoc])*
                ///
                /// # Safety
                /// The requirements of the C manual page.
                #[allow(clippy::too_many_arguments, reason = "C chose the arguments")]
                pub unsafe fn $rname(&self, $($rarg: $rty),*)
                    -> <$rconv as Convention<$rret>>::Out
                {
                    // SAFETY: guaranteed by the caller.
                    <$rconv as Convention<$rret>>::read(unsafe { (self.$rname)($($rarg),*) })
                }
            )*
            $(
                $(#[$odoc])*
                ///
                /// `None` if the library is too old to have it.
                ///
                /// # Safety
                /// The requirements of the C manual page.
                #[allow(clippy::too_many_arguments, reason = "C chose the arguments")]
                pub unsafe fn $oname(&self, $($oarg: $oty),*)
                    -> Option<<$oconv as Convention<$oret>>::Out>
                {
                    let function = self.$oname?;
                    // SAFETY: guaranteed by the caller.
                    Some(<$oconv as Convention<$oret>>::read(unsafe { function($($oarg),*) }))
                }
            )*
        }

        /// The rows as text.
        #[doc(hidden)]
        pub const SIGNATURES: &[Signature] = &[
            $( Signature {
                name: stringify!($rname),
                arguments: &[$(stringify!($rty)),*], returns: stringify!($rret),
            }, )*
            $( Signature {
                name: stringify!($oname),
                arguments: &[$(stringify!($oty)),*], returns: stringify!($oret),
            }, )*
        ];
    };
}

symbols! {
    required {
        /// Lists the devices; the list is freed with `ibv_free_device_list`.
        "IBVERBS_1.1" ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device, NullErrno;
        /// Frees the list, and the devices in it that were not opened.
        "IBVERBS_1.1" ibv_free_device_list(list: *mut *mut ibv_device) -> (), Plain;
        /// The kernel's name of the device.
        "IBVERBS_1.1" ibv_get_device_name(device: *mut ibv_device) -> *const c_char, Plain;
        /// The node GUID in network byte order.
        "IBVERBS_1.1" ibv_get_device_guid(device: *mut ibv_device) -> __be64, Plain;
        /// Opens the device.
        "IBVERBS_1.1" ibv_open_device(device: *mut ibv_device) -> *mut ibv_context, NullErrno;
        /// Closes it; all objects created with it must be freed before.
        "IBVERBS_1.1" ibv_close_device(context: *mut ibv_context) -> c_int, MinusOne;
        /// Waits for an asynchronous event of the device.
        "IBVERBS_1.1" ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event)
            -> c_int, MinusOne;
        /// Acknowledges an asynchronous event; its object cannot be destroyed before.
        "IBVERBS_1.1" ibv_ack_async_event(event: *mut ibv_async_event) -> (), Plain;
        /// The device's attributes.
        "IBVERBS_1.1" ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr)
            -> c_int, ErrnoValue;
        /// The port's attributes without the newest fields; call [`inline::ibv_query_port`].
        "IBVERBS_1.1" ibv_query_port(context: *mut ibv_context, port: u8,
            attr: *mut _compat_ibv_port_attr) -> c_int, ErrnoValue;
        /// One entry of the port's GID table.
        "IBVERBS_1.1" ibv_query_gid(context: *mut ibv_context, port: u8, index: c_int,
            gid: *mut ibv_gid) -> c_int, MinusOne;
        /// One entry of the port's partition key table, in network byte order.
        "IBVERBS_1.1" ibv_query_pkey(context: *mut ibv_context, port: u8, index: c_int,
            pkey: *mut __be16) -> c_int, MinusOne;
        /// Creates a protection domain.
        "IBVERBS_1.1" ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd, NullErrno;
        /// Frees it.
        "IBVERBS_1.1" ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int, ErrnoValue;
        /// Registers memory. For optional access flags see `ibv_reg_mr_iova2`.
        "IBVERBS_1.1" ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize,
            access: c_int) -> *mut ibv_mr, NullErrno;
        /// Unregisters memory.
        "IBVERBS_1.1" ibv_dereg_mr(mr: *mut ibv_mr) -> c_int, ErrnoValue;
        /// Creates a channel on which completion events arrive.
        "IBVERBS_1.0" ibv_create_comp_channel(context: *mut ibv_context)
            -> *mut ibv_comp_channel, NullErrno;
        /// Frees it.
        "IBVERBS_1.0" ibv_destroy_comp_channel(channel: *mut ibv_comp_channel)
            -> c_int, ErrnoValue;
        /// Creates a completion queue.
        "IBVERBS_1.1" ibv_create_cq(context: *mut ibv_context, cqe: c_int,
            cq_context: *mut c_void, channel: *mut ibv_comp_channel, comp_vector: c_int)
            -> *mut ibv_cq, NullErrno;
        /// Frees it; blocks until every event of it was acknowledged.
        "IBVERBS_1.1" ibv_destroy_cq(cq: *mut ibv_cq) -> c_int, ErrnoValue;
        /// Waits for a completion event.
        "IBVERBS_1.1" ibv_get_cq_event(channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq,
            cq_context: *mut *mut c_void) -> c_int, MinusOne;
        /// Acknowledges completion events.
        "IBVERBS_1.1" ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) -> (), Plain;
        /// Creates a shared receive queue.
        "IBVERBS_1.1" ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr)
            -> *mut ibv_srq, NullErrno;
        /// Resizes it or arms its limit.
        "IBVERBS_1.1" ibv_modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int)
            -> c_int, ErrnoValue;
        /// Frees it.
        "IBVERBS_1.1" ibv_destroy_srq(srq: *mut ibv_srq) -> c_int, ErrnoValue;
        /// Creates a queue pair. For the `ibv_wr_*` calls see [`inline::ibv_create_qp_ex`].
        "IBVERBS_1.1" ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr)
            -> *mut ibv_qp, NullErrno;
        /// Moves a queue pair to another state.
        "IBVERBS_1.1" ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int)
            -> c_int, ErrnoValue;
        /// Reads a queue pair's state.
        "IBVERBS_1.1" ibv_query_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int,
            init: *mut ibv_qp_init_attr) -> c_int, ErrnoValue;
        /// Frees a queue pair.
        "IBVERBS_1.1" ibv_destroy_qp(qp: *mut ibv_qp) -> c_int, ErrnoValue;
        /// Creates an address handle for datagrams.
        "IBVERBS_1.1" ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr)
            -> *mut ibv_ah, NullErrno;
        /// Frees it.
        "IBVERBS_1.1" ibv_destroy_ah(ah: *mut ibv_ah) -> c_int, ErrnoValue;
    }
    optional {
        /// The index of a partition key (network byte order) in the port's table.
        "IBVERBS_1.5" ibv_get_pkey_index(context: *mut ibv_context, port: u8, pkey: __be16)
            -> c_int, MinusOne;
        /// The extended queue pair of one created with `ibv_create_qp_ex`.
        "IBVERBS_1.6" ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex, NullUnsupported;
        /// Registers memory with a chosen IOVA and optional access flags.
        "IBVERBS_1.8" ibv_reg_mr_iova2(pd: *mut ibv_pd, addr: *mut c_void, length: usize,
            iova: u64, access: c_uint) -> *mut ibv_mr, NullErrno;
        /// The GID tables of all ports, with type and net device.
        "IBVERBS_1.11" _ibv_query_gid_table(context: *mut ibv_context,
            entries: *mut ibv_gid_entry, max_entries: usize, flags: u32, entry_size: usize)
            -> isize, NegativeErrno;
        /// Registers memory of another device, such as a GPU, by its dma-buf.
        "IBVERBS_1.12" ibv_reg_dmabuf_mr(pd: *mut ibv_pd, offset: u64, length: usize, iova: u64,
            fd: c_int, access: c_int) -> *mut ibv_mr, NullErrno;
    }
}

/// A literal of the table as a C string; the table appends the NUL.
fn c_str(literal: &'static str) -> &'static std::ffi::CStr {
    std::ffi::CStr::from_bytes_with_nul(literal.as_bytes()).expect("the table appends one NUL")
}
