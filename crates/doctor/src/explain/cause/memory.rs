//! Memory that cannot be accessed, registered or allocated.

use super::{Cause, always_first, on_note, on_warning, unchecked};
use crate::explain::errno::{
    EACCES, EAGAIN, EFAULT, EINVAL, EIO, ENOENT, ENOMEM, ENOSPC, ENOSYS, ENOTTY, EOPNOTSUPP, EPERM,
    EPROTONOSUPPORT, EREMOTEIO,
};

/// Words of a line that names the limit.
const MEMLOCK: &str = "max locked memory|ulimit -l|rlimit_memlock|memlock|locked memory|\
             cannot lock memory|mlock";
/// Words of a line that names GPU memory.
const GPU: &str = "cuda|gpu|mem_type bit 0x2|type = 2|hmem|dmabuf|dma-buf|nvidia|gdr|rocm|vram";

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
        "the queue is full: completions are not polled, or too few requests are signalled",
        "Poll the completion queue before posting more; signal at least one request in each length of \
         the queue.",
    )
    .with_errno(&[ENOMEM, EAGAIN]),
    unchecked(
        "invalid work request: too long, too many SGEs, an opcode that this queue pair does not \
         support, or too much inline data",
        "Check the program; compare with the device's limits (`ibv_devinfo -v`).",
    )
    .with_errno(&[EINVAL, EOPNOTSUPP]),
    unchecked(
        "the receive is shorter than the message",
        "Post receives as long as the longest message.",
    )
    .pointed_to_by("message truncated|local length"),
];

pub(super) const REGISTRATION: &[Cause] = &[
    on_warning(
        "memlock",
        "the limit on locked memory",
        "`ulimit -l unlimited`, limits.d, LimitMEMLOCK=infinity; in pods IPC_LOCK and root. \
         `wirelane exec -- COMMAND` raises it as far as allowed.",
    )
    .proven_by(MEMLOCK)
    .with_errno(&[ENOMEM, EPERM, EAGAIN]),
    unchecked(
        "the machine is out of memory",
        "Check `free` and the cgroup's memory limit: pinned memory counts.",
    )
    .with_errno(&[ENOMEM]),
    unchecked(
        "the NIC's table of memory keys is full, or its limit for a virtual function",
        "`rdma resource show mr` counts them; register fewer, larger regions. Kernel lines of mlx5 at \
         that time have a syndrome.",
    )
    .pointed_to_by("async reg mr failed|create_mkey|reg_create|syndrome")
    .with_errno(&[ENOMEM, ENOSPC, EREMOTEIO, EAGAIN]),
    on_warning(
        "gpudirect",
        "GPU memory without GPUDirect support",
        "modprobe nvidia-peermem, or NVIDIA's open modules.",
    )
    .pointed_to_by(GPU)
    .with_errno(&[EFAULT, EINVAL, EIO, EOPNOTSUPP]),
    unchecked(
        "the address is not mapped, or read-only memory is registered for writing, or it is a file or device",
        "Check the program: address, length and access rights.",
    )
    .with_errno(&[EFAULT, EINVAL, EOPNOTSUPP]),
    on_warning(
        "guid",
        "a virtual function without a GUID",
        "Give it one: ib-kubernetes, or `ip link set PF vf N node_guid …`.",
    ),
    on_warning("cgroup", "the cgroup's limit on RDMA objects", "Raise rdma.max.")
        .with_errno(&[EAGAIN]),
];

pub(super) const GPU_REGISTRATION: &[Cause] = &[
    on_warning(
        "gpudirect",
        "no peer memory module, and no DMA-BUF",
        "modprobe nvidia-peermem, or NVIDIA's open modules with Linux 5.12 and later.",
    )
    .with_errno(&[EFAULT, EINVAL, EIO, EOPNOTSUPP, ENOSYS]),
    unchecked(
        "the GPU does not support GPUDirect RDMA, or the memory is of a kind that cannot be registered",
        "GeForce GPUs do not support it. Managed memory (cudaMallocManaged) cannot be registered.",
    )
    .with_errno(&[EFAULT, EINVAL, EIO, EOPNOTSUPP]),
    unchecked(
        "the GPU's window for other devices (BAR1) is full",
        "`nvidia-smi -q -d MEMORY` prints BAR1; enable large BARs (above 4G decoding) in the firmware \
         setup.",
    )
    .pointed_to_by("nvidia_p2p_get_pages|pin_buffer|get_pages")
    .with_errno(&[ENOMEM, EINVAL, ENOSPC]),
    on_warning(
        "memlock",
        "the limit on locked memory",
        "`ulimit -l unlimited`, limits.d, LimitMEMLOCK=infinity.",
    )
    .proven_by(MEMLOCK)
    .with_errno(&[ENOMEM, EPERM]),
    on_note("iommu", "the IOMMU translates", "Add `iommu=pt` to the kernel command line."),
];

