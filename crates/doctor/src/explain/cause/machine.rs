//! Devices, PCIe and installed software.

use super::{Cause, always_first, on_note, on_warning, unchecked};
use crate::explain::errno::{
    EACCES, EAGAIN, EBUSY, EINVAL, EIO, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOSYS, ENXIO, EOPNOTSUPP,
    EPERM, EPROTO, EREMOTEIO, ETIMEDOUT,
};

pub(super) const NO_DEVICE: &[Cause] = &[
    unchecked(
        "settings name a device, transport or provider that is not here",
        "Compare with those that the line lists; unset UCX_NET_DEVICES, UCX_TLS, FI_PROVIDER or \
         NCCL_NET to use what is available.",
    )
    .proven_by("please use one or more of"),
    unchecked(
        "the IP address is not one of an RDMA device",
        "Use an address of a RoCE or IPoIB net device: `wirelane devices` lists them; \
         UCX: UCX_NET_DEVICES.",
    )
    .pointed_to_by("rdma_bind_addr|rdma_resolve_addr|rdma_cm_event_addr_error"),
    on_warning("ports", "no port is active", "Bring the link up.")
        .proven_by("no active port|no active ports|no active ib port|no active hca"),
    on_warning(
        "permissions",
        "this process may not open the device, or the device is not assigned to its container",
        "Request the device plugin's resource; check /dev/infiniband.",
    )
    .with_errno(&[EACCES, EPERM]),
    unchecked(
        "the device plugin's selectors match no device",
        "Compare its configuration (vendors, drivers, ifNames) with `wirelane devices` on the node.",
    )
    .pointed_to_by("device pool|exposing|insufficient|device plugin|rdma resources for"),
    on_warning(
        "modules",
        "a kernel module is not loaded",
        "modprobe ib_uverbs, and the NIC's RDMA driver.",
    )
    .pointed_to_by("is ib_uverbs loaded|are kernel drivers loaded|rdma modules loaded|uverbs abi|\
             abi version|could not insert|unknown symbol|sys files not found")
    .with_errno(&[ENOENT, ENOSYS]),
    unchecked(
        "there is no EFA device in this instance or container, or libfabric lacks the provider",
        "Use an instance type with EFA and attach an EFA interface; pass /dev/infiniband to the \
         container (Kubernetes: vpc.amazonaws.com/efa); `fi_info -p efa` must list it.",
    )
    .pointed_to_by("efa|optimal provider|fi_getinfo|net/ofi"),
    on_warning(
        "memlock",
        "memory could not be locked, so the device was not used",
        "`ulimit -l unlimited`.",
    )
    .with_errno(&[ENOMEM]),
    NO_GID,
    EXCLUDED_BY_SETTINGS,
    NO_USERSPACE_LIBRARY,
    unchecked(
        "it is EFA, which NCCL supports only through a plugin",
        "Install aws-ofi-nccl (libnccl-net.so); NCCL_IB_HCA does not apply.",
    ),
];

const NO_GID: Cause =
    on_note("gid", "no port has a usable GID", "Give the net device an IP address.");
const EXCLUDED_BY_SETTINGS: Cause = unchecked(
    "settings exclude it",
    "Check NCCL_IB_DISABLE, NCCL_IB_HCA (names match by prefix; `=` makes them exact), \
         NCCL_NET, UCX_NET_DEVICES, UCX_TLS.",
);
const NO_USERSPACE_LIBRARY: Cause = unchecked(
    "libibverbs or the NIC's library is not in the container",
    "Install rdma-core's libibverbs1 and ibverbs-providers.",
);

pub(super) const FALLBACK: &[Cause] = &[
    unchecked(
        "the network plugin is not installed, or not found",
        "Only needed for EFA and other fabrics that NCCL does not support itself. EFA: install \
         aws-ofi-nccl, and put its folder into LD_LIBRARY_PATH.",
    )
    .proven_by("no plugin found|libnccl-net|net/plugin|ncclnetplugin")
    .pointed_to_by("aws-ofi-nccl"),
    unchecked(
        "Open MPI was built without the component, or a library that it needs is missing",
        "`ompi_info` lists the components; `ldd` on the component's file the missing libraries.",
    )
    .proven_by("component was not found|no components were able")
    .pointed_to_by("component"),
    unchecked(
        "it is Open MPI's old component for InfiniBand, which is off by default",
        "Use UCX: `--mca pml ucx --mca btl ^openib`.",
    )
    .proven_by("btl-openib|openib|openfabrics|ib port not selected"),
    unchecked(
        "the two ends have no transport in common, or settings exclude it",
        "Compare `ucx_info -d` at both ends; unset UCX_TLS and UCX_NET_DEVICES, or add `tcp`.",
    )
    .pointed_to_by("ucx|ucp|sockaddr|destination is unreachable"),
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
    NO_GID,
    EXCLUDED_BY_SETTINGS,
    NO_USERSPACE_LIBRARY,
];

