//! Facts about one host: its RDMA devices, their PCI functions, and what this process may do
//! with them.
//!
//! Everything is read once from a [`Tree`]: this machine, a folder with its files, or a
//! snapshot. Facts that are in no file (netlink, ioctl and NVML) are in the tree's [`QueryResults`].
//! Nothing is evaluated here: that is the doctor's task. What could not be read is a value too
//! ([`Reading`]), and one faulty device never affects the others.
//!
//! Start at [`Node`].
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests create the files that they read")
)]

mod config_space;
pub mod counters;
mod device;
mod error;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod gid;
mod gpu;
mod host;
mod mount;
mod name;
mod netdev;
mod node;
mod pci;
mod port;
mod process;
mod product;
pub mod queries;
mod rate;
mod reading;
pub mod sampling;
mod statistics;
mod status;
mod system;
mod tree;

pub use counters::Counter;
pub use device::{Device, NodeType, Role};
pub use error::Error;
pub use gid::{Gid, GidType, Guid};
pub use gpu::{Distance, Gpu};
pub use host::{Cpus, Governor, Host, HugePages, NumaNode, cpu_list};
pub use mount::Mount;
pub use netdev::{Bonding, NetDev};
pub use node::Node;
pub use pci::{Acs, Address, ErrorCount, Function, PciLink};
pub use port::{LinkLayer, PhysState, Port, PortState};
pub use process::{Capabilities, Limit, Process};
pub use queries::QueryResults;
pub use rate::{LaneSpeed, Rate};
pub use reading::Reading;
pub use status::PortStatus;
pub use system::{CharDevice, GpuDirect, Iommu, Module};
pub use tree::{About, FileMetadata, SnapshotError, Tree};
