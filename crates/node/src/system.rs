//! What the kernel has for the fabric: modules, device nodes, the IOMMU, GPUDirect.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{FileNode, Seen};

/// A kernel module that matters to the fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Module {
    /// `ib_uverbs`.
    pub name: String,
    /// Its version, where it has one of its own.
    pub version: Option<String>,
}

/// A node of `/dev/infiniband`, or of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CharDevice {
    /// `/dev/infiniband/uverbs0`.
    pub path: String,
    /// Its rights and numbers.
    pub node: Seen<FileNode>,
}

/// The IOMMU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Iommu {
    /// Kinds of groups by group: `DMA`, `DMA-FQ`, `identity`. Empty: there is no IOMMU, or it is off.
    pub groups: BTreeMap<String, Seen<String>>,
}

/// How GPU memory can be reached by NICs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuDirect {
    /// The version of a peer memory module that is loaded, by its file: `nvidia_peermem`, `nv_mem`, `nv_mem_nc`.
    pub peer_memory: BTreeMap<String, String>,
    /// Whether NVIDIA's modules are the open ones, which DMA-BUF needs.
    pub open_modules: Option<bool>,
}

/// The IOMMU's groups.
pub(crate) fn read_iommu(_tree: &crate::Tree) -> Iommu {
    Iommu::default()
}

/// Modules that matter.
pub(crate) fn read_modules(_tree: &crate::Tree) -> Vec<Module> {
    Vec::new()
}

/// Nodes that programs open.
pub(crate) fn read_char_devices(_tree: &crate::Tree) -> Vec<CharDevice> {
    Vec::new()
}

/// How GPU memory can be reached.
pub(crate) fn read_gpu_direct(_tree: &crate::Tree) -> GpuDirect {
    GpuDirect { peer_memory: BTreeMap::new(), open_modules: None }
}
