//! Memory that cannot be locked or registered.

use super::{FAILED, Phrase, RDMA, row};
use crate::explain::ErrorClass;
use crate::explain::errno::{EFAULT, ENOMEM, EOPNOTSUPP, EPROTONOSUPPORT};

/// Lines that name the limit. It is the cause, whatever call failed.
pub(super) const LIMITS: &[Phrase] = &[
    row(
        &[
            "shared memory error|shared memory init|allocate shared memory|create shared memory|shm_open|shmget|shmat|/dev/shm|\
             shared memory segment|\
             shared memory object|shared memory limits|posix_fallocate|shared memory file",
            "fail|error|not enough|no space|unable|cannot|could not|couldn't|too small|no such|bus error|stale|instead of",
        ],
        ErrorClass::Other,
        "shared memory between processes of this host could not be created",
        "/dev/shm is full or too small, mostly in a container (Docker: `--shm-size`, `--ipc=host`; \
         Kubernetes: an emptyDir of medium Memory at /dev/shm), or the other process has another. \
         This is not about the network.",
    ),
    row(
        &["openfabrics subsystem"],
        ErrorClass::Registration,
        "only part of the memory can be registered",
        "The limit on locked memory, or the driver's table of pages (mlx4: log_num_mtt), is too small.",
    ),
    row(
        &[
            "max locked memory|ulimit -l|rlimit_memlock|memlock|locked memory",
            "set|current|low|limit |fail|error|increase|exceed|raise|too|insufficient|bytes.|\
             allocate|big enough|not enough",
        ],
        ErrorClass::Registration,
        "the limit on locked memory is too low",
        "The program pins memory for the NIC, and its user may lock no more (`ulimit -l`).",
    ),
    row(
        &[
            "cannot lock memory|mlock|lock page|lock pages|lock memory|locking pages|pin pages|pin page",
            FAILED,
        ],
        ErrorClass::Registration,
        "memory could not be locked",
        "The limit on locked memory is too low.",
    ),
    row(
        &["registering only part|allow registering part|reg mem limit|init-fail-no-mem"],
        ErrorClass::Registration,
        "only part of the memory can be registered",
        "The limit on locked memory, or the driver's table of pages (mlx4: log_num_mtt), is too small.",
    ),
];

const REGISTER: &str = "reg_mr|ibv_reg_mr|ibv_exp_reg_mr|reg mr|mr_reg|fi_mr_reg|mr reg|register mr|\
             allocate mr|alloc mr|register memory|register region|register address|\
             register local memory|memory registration|mem registration|register_mr|\
             registermem|register_from_pd|registerlocalmemory|register_memory|create_mkey|\
             create mkey|registering memory|mem_reg|reg_mem|create mr|creating mr|\
             register gpu|register device memory|registering mr|registration of mr|buffer mr|alloc mr|\
             register the memory|register buffer|memory region not|register_extent|mem_map|\
             umem_reg|umem reg|register user memory|register host memory|register the mr|pin memory|pin user pages|\
             memory region register|register memory region";
/// Words that need another one about RDMA.
const REGISTER_LOOSE: &str = "register|registering|registration|memory region|batch_register|register_local|\
             register_buffer|mkey|registermem|registered";

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["reg_dmabuf_mr|dmabuf|dma-buf|dma_buf", FAILED],
        ErrorClass::GpuRegistration,
        "GPU memory could not be registered with DMA-BUF",
        "The kernel, the NIC's driver or the GPU driver does not support DMA-BUF for GPU memory.",
    ),
    row(
        &[
            "nvidia_p2p_get_pages|gdr_pin_buffer|gdrdrv_pin_buffer|gdr_map|nvidia_p2p_dma_map",
            FAILED,
        ],
        ErrorClass::GpuRegistration,
        "GPU memory could not be pinned",
        "The GPU driver refused to pin the memory for another device: it is not memory of \
         `cudaMalloc`, its range is wrong, or the GPU's window (BAR1) is full.",
    ),
    row(
        &[REGISTER, "cuda|gpu|vram|hmem|rocm|mem_type bit 0x2|type = 2|nvidia", FAILED],
        ErrorClass::GpuRegistration,
        "GPU memory could not be registered",
        "The NIC's driver could not pin GPU memory: that needs nvidia-peermem or DMA-BUF.",
    )
    .unless("(host)"),
    row(
        &["ucx|ucp|uct", "mem list|memh|mem_list|device mem", FAILED],
        ErrorClass::GpuRegistration,
        "GPU memory could not be registered",
        "UCX could not prepare GPU memory for the NIC: that needs nvidia-peermem or DMA-BUF.",
    ),
    row(
        &["mpool|memory pool", "chunk", "ucx|uct|ucp", FAILED],
        ErrorClass::Registration,
        "memory for messages could not be registered",
        "UCX registers its buffers with the NIC; that failed. The lines before have the reason.",
    ),
    row(
        &[REGISTER, FAILED],
        ErrorClass::GpuRegistration,
        "memory could not be registered",
        "The kernel finds no pages at the address: it is GPU memory without nvidia-peermem or \
         DMA-BUF, or it is not mapped, or read-only but registered for writing.",
    )
    .only_with(&[EFAULT, EOPNOTSUPP, EPROTONOSUPPORT]),
    row(
        &[REGISTER, FAILED],
        ErrorClass::Registration,
        "memory could not be registered",
        "Pinning memory failed: the limit on locked memory is reached, or memory or a table of the \
         NIC is used up.",
    )
    .only_with(&[ENOMEM]),
    row(
        &[RDMA, REGISTER_LOOSE, "memory|mr|buffer|region|mkey|address|mem|cache", FAILED],
        ErrorClass::GpuRegistration,
        "memory could not be registered",
        "The kernel finds no pages at the address: it is GPU memory without nvidia-peermem or \
         DMA-BUF, or it is not mapped, or read-only but registered for writing.",
    )
    .only_with(&[EFAULT]),
    // Mooncake registers caches, which are mostly in GPU memory.
    row(
        &["rdmatransport", "register memory", FAILED],
        ErrorClass::GpuRegistration,
        "memory could not be registered",
        "The line does not say why. Transfer engines register caches in GPU memory, which needs \
         nvidia-peermem or DMA-BUF; the lines before have the error number.",
    ),
    row(
        &[REGISTER, "fail|unable|could not|couldn't|cannot|can't|can not|error|err|not |exceed"],
        ErrorClass::Registration,
        "memory could not be registered",
        "The kernel refused to pin the memory, or the NIC refused to register it.",
    )
    .unless("not require|not needed|does not select"),
    row(
        &[RDMA, REGISTER_LOOSE, "memory|mr|buffer|region|mkey|address|mem|cache", FAILED],
        ErrorClass::Registration,
        "memory could not be registered",
        "The kernel refused to pin the memory, or the NIC refused to register it.",
    ),
];
