//! What the settings of a machine should be, and how each is tested.
//!
//! Checks give their verdicts by these values, `change` proposes by them, and `jobs` warns by them: a limit stands here
//! and nowhere else. Nothing is read or changed here; every function is given the facts. One file per subject: start at
//! the one whose name you look for.

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
