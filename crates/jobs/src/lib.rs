//! Jobs on hosts of a fabric: which hosts there are, what runs on each, with which environment, and whether RDMA moved its data.
//!
//! Everything here is worked out; nothing is started, sent or written: that is the caller's. Facts come from [`node`], verdicts
//! about hosts from [`doctor`].
//!
//! [`job`] makes a job's environment, [`inventory`] reads which hosts a job has, [`launch`] plans a job on them, [`proof`] says what
//! transferred a job's data, [`k8s`] writes manifests.
//!
//! Start at [`job::Plan`], the environment of a job on one host; [`launch::Launch`] is a job on several.

pub mod inventory;
pub mod job;
pub mod k8s;
pub mod launch;
pub mod proof;
