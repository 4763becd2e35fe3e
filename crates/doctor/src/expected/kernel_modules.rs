//! Kernel modules that programs need to use RDMA devices.

use node::{LinkLayer, Node, Reading};

use crate::Severity;

/// A module.
#[derive(Debug, Clone, Copy)]
pub struct NeededModule {
    /// `ib_uverbs`.
    pub name: &'static str,
    /// What programs use it for.
    pub used_for: &'static str,
    /// What does not work without it.
    pub without: &'static str,
    /// The severity if it is missing.
    pub severity: Severity,
}

/// Modules for every RDMA device.
pub const NEEDED: [NeededModule; 2] = [
    NeededModule {
        name: "ib_uverbs",
        used_for: "programs use devices through /dev/infiniband/uverbsN",
        without: "no program can open a device",
        severity: Severity::Problem,
    },
    NeededModule {
        name: RDMA_UCM,
        used_for: "programs connect through /dev/infiniband/rdma_cm",
        without: "programs that connect with rdma_cm (NFS, iSER, many others) cannot",
        severity: Severity::Warning,
    },
];

/// The connection manager, which EFA does not support.
pub const RDMA_UCM: &str = "rdma_ucm";

/// The module that tools and subnet managers need on InfiniBand, and what they use it for.
pub const INFINIBAND_TOOLS: (&str, &str) =
    ("ib_umad", "tools and subnet managers use InfiniBand through /dev/infiniband/umadN");

/// Whether a port of the host is InfiniBand.
pub fn has_infiniband(node: &Node) -> bool {
    let mut ports = node.devices.iter().flat_map(|device| &device.ports);
    ports.any(|port| port.link_layer == Reading::Value(LinkLayer::InfiniBand))
}
