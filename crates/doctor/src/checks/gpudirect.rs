//! Whether NICs can access GPU memory (GPUDirect RDMA).

use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "gpudirect",
    title: "NICs can read and write GPU memory (GPUDirect)",
    why: "With GPUDirect a NIC accesses GPU memory directly; without it, every byte is copied \
          through host memory first, which often halves the bandwidth of a job. It needs a peer \
          memory module, or DMA-BUF with NVIDIA's open kernel modules.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let nvidia = input.gpus().into_iter().any(|gpu| gpu.driver.as_deref() == Some("nvidia"));
    if !nvidia || !input.moves_gpu_memory() {
        return Vec::new();
    }
    let direct = &input.node.gpu_direct;
    if let Some((module, version)) = direct.peer_memory.iter().next() {
        let finding =
            Finding::ok("host", format!("peer memory module {module} {version} is loaded"));
        return vec![finding.evidence(input.file(version_file(module)))];
    }
    if input.is_efa_only() && input.tree.exists(EFA_MODULE) {
        let finding = Finding::ok("host", "peer memory module efa_nv_peermem is loaded");
        return vec![finding.evidence(Evidence::new(EFA_MODULE, "exists"))];
    }
    let module = if input.is_efa_only() { "efa_nv_peermem" } else { "nvidia-peermem" };
    let finding = match direct.open_modules {
        Some(true) => Finding::ok("host", "NVIDIA's open modules export GPU memory with DMA-BUF"),
        Some(false) => Finding::warning(
            "host",
            "no GPUDirect: no peer memory module, and NVIDIA's modules are not the open ones",
        )
        .evidence(input.file(version_file("nvidia_peermem")))
        .fix(format!("modprobe {module}"))
        .fix(
            "Or install the driver with NVIDIA's open kernel modules, and use DMA-BUF (Linux 5.12 \
             and later).",
        ),
        None => Finding::unknown("host", "whether NICs can access GPU memory is not known")
            .evidence(input.file(version_file("nvidia_peermem"))),
    };
    vec![finding.evidence(input.file("/proc/driver/nvidia/version"))]
}

/// The peer memory module of EFA's installer.
const EFA_MODULE: &str = "/sys/module/efa_nv_peermem";

/// The version file of a peer memory module.
fn version_file(module: &str) -> String {
    match module {
        "nvidia_peermem" => "/sys/module/nvidia_peermem/version".to_owned(),
        other => format!("/sys/kernel/mm/memory_peers/{other}/version"),
    }
}
