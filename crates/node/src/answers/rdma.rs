//! The RDMA subsystem as netlink tells it (RDMA_NL_NLDEV).

use serde::{Deserialize, Serialize};

/// What `rdma system` and `rdma link` say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RdmaSystem {
    /// Whether a device belongs to one network namespace; else all namespaces see all devices.
    pub exclusive_netns: Option<bool>,
    /// Every port that this network namespace sees.
    pub links: Vec<RdmaLink>,
}

/// One port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RdmaLink {
    /// `mlx5_0`.
    pub device: String,
    /// From 1.
    pub port: u32,
    /// `ib`, `roce`, `iw`, `opa`.
    pub protocol: Option<String>,
    /// Its state, as in sysfs.
    pub state: Option<u8>,
    /// Its physical state, as in sysfs.
    pub phys_state: Option<u8>,
    /// Its net device.
    pub netdev: Option<String>,
}

pub(super) fn ask() -> Option<RdmaSystem> {
    None
}
