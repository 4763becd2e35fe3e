//! Jobs on hosts of a fabric: the hosts, what runs on each, with which environment, and whether RDMA transferred its data.
//!
//! This crate only plans: starting, sending and writing is done by the caller. Facts come from [`node`], verdicts
//! about hosts from [`doctor`].
//!
//! [`environment`] plans a job's environment, [`inventory`] parses the list of hosts, [`launch`] plans a job on them, [`traffic`]
//! determines
//! what transferred a job's data, [`k8s`] writes manifests.
//!
//! Start at [`environment::EnvironmentPlan`], the environment of a job on one host; [`launch::Launch`] is a job on several.

pub mod environment;
pub mod inventory;
pub mod k8s;
pub mod launch;
pub mod traffic;
