//! Memory that cannot be reached, registered or allocated.

use super::{Cause, first, hinted_by, seen_by, told};

pub(super) const LOCAL_PROTECTION: &[Cause] = &[
    first(
        "iommu",
        "the IOMMU translates the card's accesses, also in virtual machines",
        "Add `iommu=pt` (Arm: `iommu.passthrough=1`) to the kernel's command line and restart; \
         `wirelane k8s machineconfig` for OpenShift.",
    ),
    first(
        "acs",
        "ACS on a PCIe switch sends what card and GPU say to each other up to the root",
        "Switch ACS off in the firmware set-up, or by setpci until the next restart.",
    ),
    seen_by(
        "gpudirect",
        "the peer memory module does not fit the GPU's driver",
        "Reload nvidia-peermem after each driver update; or use DMA-BUF with the open modules.",
    ),
    told(
        "the path between card and GPU memory, whatever blocks it",
        "To prove it: run once with NCCL_NET_GDR_LEVEL=0 (UCX: UCX_IB_GPU_DIRECT_RDMA=n). If that \
         works, it is that path.",
    ),
    told(
        "the program gave a wrong key or range, or freed memory that was in flight",
        "Without GPUs in play this is the likeliest: look at the program.",
    ),
];

pub(super) const REMOTE: &[Cause] = &[
    told(
        "key, address or length of the peer's memory is wrong, or its registration is gone",
        "Look at the program, at the end that handed out the key; a restarted peer has other keys.",
    ),
    told(
        "the memory was registered without the right that is asked for",
        "Register with remote write, read or atomic rights as needed.",
    ),
    hinted_by(
        "iommu",
        "the peer's card could not reach its own memory (IOMMU, ACS): run this at the peer",
        "`iommu=pt` at the peer.",
    ),
];

pub(super) const LOCAL_USE: &[Cause] = &[
    told(
        "the work request does not fit: too long, too many pieces, a wrong opcode for this queue \
         pair, an inline send beyond the limit",
        "Look at the program; compare with the device's limits (`ibv_devinfo -v`).",
    ),
    told(
        "the receive is shorter than the message",
        "Post receives as long as the longest message.",
    ),
];

pub(super) const REGISTRATION: &[Cause] = &[
    seen_by(
        "memlock",
        "the limit on locked memory",
        "`ulimit -l unlimited`, limits.d, LimitMEMLOCK=infinity; in pods IPC_LOCK and root. \
         `wirelane exec -- COMMAND` raises what it may.",
    ),
    seen_by(
        "gpudirect",
        "GPU memory, and nothing that gives it to the card",
        "modprobe nvidia-peermem, or NVIDIA's open modules.",
    ),
    seen_by(
        "guid",
        "a virtual function without a GUID",
        "Give it one: ib-kubernetes, or `ip link set PF vf N node_guid …`.",
    ),
    seen_by("cgroup", "the control group's limit on RDMA objects", "Raise rdma.max."),
    told(
        "the machine is out of memory",
        "Look at `free` and the control group's memory limit: pinned memory counts.",
    ),
];

pub(super) const GPU_MEMORY: &[Cause] = &[
    seen_by(
        "gpudirect",
        "no peer memory module, and no DMA-BUF",
        "modprobe nvidia-peermem, or NVIDIA's open modules with Linux 5.12 and later.",
    ),
    hinted_by("iommu", "the IOMMU translates", "`iommu=pt` on the kernel's command line."),
    hinted_by(
        "numa",
        "card and GPU are too far apart for NCCL's liking",
        "`wirelane topo` shows distances; NCCL_NET_GDR_LEVEL=SYS allows the farthest.",
    ),
];

pub(super) const CREATION: &[Cause] = &[
    seen_by(
        "memlock",
        "the limit on locked memory: queues are pinned too",
        "`ulimit -l unlimited`.",
    ),
    seen_by("cgroup", "the control group's limit on RDMA objects", "Raise rdma.max."),
    seen_by("guid", "a virtual function without a GUID", "Give it one."),
    told(
        "queues deeper than the device allows",
        "Ask for fewer entries; `ibv_devinfo -v` shows max_qp_wr and max_cqe.",
    ),
    told("other processes hold all queue pairs", "`rdma resource show` counts them."),
];
