//! What can carry bytes between this machine and others.
//!
//! Today it finds verbs devices and says why RDMA can or cannot be used; the lanes that move bytes
//! over verbs, shared memory and TCP come next, one folder each. It reads no configuration and no
//! environment of its own: the program hands it what it needs.
//!
//! Start at [`verbs::survey`].

pub mod verbs;
