//! Lines of Wirelane, perftest, rdma-core's tools, transfer engines, OpenSM and DPDK, whose words mean something else elsewhere.

use super::{ANY_FAILED, ANY_FAILED_OR_WARNING, FAILED, Phrase, RDMA, row};
use crate::explain::ErrorClass;
use crate::explain::errno::{EBUSY, ENODEV, ENOENT};

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["kvtransfererror|kvcache from prefill|kv cache from prefill|kv chunk|receive all kvs|not alive|expired kv blocks"],
        ErrorClass::NoAnswer,
        "the peer of a transfer does not answer",
        "The other instance ended, hangs, or is not reached: look at its log first.",
    ),
    row(
        &["nvshmem|ibgda|ibrc|bootstrap", "allgather|alltoall|barrier|pmi|bootstrap|message truncated", ANY_FAILED],
        ErrorClass::OutOfBand,
        "NVSHMEM's processes could not exchange data at the start",
        "Before RDMA all processes exchange addresses over TCP or the launcher; another process ended, or has \
         another version or other settings.",
    )
    .unless("nccl"),
    row(
        &["osm_|opensm|0x01 ->", "err "],
        ErrorClass::Other,
        "the subnet manager reports a failure",
        "OpenSM could not do a step of its work; ports that it does not configure stay in the state INIT.",
    )
    .unless("timeout|timed out|no response|completed with error|open port|open_port"),
    row(
        &["the peer or the path to it is gone"],
        ErrorClass::RetryExceeded,
        "a lane of Wirelane lost its peer",
        "The peer did not acknowledge packets after all retries; the link opens another lane if possible.",
    ),
    row(
        &["the device refused local memory or failed"],
        ErrorClass::LocalProtection,
        "a lane of Wirelane failed at this end",
        "The NIC could not access local memory, or failed itself.",
    ),
    row(
        &["the peer posted no receive in time"],
        ErrorClass::NotReady,
        "a lane of Wirelane found its peer not ready",
        "The peer had no receive posted, until the retries were exhausted.",
    ),
    row(
        &["conflicting cpu frequency|cpu frequency is not max"],
        ErrorClass::Frequency,
        "CPUs change their frequency",
        "perftest measures time in CPU cycles, whose length changes: printed latencies are not \
         reliable.",
    ),
    row(
        &["couldn't allocate td|couldn't allocate pad|couldn't allocate dmah|failed to create dmah|failed to create dek|\
             failed to create wq|failed to create rwq|failed to alloc dm|shadow queue|failed to get ucontext|\
             failed to map doorbell"],
        ErrorClass::Creation,
        "a queue pair or another object could not be created",
        "The NIC or its driver does not support the object, or a limit is reached.",
    ),
    row(
        &["couldn't read gid|couldn't read lid|couldn't read link layer|couldn't read port attribute|\
             couldn't read ibdev|unable to open any devices|failed to get default ca|failed to get default port|\
             couldn't find device name in|failed to query device vendor"],
        ErrorClass::NoDevice,
        "the device cannot be queried",
        "It does not exist, or not for this process.",
    ),
    row(
        &["couldn't init gpu context|couldn't initialize rocm|couldn't initialize neuron|couldn't initialize mlu|\
             failed to load cuda library"],
        ErrorClass::Gpu,
        "the GPU cannot be used",
        "Its driver is not loaded, or this process may not use the GPU.",
    ),
    row(
        &["failed to get completion events|couldn't request rcq|couldn't request cq|couldn't leave multicast|\
             couldn't destroy|failed to destroy resources|failed to discover fabric|failed to query sa:|\
             failed to query local node info|completion vector specified|couldn't set eth mtu|\
             data direct is not supported|error occurred while running! abort"],
        ErrorClass::Other,
        "a program reports a failure",
        "The line has no reason that is known here: look for the first error before it, at both ends.",
    ),
    row(
        &["couldn't allocate protection domain|couldn't allocate pd|failed to allocate pd"],
        ErrorClass::Creation,
        "a protection domain could not be created",
        "A limit of the NIC or of this process is reached, or the device is not usable by it.",
    ),
    row(
        &["have rdma enabled|rdma is not enabled|rdma is disabled|rdma not enabled"],
        ErrorClass::NoDevice,
        "a host has no usable RDMA device",
        "Its driver is not loaded, RDMA is switched off in its settings, or it has no such NIC.",
    ),
    row(
        &["destroying qpair when queue depth"],
        ErrorClass::Flushed,
        "SPDK closes a connection with requests in flight",
        "The connection ended because of an earlier error, or its client went away.",
    ),
    row(
        &["batch data transfer timeout|data transfer timeout|transfer slice failed"],
        ErrorClass::NoAnswer,
        "a transfer did not complete in time",
        "The peer hangs or ended, or packets to it or from it are lost.",
    ),
    row(
        &["gds err|gds_register|register_range()", "register|inserting range"],
        ErrorClass::GpuRegistration,
        "GPU memory could not be registered",
        "The GPU driver or the NIC's driver refused to map the memory, or its context has ended.",
    ),
    row(
        &["no psm device|no psm2 device|no psm3 device|no opx device"],
        ErrorClass::NoDevice,
        "no device for this provider",
        "The host has none of these devices; libfabric goes on with another provider, if one is allowed.",
    ),
    row(
        &["vma error|xlio error", "attach|ring|flow"],
        ErrorClass::Creation,
        "the library for sockets over verbs could not create its objects",
        "It needs CAP_NET_RAW, raw packet queue pairs and flow rules of the NIC.",
    )
    .unless("create_comp_channel"),
    row(
        &["completion with error at"],
        ErrorClass::Other,
        "an operation failed",
        "The next line has its status.",
    ),
    row(
        &[
            "port",
            "state is down|state: down|not active|is not in active|port_down|is down|\
             state is init|state init|state down|state polling|state disabled",
            RDMA,
        ],
        ErrorClass::PortDown,
        "a port is not active",
        "The cable or the link partner is disconnected, or no subnet manager has configured the port.",
    ),
    row(
        &[
            "port number|ib port|port state|phys state|physical state|physical_state|phys_state",
            "down|not active|polling|disabled|init",
        ],
        ErrorClass::PortDown,
        "a port is not active",
        "The cable or the link partner is disconnected, or no subnet manager has configured the port.",
    ),
    row(
        &["bond", "link status definitely down|link status down|interface down"],
        ErrorClass::PortDown,
        "a link went down",
        "The cable or the link partner is disconnected.",
    ),
    row(
        &["sm port is down|lost carrier|no carrier"],
        ErrorClass::PortDown,
        "a link went down",
        "The cable or the link partner is disconnected.",
    ),
    row(
        &["hugepage|hugepages|huge page|huge pages|hugetlb", "not enough|fail|unable|cannot|insufficient|no free", RDMA],
        ErrorClass::Other,
        "there are too few huge pages",
        "The program asked for huge pages and goes on without, or stops: reserve them (vm.nr_hugepages).",
    ),
    row(
        &["nvidia-fs|nvidia_fs|cufio|cufile", "not loaded|not registered|driver"],
        ErrorClass::NoGpuDirect,
        "GPUDirect Storage cannot be used",
        "The module nvidia-fs is not loaded, or the file system or disk has no support for it.",
    ),
    row(
        &["nvidia-fs|nvidia_fs|cufio|cufile", "map |register|bufregister|bar-usage|pin"],
        ErrorClass::GpuRegistration,
        "GPU memory could not be mapped for storage",
        "The GPU driver refused to map the memory, or the GPU's window (BAR1) is full.",
    ),
    row(
        &[
            "eal:|net_failsafe|testpmd:",
            "requested device|attach the device|attach device|probe failed|no probed",
            "cannot|fail|no probed|unable",
        ],
        ErrorClass::NoDevice,
        "DPDK cannot use a device",
        "Its driver refused the PCI function, or none of DPDK's drivers fits; the lines before have the reason.",
    ),
    row(
        &["cq transport error|spdk_nvme_probe()|nvme ctrlr scan failed|transport address '"],
        ErrorClass::NoAnswer,
        "a connection of NVMe over fabrics is gone",
        "The target ended it, or no longer answers.",
    ),
    row(
        &["retransmission|retransmissions|retransmit", "threshold|exceed|limit|exhaust|too many|max"],
        ErrorClass::RetryExceeded,
        "a peer did not answer (retries exceeded)",
        "The peer did not acknowledge packets after all retries: packets or acknowledgements are lost \
         on the path, or the peer's process ended.",
    ),
    row(
        &["mlx|rte_|pmd|dpdk", "flow", "fail|refuse|cannot|can't|unable|error"],
        ErrorClass::Other,
        "the NIC refused a flow rule",
        "The NIC, its firmware or its mode (virtual function, switchdev) does not support the rule; \
         this is about Ethernet packets, not about RDMA.",
    )
    .unless("flow_label|ibv_|ucx|nccl"),
    row(
        &[
            "mlx5_net|mlx4_net|net_mlx5|net_mlx4|mlx5_common|mlx5_pci|mlx5_eth|mlx5_vdpa",
            "cannot list|no verbs device|verbs device not found|no ib device|not found|\
             no suitable",
        ],
        ErrorClass::NoDevice,
        "DPDK's driver finds no RDMA device for the PCI function",
        "It works through the kernel's driver: mlx5_ib and ib_uverbs must be loaded, and the function \
         must not be bound to vfio.",
    ),
    row(
        &[
            "mlx5_net|mlx4_net|net_mlx5|net_mlx4|mlx5_common|mlx5_pci|mlx5_eth",
            "fail|abort|error|cannot|unable",
        ],
        ErrorClass::NoDevice,
        "DPDK's driver finds no RDMA device for the PCI function",
        "It works through the kernel's driver: mlx5_ib and ib_uverbs must be loaded, and the function \
         must not be bound to vfio.",
    )
    .only_with(&[ENOENT, ENODEV]),
    row(
        &[
            "mlx5_net|mlx4_net|net_mlx5|net_mlx4|mlx5_common|mlx5_pci|mlx5_eth",
            "fail|abort|error|cannot|unable",
        ],
        ErrorClass::Creation,
        "DPDK's driver could not set up the device",
        "The kernel's driver or rdma-core refused an object: mostly their versions, or the rights of \
         this process, do not fit.",
    ),
];