pub(super) const NO_GPUDIRECT: &[Cause] = &[
    unchecked(
        "the module does not fit the kernel's RDMA stack or the GPU driver",
        "nvidia-peermem needs an ib_core with peer memory support (MLNX_OFED or DOCA), and must be \
         built with it: install that first, then the GPU driver. With the kernel's own RDMA stack use \
         DMA-BUF: NVIDIA's open modules and Linux 5.12 or later.",
    )
    .proven_by("unknown symbol|disagrees about version|version magic|could not insert")
    .pointed_to_by("nv_mem_client_init"),
    unchecked(
        "the module or its device file is missing",
        "Install and load it: nvidia-peermem comes with the GPU driver, gdrdrv with GDRCopy.",
    )
    .proven_by("not found in directory|no such file|not loaded|not installed"),
    on_warning(
        "gpudirect",
        "no peer memory module, and no DMA-BUF",
        "modprobe nvidia-peermem, or NVIDIA's open modules with Linux 5.12 and later.",
    )
    .pointed_to_by("gpu direct rdma disabled|gpudirect rdma is disabled|not supported"),
    unchecked(
        "a process ended with GPU memory still registered",
        "Nothing to do if the job had ended; otherwise look for the error that ended it.",
    )
    .proven_by("invalid context"),
    unchecked(
        "the device or this build of the library has no GPUDirect",
        "EFA: use an instance type with GPUDirect RDMA (p4d and later) and the libfabric of AWS's \
         installer. UCX and libfabric must be built with CUDA.",
    )
    .pointed_to_by("hmem|net/ofi|libfabric|cuda_copy|gdr_copy|not available"),
    on_note(
        "numa",
        "NCCL considers the distance between NIC and GPU too long",
        "`wirelane topo` prints distances; NCCL_NET_GDR_LEVEL=SYS allows all of them.",
    )
    .pointed_to_by("distance"),
    on_note("iommu", "the IOMMU translates", "Add `iommu=pt` to the kernel command line."),
];

pub(super) const CREATION: &[Cause] = &[
    on_warning(
        "memlock",
        "the limit on locked memory: queues are pinned too",
        "`ulimit -l unlimited`.",
    )
    .proven_by(MEMLOCK)
    .with_errno(&[ENOMEM, EPERM]),
    unchecked(
        "queues deeper than the device allows",
        "Request fewer entries; `ibv_devinfo -v` prints max_qp_wr and max_cqe.",
    )
    .with_errno(&[ENOMEM, EINVAL]),
    unchecked("other processes use all queue pairs", "`rdma resource show` counts them.")
        .with_errno(&[ENOMEM, ENOSPC, EREMOTEIO, EAGAIN]),
    unchecked(
        "the device, its firmware or its driver does not support the requested kind of object",
        "Compare the versions of rdma-core, of the kernel and of the firmware; some kinds (DC, DEVX, \
         extended queues) exist on some devices only.",
    )
    .pointed_to_by("devx|dct|extended cq|abi")
    .with_errno(&[EINVAL, EOPNOTSUPP, EPROTONOSUPPORT, ENOSYS, ENOTTY, EREMOTEIO]),
    on_warning(
        "permissions",
        "this process may not create it",
        "Check the rights on /dev/infiniband; raw packets need CAP_NET_RAW.",
    )
    .with_errno(&[EPERM, EACCES, ENOENT]),
    on_warning("cgroup", "the cgroup's limit on RDMA objects", "Raise rdma.max.")
        .with_errno(&[EAGAIN]),
    on_warning("guid", "a virtual function without a GUID", "Give it one."),
];
