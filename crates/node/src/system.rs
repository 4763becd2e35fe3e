//! Kernel modules, device nodes, the IOMMU and GPUDirect.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{FileMetadata, Reading, Tree};

/// A kernel module that is relevant for the fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Module {
    /// `ib_uverbs`.
    pub name: String,
    /// Its version, if it has one of its own.
    pub version: Option<String>,
}

/// A device node in `/dev/infiniband`, or of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CharDevice {
    /// `/dev/infiniband/uverbs0`.
    pub path: String,
    /// Its permissions and numbers.
    pub node: Reading<FileMetadata>,
}

/// The IOMMU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Iommu {
    /// Types of groups by group: `DMA`, `DMA-FQ`, `identity`. Empty: there is no IOMMU, or it is off.
    pub groups: BTreeMap<String, Reading<String>>,
}

/// How NICs can access GPU memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuDirect {
    /// The versions of loaded peer memory modules by name: `nvidia_peermem`, `nv_mem`, `nv_mem_nc`.
    pub peer_memory: BTreeMap<String, String>,
    /// Whether NVIDIA's modules are the open ones, which DMA-BUF needs.
    pub open_modules: Option<bool>,
}

/// The IOMMU's groups. Kernels before 4.19 do not have their type.
pub(crate) fn read_iommu(tree: &Tree) -> Iommu {
    const FOLDER: &str = "/sys/kernel/iommu_groups";
    let kind = |group: String| {
        let kind = tree.text(&format!("{FOLDER}/{group}/type"));
        (group, kind)
    };
    Iommu { groups: tree.list(FOLDER).into_iter().map(kind).collect() }
}

/// Relevant modules that are loaded.
pub(crate) fn read_modules(tree: &Tree) -> Vec<Module> {
    let loaded = tree.list("/sys/module").into_iter();
    let module = |name: String| {
        let version = tree.text(&format!("/sys/module/{name}/version")).into_value();
        Module { name, version }
    };
    loaded.filter(|name| MODULES.contains(&name.as_str())).map(module).collect()
}

/// Device nodes that programs open.
pub(crate) fn read_char_devices(tree: &Tree) -> Vec<CharDevice> {
    let of_infiniband = tree.list("/dev/infiniband").into_iter().filter(|name| {
        let kinds = ["uverbs", "umad", "issm", "ucm", "rdma_cm"];
        kinds.iter().any(|kind| name.starts_with(kind))
    });
    let of_gpus = tree.list("/dev").into_iter().filter(|name| {
        let gpu = name.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u32>().is_ok());
        gpu || ["nvidiactl", "nvidia-uvm", "gdrdrv", "kfd"].contains(&name.as_str())
    });
    let paths = of_infiniband.map(|name| format!("/dev/infiniband/{name}"));
    let paths = paths.chain(of_gpus.map(|name| format!("/dev/{name}")));
    paths.map(|path| CharDevice { node: tree.metadata(&path), path }).collect()
}

/// How NICs can access GPU memory.
pub(crate) fn read_gpu_direct(tree: &Tree) -> GpuDirect {
    let files = [
        ("nvidia_peermem", "/sys/module/nvidia_peermem/version"),
        ("nv_mem", "/sys/kernel/mm/memory_peers/nv_mem/version"),
        ("nv_mem_nc", "/sys/kernel/mm/memory_peers/nv_mem_nc/version"),
    ];
    let version = |(name, file): (&str, &str)| match tree.text(file) {
        Reading::Value(version) => Some((name.to_owned(), version)),
        _ => None,
    };
    let nvidia = tree.text("/proc/driver/nvidia/version").into_value();
    GpuDirect {
        peer_memory: files.into_iter().filter_map(version).collect(),
        open_modules: nvidia.map(|version| version.contains("Open Kernel Module")),
    }
}

/// Relevant modules: the RDMA stack, its drivers, its users, and GPUs.
const MODULES: &[&str] = &[
    "amdgpu",
    "bnxt_en",
    "bnxt_re",
    "cxgb4",
    "efa",
    "erdma",
    "gdrdrv",
    "hfi1",
    "hns_roce_hw_v2",
    "i40e",
    "i40iw",
    "ib_cm",
    "ib_core",
    "ib_ipoib",
    "ib_iser",
    "ib_isert",
    "ib_srp",
    "ib_srpt",
    "ib_ucm",
    "ib_umad",
    "ib_uverbs",
    "ice",
    "ionic",
    "ionic_rdma",
    "irdma",
    "iw_cm",
    "iw_cxgb4",
    "knem",
    "mana",
    "mana_ib",
    "mlx4_core",
    "mlx4_en",
    "mlx4_ib",
    "mlx5_core",
    "mlx5_ib",
    "nv_peer_mem",
    "nvidia",
    "nvidia_fs",
    "nvidia_peermem",
    "nvidia_uvm",
    "nvme_rdma",
    "nvmet_rdma",
    "ocrdma",
    "qede",
    "qedr",
    "rdma_cm",
    "rdma_rxe",
    "rdma_ucm",
    "rdmavt",
    "rpcrdma",
    "siw",
    "svcrdma",
    "usnic_verbs",
    "vfio_pci",
    "vmw_pvrdma",
    "xpmem",
    "xprtrdma",
];
