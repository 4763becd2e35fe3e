//! Facts about one host: its RDMA devices, what they are plugged into, and what this process may do
//! with them.
//!
//! Everything is read once from a [`Tree`], which is this machine, a folder that looks like one, or a
//! snapshot of one. What no file tells (netlink, ioctl and NVML answers) is in the tree's [`Answers`]. It
//! has no opinions: whether a fact is good or bad is said elsewhere. What could not be read is a value too
//! ([`Seen`]), and one bad device never hides the others.
//!
//! Start at [`Node`].
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make the files that they read")
)]

pub mod answers;
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
mod rate;
mod seen;
mod statistics;
mod status;
mod system;
mod tree;
pub mod watch;

pub use answers::Answers;
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
pub use rate::{LaneSpeed, Rate};
pub use seen::Seen;
pub use status::PortStatus;
pub use system::{CharDevice, GpuDirect, Iommu, Module};
pub use tree::{About, FileNode, SnapshotError, Tree};
