//! Devices, buses and what is installed.

use super::{Cause, first, hinted_by, seen_by, told};

pub(super) const NO_DEVICE: &[Cause] = &[
    seen_by("ports", "no port is active", "Bring the link up."),
    seen_by(
        "rights",
        "this process may not open the device, or was not given it",
        "Request the device plugin's resource; check /dev/infiniband.",
    ),
    seen_by(
        "modules",
        "a kernel module is not loaded",
        "modprobe ib_uverbs, and the card's RDMA driver.",
    ),
    seen_by(
        "memlock",
        "memory could not be locked, so the device was given up",
        "`ulimit -l unlimited`.",
    ),
    hinted_by("gid", "no port has an address that can be used", "Address the net device."),
    told(
        "the settings rule it out",
        "Look at NCCL_IB_DISABLE, NCCL_IB_HCA (names match by prefix; `=` makes them exact), \
         NCCL_NET, UCX_NET_DEVICES, UCX_TLS.",
    ),
    told(
        "libibverbs or the card's library is not in the container",
        "Install rdma-core's libibverbs1 and ibverbs-providers.",
    ),
    told(
        "it is EFA, which NCCL reaches by its plugin alone",
        "Install aws-ofi-nccl (libnccl-net.so); NCCL_IB_HCA is not for it.",
    ),
];

pub(super) const NO_LIBRARY: &[Cause] = &[
    told(
        "rdma-core is not installed",
        "apt install libibverbs1 ibverbs-providers; dnf install libibverbs. Wirelane's own \
         discovery does not need it.",
    ),
    told(
        "the library is in a place that is not searched",
        "LD_LIBRARY_PATH, or /etc/ld.so.conf.d.",
    ),
];

pub(super) const CARD: &[Cause] = &[
    hinted_by(
        "kernel-log",
        "the card's firmware failed",
        "Update the firmware; restart with power off; then replace the card.",
    ),
    hinted_by("aer", "the PCIe link to the card has errors", "Reseat the card and its riser."),
    seen_by("pcie", "the PCIe link came up badly", "Reseat the card; try another slot."),
    seen_by(
        "versions",
        "driver and firmware do not fit",
        "Bring both to versions that belong together.",
    ),
];

pub(super) const DEVICE_FATAL: &[Cause] = &[
    hinted_by(
        "kernel-log",
        "the card's firmware failed",
        "Reset the card (`mlxfwreset -d DEVICE reset`, or restart with power off), then update its \
         firmware. If it comes again, have the card replaced (RMA).",
    ),
    hinted_by("aer", "the PCIe link to the card was lost", "Reseat the card and its riser."),
    told(
        "someone reset the card, or took its driver away, while the program ran",
        "Look at the kernel's log of that time; start the program anew.",
    ),
];

pub(super) const CABLE: &[Cause] = &[
    hinted_by(
        "kernel-log",
        "the transceiver is too hot, worn or badly seated",
        "Look at its temperature (`ethtool -m NETDEV`) and the air around; reseat it, then replace \
         it.",
    ),
    seen_by("ports", "the link is down for it", "Replace the cable or transceiver."),
    told(
        "a cable of a kind that the card does not take",
        "Compare with the vendor's list of cables for the card and its firmware.",
    ),
];

pub(super) const SLOT_POWER: &[Cause] = &[
    told(
        "the slot is of a smaller kind than the card wants, or its firmware says so",
        "Use a slot of 75 W; look at the firmware set-up and update it.",
    ),
    told(
        "the card wants its extra power cable",
        "Look into the card's manual: some models have a connector for it.",
    ),
];

pub(super) const RESTRICTED: &[Cause] = &[hinted_by(
    "restricted",
    "a monitoring program reads counters of a function that another manager has",
    "Leave these functions out: node_exporter has `--collector.infiniband.device-exclude`. \
     Wirelane asks once and remembers.",
)];

pub(super) const PCIE: &[Cause] = &[
    hinted_by(
        "aer",
        "a bad contact, riser or cable",
        "Reseat the card and its riser; then try another slot.",
    ),
    seen_by(
        "pcie",
        "the link came up narrower or slower",
        "Reseat the card; look at the slot's settings.",
    ),
    told(
        "power management of the link",
        "pcie_aspm=off on the kernel's command line shows whether it is that.",
    ),
];

pub(super) const IOMMU: &[Cause] = &[
    first(
        "iommu",
        "the IOMMU translates, and something reaches past what was mapped: GPUDirect does",
        "`iommu=pt` on the kernel's command line.",
    ),
    told(
        "the card was reset or its driver went while work was in flight",
        "Look at the lines before.",
    ),
    seen_by(
        "gpudirect",
        "the peer memory module does not fit the GPU's driver",
        "Reload nvidia-peermem after each driver update.",
    ),
];

pub(super) const GPU: &[Cause] = &[
    hinted_by(
        "kernel-log",
        "the GPU or its link failed",
        "Look at the lines before; a lost GPU needs a restart, one that does it again a \
         replacement.",
    ),
    seen_by("pcie", "the GPU's PCIe link came up badly", "Reseat it."),
    hinted_by("aer", "its PCIe link has errors", "Reseat it; update firmware."),
];

pub(super) const FREQUENCY: &[Cause] = &[
    hinted_by("governor", "a governor that saves power", "cpupower frequency-set -g performance."),
    hinted_by("idle", "deep idle states", "`wirelane tune plan --profile latency`."),
];
