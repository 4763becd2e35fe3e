//! Opinions about a host: what is wrong with it, what a job on it should be told, what should be changed.
//!
//! Facts come from [`node`]; nothing here reads a file of the machine by itself, but for what changes it.
//! Each part is a folder: [`doctor`] judges, [`explain`] reads error lines, [`job`] makes a job's environment,
//! [`change`] changes a machine and takes it back, [`k8s`] writes manifests, [`capture`] plans a packet capture,
//! [`topo`] gives each GPU its NIC.

pub mod capture;
pub mod change;
pub mod doctor;
pub mod explain;
pub mod job;
pub mod k8s;
pub mod topo;
pub mod tune;
