//! Raw bindings of libibverbs and libfabric, loaded at run time and never linked.
//!
//! A program that uses this crate starts on a machine without either, and can report why RDMA is unavailable
//! there. The calls are unsafe: owner types, lifetimes and threads are handled
//! by the crate `fabric`. This crate guarantees:
//!
//! - every function is bound under one named symbol version ([`Verbs`] and [`Ofi`] are the
//!   tables), so that a newer library cannot change the ABI in use; if libfabric has one
//!   function under several versions, the newest version known here is bound;
//! - every struct has the layout of the C header, checked against the installed headers by
//!   `tests/layout.rs` and `tests/layout_ofi.rs`;
//! - C's error conventions are converted in one file, [`returns`], and the table has the
//!   convention of each function: a caller gets a `Result`;
//! - a process has one libfabric: a copy that is already loaded is used.
//!
//! Start at [`Verbs::load`] for RDMA devices, at [`Ofi::load`] for EFA and other providers of
//! libfabric.

pub mod layout;
mod library;
pub mod ofi;
pub mod returns;
pub mod verbs;

pub use library::LoadError;
pub use ofi::Ofi;
pub use returns::Errno;
pub use verbs::{Verbs, consts, device, inline, objects, work};