pub(super) const NO_LIBRARY: &[Cause] = &[
    unchecked(
        "the NIC's library is not installed",
        "apt install ibverbs-providers; dnf install libibverbs (which contains them); in containers too. \
         libibverbs finds them through /etc/libibverbs.d.",
    )
    .proven_by("no userspace device-specific driver|couldn't load driver|config directory|rdmav"),
    unchecked(
        "rdma-core and the kernel's driver are of different versions",
        "Install one set: the distribution's rdma-core with its kernel, or the vendor's package for both.",
    )
    .proven_by("kernel abi|undefined symbol|incompatible"),
    unchecked(
        "the module is not part of this kernel's packages",
        "Ubuntu: linux-modules-extra-VERSION; Fedora and RHEL: kernel-modules-extra. Reboot into the \
         kernel whose modules are installed, if they differ.",
    )
    .proven_by("not found in directory"),
    unchecked(
        "GDRCopy is not installed",
        "Install it (libgdrapi and the module gdrdrv), or do without: only small copies use it.",
    )
    .proven_by("libgdrapi"),
    unchecked(
        "rdma-core is not installed",
        "apt install libibverbs1 ibverbs-providers; dnf install libibverbs. Wirelane's own \
         discovery does not need it.",
    )
    .pointed_to_by("libibverbs|librdmacm|infiniband/verbs.h"),
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

pub(super) const COMMAND: &[Cause] = &[
    unchecked(
        "a limit of the device or function is reached, or the machine has too little free memory",
        "End processes that hold many objects (`rdma resource show`); a virtual function or an EFA \
         device has limits of its own (EFA: of protection domains, queue pairs and keys).",
    )
    .pointed_to_by("limits exceeded|no resources|alloc_pd|resource")
    .with_errno(&[ENOMEM, ENOSPC, EAGAIN, EBUSY]),
    unchecked(
        "the firmware does not support what this driver requests, or the function may not use it",
        "Install driver and firmware that are released together; a virtual function has fewer rights \
         than its physical function.",
    )
    .pointed_to_by("bad parameter|bad operation|not supported|hca_cap")
    .with_errno(&[EINVAL, EOPNOTSUPP, EPERM, EREMOTEIO, EPROTO]),
    on_note(
        "kernel-log",
        "the NIC's firmware hangs",
        "Update the firmware; power-cycle the machine; then replace the NIC.",
    )
    .pointed_to_by("timeout|timed out|no done completion")
    .with_errno(&[ETIMEDOUT, EIO, ENXIO, ENODEV]),
    on_note("aer", "the PCIe link to the NIC has errors", "Reseat the NIC and its riser.")
        .with_errno(&[ETIMEDOUT, EIO, ENXIO, ENODEV]),
    on_warning(
        "versions",
        "driver and firmware do not match",
        "Install versions that are released together.",
    )
    .with_errno(&[EINVAL, EOPNOTSUPP, EREMOTEIO]),
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

pub(super) const RESTRICTED: &[Cause] = &[
    on_note(
        "unreadable-counters",
        "a monitoring program reads counters of a function that belongs to another manager",
        "Exclude these functions: node_exporter has `--collector.infiniband.device-exclude`. \
         Wirelane tries once and remembers.",
    )
    .proven_by("access_reg|0x9a6171"),
    unchecked(
        "the container runtime may not write the rdma cgroup",
        "Nested containers: delegate the controller, or start the container without it; check that \
         /sys/fs/cgroup is mounted writable for the runtime.",
    )
    .proven_by("cgroup"),
    on_warning(
        "permissions",
        "this process may not open the device, or the device is not assigned to its container",
        "Make /dev/infiniband accessible to the user (udev rule, group rdma); in containers request the \
         device plugin's resource, or pass `--device /dev/infiniband`.",
    )
    .pointed_to_by("open|/dev/infiniband|uverbs")
    .with_errno(&[EACCES, EPERM]),
    unchecked(
        "a capability is missing",
        "Raw packets and flow rules need CAP_NET_RAW, locking memory CAP_IPC_LOCK or a high limit.",
    )
    .pointed_to_by("flow|cap_|raw")
    .with_errno(&[EPERM]),
];

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
    )
    // Only an IOMMU that translates reports faults.
    .proven_by(
        "fault|io_page_fault|event logged|invalid_device_request|illegal_dev_table|dmar|\
             amd-vi|arm-smmu",
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
    unchecked(
        "the driver's kernel module and its libraries are of different versions",
        "Reboot after a driver update, or unload and load the module; containers bring libraries of \
         their own.",
    )
    .proven_by("version mismatch|api mismatch|driver version is insufficient"),
    unchecked(
        "the fabric manager is not running, or its version is not the driver's",
        "`systemctl status nvidia-fabricmanager`; install the version of the driver. Only machines with \
         NVSwitch need it.",
    )
    .pointed_to_by("nvls|fabricmanager|fabric manager|nvswitch|system not yet initialized"),
    unchecked(
        "the program's own call to CUDA is invalid, or GPU memory is used up",
        "Check the program; `nvidia-smi` prints the memory in use.",
    )
    .pointed_to_by("cuda failure|cuda error|hip failure|out of memory|illegal memory access"),
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