/// Lines that report only that something failed.
pub(super) const RESULTS: &[Phrase] = &[
    row(
        &[RDMA],
        ErrorClass::Other,
        "a device or an object is in use",
        "Another program, a container or the kernel still uses it.",
    )
    .only_with(&[EBUSY]),
    row(
        &["notif", "nixl|gennotif|agent", ANY_FAILED],
        ErrorClass::Other,
        "a notification could not be sent",
        "No backend that both ends have can send it; the lines before have the reason.",
    ),
    row(
        &["transfers after|transfer timed out|transfer timeout|transfer_timeout", FAILED],
        ErrorClass::NoAnswer,
        "a transfer did not complete in time",
        "The peer hangs or ended, or packets to it or from it are lost.",
    ),
    row(
        &["transfer failed for|transfer incomplete|transfer_fail|transfer_incomplete"],
        ErrorClass::Other,
        "a program reports that a transfer failed",
        "The line has no reason of its own: look for the first error before it, at both ends.",
    ),
    row(
        &["couldn't allocate work buf|couldn't allocate context|resources needed by comm"],
        ErrorClass::Creation,
        "perftest could not create its objects",
        "Memory could not be allocated, or the NIC or its driver refused an object.",
    ),
    row(
        &["device removal"],
        ErrorClass::DeviceFatal,
        "the NIC was removed",
        "The device was reset or its driver unloaded while the program used it.",
    ),
    row(
        &["io engine init failed"],
        ErrorClass::Other,
        "fio could not start",
        "The lines before have the reason.",
    ),
    row(
        &["work completion error|parse wc failed|wc failed|got cqe with error|completion error in"],
        ErrorClass::Other,
        "an operation failed",
        "The line has no status: look for one that has, at both ends.",
    ),
    row(
        &[
            "sriov|sr-iov|config vfs|configure vfs|vfs for|virtual functions",
            "fail|error|cannot|unable",
        ],
        ErrorClass::Other,
        "virtual functions could not be set up",
        "The firmware setup, the NIC's firmware or its current functions do not allow it: the number \
         can only be changed from 0.",
    ),
    row(
        &["-e- |-e-", "device|psid|flash|image|firmware|fw"],
        ErrorClass::Other,
        "a firmware tool of the NIC failed",
        "The tool cannot access the NIC, or the image is not for it (PSID).",
    ),
    row(
        &["no local ports detected|no local ports"],
        ErrorClass::NoDevice,
        "no RDMA port was found",
        "There is no RDMA device with an active port, or the program may not open it.",
    ),
    row(
        &["process_vm_readv|process_vm_writev|ptrace_scope", "not permitted|fail|denied|error"],
        ErrorClass::Restricted,
        "a process may not read the memory of another one on this host",
        "kernel.yama.ptrace_scope, or separate user namespaces of containers, forbid it. This is not \
         about the network.",
    ),
    row(
        &["transfer engine return error|failed to complete run_iter|run_iter|nixl_err_|\
             kvtransfererror|kv transfer failed|transfer engine failed"],
        ErrorClass::Other,
        "a program reports that a transfer failed",
        "The line has no reason of its own: look for the first error before it, at both ends.",
    ),
    row(
        &["cufio|cufile", ANY_FAILED],
        ErrorClass::NoGpuDirect,
        "GPUDirect Storage cannot be used",
        "The file system, the disk or its driver has no support for it, or CUDA could not be started.",
    )
    .unless("cuda_error|cuinit|network device|bufregister"),
    row(
        &["dump error cqe|dump_cqe|dump cqe"],
        ErrorClass::Other,
        "the driver prints a completion that failed",
        "The program that posted the request prints its status.",
    ),
    row(
        &[
            RDMA,
            "fatal error|returned error|return error|internal error|unknown error|aborting|\
             abort",
        ],
        ErrorClass::Other,
        "a program stops after an error",
        "The line has no reason of its own: look for the first error before it, at both ends.",
    ),
];

/// The last row: a program of this field reports a failure.
pub(super) const ANY_FAILURE: &[Phrase] = &[row(
    &[RDMA, ANY_FAILED_OR_WARNING],
    ErrorClass::Other,
    "a program reports a failure",
    "The line has no reason that is known here: look for the first error before it, at both ends.",
)];
