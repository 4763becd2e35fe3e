//! GPUs, and the modules that let NICs access their memory.

use super::{ANY_FAILED, FAILED, Phrase, row};
use crate::explain::ErrorClass;

const PEERMEM: &str = "nv_peer_mem|nvidia_peermem|nvidia-peermem|nv_peer_memory|nvidia_peer_memory|\
             peermem|nv_mem|nv_get_p2p|nvidia_p2p|efa_nv_peermem|nvidia-peer";
const GDRCOPY: &str = "gdrdrv|gdrcopy|gdr_copy|gdr_open";

pub(super) const TABLE: &[Phrase] = &[
    row(
        &[
            "while mapping handle|nvidia_p2p_get_pages|gdr_pin_buffer|gdrdrv_pin_buffer|nvidia_p2p_dma_map|\
             get_pages|gdr_map|pin_buffer",
            "fail|ret =|ret=|returned|error",
        ],
        ErrorClass::GpuRegistration,
        "GPU memory could not be pinned",
        "The GPU driver refused to pin the memory for another device: it is not memory of \
         `cudaMalloc`, its range is wrong, or the GPU's window (BAR1) is full.",
    ),
    row(
        &[PEERMEM, "invalid context"],
        ErrorClass::NoGpuDirect,
        "nvidia-peermem skipped memory that was already freed",
        "GPU memory was freed while it was still registered with the NIC, mostly when a process \
         ends. Harmless if the job had ended; otherwise its registration is gone.",
    ),
    row(
        &[
            PEERMEM,
            "unknown symbol|disagrees|version magic|could not insert|couldn't insert|\
             not found|fail|error|err|not loaded|not currently loaded|unable|required|\
             missing|invalid|abort|no such|no symbol|neither|not detected|skip|not supported",
        ],
        ErrorClass::NoGpuDirect,
        "the peer memory module cannot be used",
        "nvidia-peermem lets NICs access GPU memory. It loads only if its version fits the GPU driver, \
         and if ib_core offers `ib_register_peer_memory_client`, which the vendor's driver package has \
         and the kernel's own does not.",
    ),
    row(
        &["libgdrapi", "load|open|dlopen|not found|missing|no such"],
        ErrorClass::NoLibrary,
        "GDRCopy's library is missing",
        "libgdrapi is not installed, or not in a folder that is searched. Only copies of small \
         messages by the CPU need it.",
    )
    .unless("gdrdrv|gdr driver"),
    row(
        &[
            GDRCOPY,
            "unknown symbol|disagrees|version magic|could not insert|could not load|couldn't|\
             not found|fail|error|err|not loaded|unable|no such|missing|not available|\
             not supported|not enabled|not opened|already been|is gdrdrv|gdr driver|too old",
        ],
        ErrorClass::NoGpuDirect,
        "GDRCopy cannot be used",
        "Its kernel module gdrdrv is not loaded, or does not fit the GPU driver. Small messages of \
         GPU memory are then copied by the GPU.",
    ),
    row(
        &[
            "gpudirect|gpu direct",
            "disabled|not supported|not available|not enabled|fail|cannot|unable|not loaded|\
             not detected",
        ],
        ErrorClass::NoGpuDirect,
        "GPUDirect is not used",
        "GPU memory is copied through host memory first.",
    ),
    row(
        &[
            "nvrm|nvidia-nvswitch|sxid|nvswitch|fabricmanager|fabric manager|\
             nvidia-fabricmanager|nvlink",
            "fail|error|err|timed out|timeout|fallen|mismatch|critical|lost|xid|sxid|\
             not responding|warn|fatal|reset|abort|assert|rpc|heartbeat|gsp|unable|cannot|\
             invalid|bad |crash|too few|unexpected|not |no |refused|unknown|stuck|hang",
        ],
        ErrorClass::Gpu,
        "the GPU driver or the NVLink fabric reports an error",
        "The GPU, an NVSwitch or their driver failed; lines with an Xid or SXid number around it have \
         the reason.",
    )
    .unless("nccl info|ucx  info|not available on dev|loading nvidia"),
    row(
        &["cuda_ipc|rocm_ipc|cuda ipc|ipc handle|ipc mem handle|cuda failure|cuda api|hip failure|hip error|\
             peer access|init cuda|initialize cuda|nvml_error|initialize nvml|cuda init|\
             cuda runtime|nvml error|nvml:|nvidia-container-cli|nvidia-modeset|nvidia-smi|\
             system not yet initialized|cuda driver error", ANY_FAILED],
        ErrorClass::Gpu,
        "a call to CUDA failed",
        "The GPU or its driver refused a call; the line has CUDA's reason.",
    )
    .unless("nccl info|not available, please use"),
    row(
        &[
            "nvidia-smi|nvml|gpu",
            "fallen off the bus|gpu is lost|driver/library version mismatch|unknown error|\
             unable to determine the device handle|reboot required|requires reset|has fallen",
        ],
        ErrorClass::Gpu,
        "a GPU cannot be used",
        "The GPU is lost, or the driver's library and module have different versions.",
    ),
    row(
        &[
            "peer-to-peer|peer to peer|p2p",
            "pci|bar|bars|gpu|gpus|iommu|acs",
            "not supported|disabled|fail|unable|cannot|not available",
        ],
        ErrorClass::NoGpuDirect,
        "devices cannot access each other's memory over PCIe",
        "The PCIe switches, the IOMMU (a virtual machine) or the driver does not allow it; data goes through \
         host memory.",
    )
    .unless("nccl|ucx  info|ucx  debug"),
    row(
        &["memory access fault by gpu|hw exception by gpu|gpu core dump|gpu hang|hsa_status_error|illegal memory access|\
             illegal_address|illegaladdress"],
        ErrorClass::Gpu,
        "a program on the GPU failed",
        "It used memory that it may not use, or the GPU hangs: an error of the program or of the GPU, not of \
         the network.",
    )
    .unless("nvlink"),
    row(
        &["cuda_error_|cudaerror|cublas_status_|cudnn_status_|cuda runtime error|hiperror", FAILED],
        ErrorClass::Gpu,
        "a call to CUDA failed",
        "The GPU or its driver refused a call; the line has CUDA's reason.",
    )
    .unless("out of memory|out_of_memory|memory_allocation|memoryallocation|alloc_failed|register|ipc_handle|nccl info"),
    // Huawei's accelerators print where an error was seen.
    row(
        &["[func:|aclrt|aclnn|rtdevicesynchronize|eh9999|ee9999|ez9999", "fail|error|timeout|abnormal|exception"],
        ErrorClass::Gpu,
        "an accelerator (NPU) reports an error",
        "A call to the accelerator or its driver failed; the first of its error lines has the reason.",
    )
    .unless("hccl|hcomm|ei00|socket"),
    row(
        &["amdgpu", "gpu reset|ring|timeout|fail|ras|hang"],
        ErrorClass::Gpu,
        "the GPU driver reports an error",
        "The GPU or its driver failed.",
    ),
    row(
        &[
            "cuda|hip",
            "illegal memory access|device-side assert|uncorrectable ecc|nvlink error|\
             no cuda-capable|driver version is insufficient|system not yet initialized|\
             launch failure|unspecified launch",
        ],
        ErrorClass::Gpu,
        "a call to CUDA failed",
        "The GPU or its driver refused a call, or the program made an error there; the line has CUDA's reason.",
    ),
    row(
        &[
            "cuda|gpu|cudahostregister",
            "register|registration|reg_mr|mr_reg|mem reg|cudahostregister|hostregister",
            "nvshmem|ibgda|nixl|mooncake|rdma|ibv_|mlx|ucx|ofi|ib_",
            FAILED,
        ],
        ErrorClass::GpuRegistration,
        "GPU memory could not be registered",
        "The NIC's driver could not pin GPU memory: that needs nvidia-peermem or DMA-BUF.",
    )
    .unless("(host)"),
    row(
        &["cuda|cuda context", "nvshmem|ibgda|nixl|mooncake|nvls|deepep|uccl|fabric|cuda context|cuda device", FAILED],
        ErrorClass::Gpu,
        "a call to CUDA failed",
        "The GPU or its driver refused a call; the line has CUDA's reason.",
    ),
];
