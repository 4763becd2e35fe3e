//! Opinions about a host: what is wrong with it, what a job on it should be told, what should be changed.
//!
//! Facts come from [`node`]; nothing here reads a file of the machine by itself, but for what changes it.
//! Each part is a folder: [`doctor`] judges, [`explain`] reads error lines, [`job`] makes a job's environment,
//! [`change`] changes a machine and takes it back, [`k8s`] writes manifests, [`capture`] plans a packet capture,
//! [`install`] places units and rules, [`inventory`] reads which hosts a job has, [`launch`] plans a job on them, [`nfs`] serves
//! and mounts files over RDMA, [`proof`] says what carried a job's data, [`setup`] makes a host ready for jobs, [`tune`] makes it
//! faster, [`topo`] gives each GPU its NIC, [`verdict`] says whether a measured figure is normal, [`watch`] looks again and again.

pub mod capture;
pub mod change;
pub mod doctor;
pub mod explain;
pub mod install;
pub mod inventory;
pub mod job;
pub mod k8s;
pub mod launch;
pub mod nfs;
pub mod proof;
pub mod setup;
pub mod topo;
pub mod tune;
pub mod verdict;
pub mod watch;
