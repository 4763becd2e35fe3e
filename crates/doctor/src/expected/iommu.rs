//! The IOMMU: it should be in passthrough mode.

use node::Host;

/// Whether the IOMMU translates accesses in a group of this type (`/sys/kernel/iommu_groups/N/type`).
pub fn translates(group_type: &str) -> bool {
    matches!(group_type, "DMA" | "DMA-FQ")
}

/// The type of a group in passthrough mode.
pub const PASSTHROUGH_TYPE: &str = "identity";

/// The kernel argument for passthrough mode on this host's architecture.
pub fn kernel_argument(host: &Host) -> &'static str {
    match host.architecture.as_deref() {
        Some("aarch64") => "iommu.passthrough=1",
        _ => "iommu=pt",
    }
}

/// Kernel arguments with which the IOMMU translates nothing.
pub const KERNEL_ARGUMENTS: [&str; 5] =
    ["iommu=pt", "iommu.passthrough=1", "intel_iommu=off", "amd_iommu=off", "iommu=off"];
