//! Memory that cannot be accessed, registered or allocated.

use super::{Cause, always_first, on_note, on_warning, unchecked};

pub(super) const LOCAL_PROTECTION: &[Cause] = &[
    always_first(
        "iommu",
        "the IOMMU translates the NIC's accesses, also in virtual machines",
        "Add `iommu=pt` (Arm: `iommu.passthrough=1`) to the kernel command line and reboot; \
         `wirelane k8s machineconfig` for OpenShift.",
    ),
    always_first(
        "acs",
        "ACS on a PCIe switch redirects traffic between NIC and GPU to the root complex",
        "Disable ACS in the firmware setup, or with setpci until the next reboot.",
    ),
    on_warning(
        "gpudirect",
        "the peer memory module does not match the GPU driver",
        "Reload nvidia-peermem after each driver update; or use DMA-BUF with the open modules.",
    ),
    unchecked(
        "the path between NIC and GPU memory is blocked",
        "To test it: run once with NCCL_NET_GDR_LEVEL=0 (UCX: UCX_IB_GPU_DIRECT_RDMA=n). If that \
         works, this path is the cause.",
    ),
    unchecked(
        "the program used a wrong key or range, or freed memory that was in flight",
        "The likeliest cause without GPUs: check the program.",
    ),
];

pub(super) const REMOTE: &[Cause] = &[
    unchecked(
        "key, address or length of the peer's memory is wrong, or it was deregistered",
        "Check the program at the end that sent the key; a restarted peer has other keys.",
    ),
    unchecked(
        "the memory was registered without the access right that is needed",
        "Register with remote write, read or atomic rights as needed.",
    ),
    on_note(
        "iommu",
        "the peer's NIC could not access its own memory (IOMMU, ACS): run this at the peer",
        "Add `iommu=pt` at the peer.",
    ),
];

pub(super) const LOCAL_USE: &[Cause] = &[
    unchecked(
        "invalid work request: too long, too many SGEs, an opcode that this queue pair does not \
         support, or too much inline data",
        "Check the program; compare with the device's limits (`ibv_devinfo -v`).",
    ),
    unchecked(
        "the receive is shorter than the message",
        "Post receives as long as the longest message.",
    ),
];

pub(super) const REGISTRATION: &[Cause] = &[
    on_warning(
        "memlock",
        "the limit on locked memory",
        "`ulimit -l unlimited`, limits.d, LimitMEMLOCK=infinity; in pods IPC_LOCK and root. \
         `wirelane exec -- COMMAND` raises it as far as allowed.",
    ),
    on_warning(
        "gpudirect",
        "GPU memory without GPUDirect support",
        "modprobe nvidia-peermem, or NVIDIA's open modules.",
    ),
    on_warning(
        "guid",
        "a virtual function without a GUID",
        "Give it one: ib-kubernetes, or `ip link set PF vf N node_guid …`.",
    ),
    on_warning("cgroup", "the cgroup's limit on RDMA objects", "Raise rdma.max."),
    unchecked(
        "the machine is out of memory",
        "Check `free` and the cgroup's memory limit: pinned memory counts.",
    ),
];

pub(super) const GPU_MEMORY: &[Cause] = &[
    on_warning(
        "gpudirect",
        "no peer memory module, and no DMA-BUF",
        "modprobe nvidia-peermem, or NVIDIA's open modules with Linux 5.12 and later.",
    ),
    on_note("iommu", "the IOMMU translates", "Add `iommu=pt` to the kernel command line."),
    on_note(
        "numa",
        "NCCL considers the distance between NIC and GPU too long",
        "`wirelane topo` prints distances; NCCL_NET_GDR_LEVEL=SYS allows all of them.",
    ),
];

pub(super) const CREATION: &[Cause] = &[
    on_warning(
        "memlock",
        "the limit on locked memory: queues are pinned too",
        "`ulimit -l unlimited`.",
    ),
    on_warning("cgroup", "the cgroup's limit on RDMA objects", "Raise rdma.max."),
    on_warning("guid", "a virtual function without a GUID", "Give it one."),
    unchecked(
        "queues deeper than the device allows",
        "Request fewer entries; `ibv_devinfo -v` prints max_qp_wr and max_cqe.",
    ),
    unchecked("other processes use all queue pairs", "`rdma resource show` counts them."),
];
