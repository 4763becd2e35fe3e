//! Devices, PCIe and installed software.

use super::{Cause, always_first, on_note, on_warning, unchecked};

pub(super) const NO_DEVICE: &[Cause] = &[
    on_warning("ports", "no port is active", "Bring the link up."),
    on_warning(
        "permissions",
        "this process may not open the device, or the device is not assigned to its container",
        "Request the device plugin's resource; check /dev/infiniband.",
    ),
    on_warning(
        "modules",
        "a kernel module is not loaded",
        "modprobe ib_uverbs, and the NIC's RDMA driver.",
    ),
    on_warning(
        "memlock",
        "memory could not be locked, so the device was not used",
        "`ulimit -l unlimited`.",
    ),
    on_note("gid", "no port has a usable GID", "Give the net device an IP address."),
    unchecked(
        "settings exclude it",
        "Check NCCL_IB_DISABLE, NCCL_IB_HCA (names match by prefix; `=` makes them exact), \
         NCCL_NET, UCX_NET_DEVICES, UCX_TLS.",
    ),
    unchecked(
        "libibverbs or the NIC's library is not in the container",
        "Install rdma-core's libibverbs1 and ibverbs-providers.",
    ),
    unchecked(
        "it is EFA, which NCCL supports only through a plugin",
        "Install aws-ofi-nccl (libnccl-net.so); NCCL_IB_HCA does not apply.",
    ),
];

pub(super) const NO_LIBRARY: &[Cause] = &[
    unchecked(
        "rdma-core is not installed",
        "apt install libibverbs1 ibverbs-providers; dnf install libibverbs. Wirelane's own \
         discovery does not need it.",
    ),
    unchecked(
        "the library is in a folder that is not searched",
        "Set LD_LIBRARY_PATH, or add the folder to /etc/ld.so.conf.d.",
    ),
];

pub(super) const NIC: &[Cause] = &[
    on_note(
        "kernel-log",
        "the NIC's firmware failed",
        "Update the firmware; power-cycle the machine; then replace the NIC.",
    ),
    on_note("aer", "the PCIe link to the NIC has errors", "Reseat the NIC and its riser."),
    on_warning("pcie", "the PCIe link is degraded", "Reseat the NIC; try another slot."),
    on_warning(
        "versions",
        "driver and firmware do not match",
        "Install versions that are released together.",
    ),
];

pub(super) const DEVICE_FATAL: &[Cause] = &[
    on_note(
        "kernel-log",
        "the NIC's firmware failed",
        "Reset the NIC (`mlxfwreset -d DEVICE reset`, or power-cycle the machine), then update its \
         firmware. If the error recurs, have the NIC replaced (RMA).",
    ),
    on_note("aer", "the PCIe link to the NIC was lost", "Reseat the NIC and its riser."),
    unchecked(
        "the NIC was reset, or its driver unloaded, while the program ran",
        "Check the kernel log of that time; restart the program.",
    ),
];

pub(super) const CABLE: &[Cause] = &[
    on_note(
        "kernel-log",
        "the transceiver is too hot, worn or badly seated",
        "Check its temperature (`ethtool -m NETDEV`) and the airflow; reseat it, then replace it.",
    ),
    on_warning("ports", "the link is down because of it", "Replace the cable or transceiver."),
    unchecked(
        "the NIC does not support this kind of cable",
        "Check the vendor's list of cables for the NIC and its firmware.",
    ),
];

pub(super) const SLOT_POWER: &[Cause] = &[
    unchecked(
        "the slot provides less power than the NIC needs, or its firmware reports so",
        "Use a slot with 75 W; check the firmware setup and update the firmware.",
    ),
    unchecked(
        "the NIC needs its auxiliary power cable",
        "See the NIC's manual: some models have a connector for it.",
    ),
];

pub(super) const RESTRICTED: &[Cause] = &[on_note(
    "restricted",
    "a monitoring program reads counters of a function that belongs to another manager",
    "Exclude these functions: node_exporter has `--collector.infiniband.device-exclude`. \
     Wirelane tries once and remembers.",
)];

pub(super) const PCIE: &[Cause] = &[
    on_note(
        "aer",
        "a bad contact, riser or cable",
        "Reseat the card and its riser; then try another slot.",
    ),
    on_warning(
        "pcie",
        "the link trained narrower or slower",
        "Reseat the card; check the slot's settings.",
    ),
    unchecked(
        "power management of the link (ASPM)",
        "Test with pcie_aspm=off on the kernel command line.",
    ),
];

pub(super) const IOMMU: &[Cause] = &[
    always_first(
        "iommu",
        "the IOMMU translates, and a device accesses memory that is not mapped, as GPUDirect does",
        "Add `iommu=pt` to the kernel command line.",
    ),
    unchecked(
        "the NIC was reset or its driver unloaded with work in flight",
        "Check the lines before.",
    ),
    on_warning(
        "gpudirect",
        "the peer memory module does not match the GPU driver",
        "Reload nvidia-peermem after each driver update.",
    ),
];

pub(super) const GPU: &[Cause] = &[
    on_note(
        "kernel-log",
        "the GPU or its link failed",
        "Check the lines before; a lost GPU needs a reboot, and a replacement if it recurs.",
    ),
    on_warning("pcie", "the GPU's PCIe link is degraded", "Reseat it."),
    on_note("aer", "its PCIe link has errors", "Reseat it; update firmware."),
];

pub(super) const FREQUENCY: &[Cause] = &[
    on_note("governor", "a power-saving governor", "cpupower frequency-set -g performance."),
    on_note("idle", "deep idle states", "`wirelane tune plan --profile latency`."),
];
