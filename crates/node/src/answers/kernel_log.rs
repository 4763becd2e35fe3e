//! Lines of the kernel's log that say something of the fabric.

use serde::{Deserialize, Serialize};

/// What was found in the kernel's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLog {
    /// Why it cannot be read (error number); then there are no lines.
    pub refused: Option<i32>,
    /// Oldest first; the newest of too many.
    pub lines: Vec<LogLine>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Microseconds since the machine started.
    pub at_us: u64,
    /// What it is of.
    pub kind: LogKind,
    /// The line as it is, without control characters.
    pub text: String,
}

/// What a line is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    /// A card's health: `mlx5_core … health`, firmware and command errors.
    Health,
    /// PCIe errors that the port or root reported (AER).
    PcieError,
    /// NVIDIA's driver: `NVRM: Xid`.
    Xid,
    /// A link went up or down.
    Link,
    /// The IOMMU stopped an access (`DMAR`, `AMD-Vi`, `arm-smmu` faults).
    Iommu,
}

pub(super) fn ask() -> Option<KernelLog> {
    None
}
