//! The expected values of a machine's settings, and how each is tested.
//!
//! Checks, the proposals of `change` and the warnings of `jobs` all use these values: a value is defined here and nowhere
//! else. Nothing is read or changed here; every function takes the facts. One file per subject.

pub mod acs;
pub mod cpus;
pub mod device_nodes;
pub mod firewall;
pub mod interrupts;
pub mod iommu;
pub mod kernel_modules;
pub mod memlock;
pub mod memory;
pub mod mtu;
pub mod pcie;
pub mod pfc;
pub mod queues;
pub mod store_disk;
