//! A port that a job may use, and the verdict on each that was checked.

use node::{Device, LinkLayer, Port};
use serde::Serialize;

/// A usable port.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsablePort<'n> {
    pub(super) device: &'n Device,
    pub(super) port: &'n Port,
    pub(super) kind: PortKind,
}

/// The protocol of a port; each needs its own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PortKind {
    InfiniBand,
    Roce,
    /// Used through libfabric and NCCL's plugin for it, never as an HCA.
    Efa,
}

impl UsablePort<'_> {
    /// The name in NCCL and UCX: `mlx5_4:1`.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.device.name, self.port.number)
    }

    /// Omni-Path: its ports report InfiniBand, but libraries use them through PSM2 or OPX.
    pub(super) fn is_omni_path(&self) -> bool {
        self.device.driver.as_deref() == Some("hfi1")
    }

    /// Gb/s; 0 if unknown.
    pub(super) fn gbps(&self) -> f64 {
        self.port.rate.value().map_or(0.0, |rate| rate.gbps())
    }
}

impl PortKind {
    pub(super) fn of(port: &Port) -> Option<Self> {
        Some(match port.link_layer.value()? {
            LinkLayer::InfiniBand => PortKind::InfiniBand,
            LinkLayer::Ethernet => PortKind::Roce,
            LinkLayer::Unknown => PortKind::Efa,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            PortKind::InfiniBand => "InfiniBand",
            PortKind::Roce => "RoCE",
            PortKind::Efa => "EFA",
        }
    }
}

/// The verdict on a device or one of its ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceVerdict {
    /// The RDMA device; for a function without one, its address.
    pub device: String,
    /// The port, if the verdict is on one port.
    pub port: Option<u32>,
    /// Kept or dropped.
    pub verdict: Verdict,
    /// The reason.
    pub why: String,
    /// The file or variable that it was read from.
    pub read: String,
}

/// Whether a job may use a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may.
    Kept,
    /// It may not.
    Dropped,
}

impl Verdict {
    /// The verdict as text.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Kept => "kept",
            Verdict::Dropped => "dropped",
        }
    }
}

impl DeviceVerdict {
    pub(super) fn dropped(device: &str, why: impl Into<String>, read: impl Into<String>) -> Self {
        DeviceVerdict {
            device: device.to_owned(),
            port: None,
            verdict: Verdict::Dropped,
            why: why.into(),
            read: read.into(),
        }
    }

    pub(super) fn at_port(mut self, port: u32) -> Self {
        self.port = Some(port);
        self
    }
}
