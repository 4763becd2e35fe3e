//! C as C: libibverbs and libfabric, loaded at run time and never linked.
//!
//! A program that uses this crate starts on a machine without either and can say why RDMA is off
//! there. Nothing here is safe to call by itself: owner types, lifetimes and threads are the
//! business of the crate above. What this crate does promise:
//!
//! - every function is bound under one named symbol version ([`Verbs`] and [`Ofi`] are the
//!   tables), so that a newer library cannot change an ABI under us; where libfabric has one
//!   function under several versions, the newest one that is known here;
//! - every struct has the layout of the C header, checked against the installed headers by
//!   `tests/layout.rs` and `tests/layout_ofi.rs`;
//! - C's ways of saying "failed" are read in one file, [`returns`], and each function names
//!   its own in the table: a caller only ever sees `Result`;
//! - a process has one libfabric: a copy that is loaded already is the one that is used.
//!
//! Start at [`Verbs::load`] for devices of RDMA, at [`Ofi::load`] for EFA and for everything else
//! that libfabric has a provider for.

pub mod layout;
mod library;
pub mod ofi;
pub mod returns;
pub mod verbs;

pub use library::LoadError;
pub use ofi::Ofi;
pub use returns::Errno;
pub use verbs::{Verbs, consts, device, inline, objects, work};
