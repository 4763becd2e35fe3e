//! The IOMMU: it should pass devices' accesses through.

use node::Host;

/// Whether a group of this type (`/sys/kernel/iommu_groups/N/type`) has its devices' accesses translated.
pub fn translates(group_type: &str) -> bool {
    matches!(group_type, "DMA" | "DMA-FQ")
}

/// The type of a group whose devices are passed through.
pub const PASSED_THROUGH: &str = "identity";

/// The kernel argument that passes devices through, on this host's architecture.
pub fn kernel_argument(host: &Host) -> &'static str {
    match host.architecture.as_deref() {
        Some("aarch64") => "iommu.passthrough=1",
        _ => "iommu=pt",
    }
}

/// Kernel arguments with which no access is translated.
pub const KERNEL_ARGUMENTS: [&str; 5] =
    ["iommu=pt", "iommu.passthrough=1", "intel_iommu=off", "amd_iommu=off", "iommu=off"];
