//! Whether cards can reach GPU memory.

use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "gpudirect",
    title: "cards can read and write GPU memory",
    why: "With GPUDirect a card moves GPU memory by itself; without, every byte is copied through \
          the host's memory first, which often halves what a job gets. It needs a peer memory \
          module, or DMA-BUF with NVIDIA's open kernel modules.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let nvidia = case.gpus().into_iter().any(|gpu| gpu.driver.as_deref() == Some("nvidia"));
    if !nvidia || !case.moves_gpu_memory() {
        return Vec::new();
    }
    let direct = &case.node.gpu_direct;
    if let Some((module, version)) = direct.peer_memory.iter().next() {
        let finding =
            Finding::ok("host", format!("peer memory module {module} {version} is loaded"));
        return vec![finding.read(case.file(file_of(module)))];
    }
    if case.is_efa_alone() && case.tree.exists(EFA_MODULE) {
        let finding = Finding::ok("host", "peer memory module efa_nv_peermem is loaded");
        return vec![finding.read(Evidence::new(EFA_MODULE, "is there"))];
    }
    let module = if case.is_efa_alone() { "efa_nv_peermem" } else { "nvidia-peermem" };
    let finding = match direct.open_modules {
        Some(true) => Finding::ok("host", "NVIDIA's open modules give GPU memory by DMA-BUF"),
        Some(false) => Finding::warning(
            "host",
            "no peer memory module, and NVIDIA's modules are not the open ones: no GPUDirect",
        )
        .read(case.file(file_of("nvidia_peermem")))
        .fix(format!("modprobe {module}"))
        .fix(
            "Or install the driver with NVIDIA's open kernel modules, and use DMA-BUF (Linux 5.12 \
             and later).",
        ),
        None => Finding::unknown("host", "whether cards can reach GPU memory is not known")
            .read(case.file(file_of("nvidia_peermem"))),
    };
    vec![finding.read(case.file("/proc/driver/nvidia/version"))]
}

/// The peer memory module that EFA's installer brings.
const EFA_MODULE: &str = "/sys/module/efa_nv_peermem";

/// Where a peer memory module tells its version.
fn file_of(module: &str) -> String {
    match module {
        "nvidia_peermem" => "/sys/module/nvidia_peermem/version".to_owned(),
        other => format!("/sys/kernel/mm/memory_peers/{other}/version"),
    }
}
