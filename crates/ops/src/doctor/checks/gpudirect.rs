//! Whether cards can reach GPU memory.

use crate::doctor::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "gpudirect",
    title: "cards can read and write GPU memory",
    why: "With GPUDirect a card moves GPU memory by itself; without, every byte is copied through the host's memory first, \
          which often halves what a job gets. It needs a peer memory module, or DMA-BUF with NVIDIA's open kernel modules.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let nvidia = case.gpus().into_iter().any(|gpu| gpu.driver.as_deref() == Some("nvidia"));
    if !nvidia || !case.moves_gpu_memory() {
        return Vec::new();
    }
    let direct = &case.node.gpu_direct;
    let modules = Evidence::new("/sys/module/nvidia_peermem/version", loaded(case));
    if let Some((module, version)) = direct.peer_memory.iter().next() {
        return vec![
            Finding::ok("host", format!("peer memory module {module} {version} is loaded"))
                .read(modules),
        ];
    }
    let open = Evidence::new(
        "/proc/driver/nvidia/version",
        if direct.open_modules == Some(true) {
            "open kernel modules"
        } else {
            "not the open kernel modules"
        },
    );
    vec![match direct.open_modules {
        Some(true) => Finding::ok("host", "NVIDIA's open modules give GPU memory by DMA-BUF").read(open),
        Some(false) => Finding::warning("host", "no peer memory module, and NVIDIA's modules are not the open ones: no GPUDirect")
            .read(modules)
            .read(open)
            .fix("modprobe nvidia-peermem")
            .fix("Or install the driver with NVIDIA's open kernel modules, and use DMA-BUF (Linux 5.12 and later)."),
        None => Finding::unknown("host", "whether cards can reach GPU memory is not known").read(modules),
    }]
}

fn loaded(case: &Case<'_>) -> String {
    match case.node.gpu_direct.peer_memory.iter().next() {
        Some((module, version)) => format!("{module} {version}"),
        None => "not there".to_owned(),
    }
}
