//! C as C: libibverbs, loaded at run time and never linked.
//!
//! A program that uses this crate starts on a machine without rdma-core and can say why RDMA is
//! off there. Nothing here is safe to call by itself: owner types, lifetimes and threads are the
//! business of the crate above. What this crate does promise:
//!
//! - every function is bound under one named symbol version ([`Verbs`] is the table), so that a
//!   newer library cannot change an ABI under us;
//! - every struct has the layout of the C header, checked against the installed headers by
//!   `tests/layout.rs`;
//! - C's ways of saying "failed" are read in one file, [`returns`], and each function names
//!   its own in the table: a caller only ever sees `Result`.
//!
//! Start at [`Verbs::load`].

pub mod layout;
mod library;
pub mod returns;
pub mod verbs;

pub use library::LoadError;
pub use returns::Errno;
pub use verbs::{Verbs, consts, device, inline, objects, work};
