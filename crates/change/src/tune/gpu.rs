//! NVIDIA's driver unloads an unused GPU, and the next program waits seconds for it.

use super::Context;
use crate::Plan;

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    let Some(nvml) = context.tree.query_results().nvml() else { return };
    let off = nvml.gpus.iter().filter(|gpu| gpu.persistence == Some(false)).count();
    if off == 0 {
        return;
    }
    let why = format!("the driver unloads {off} of {} GPUs when unused", nvml.gpus.len());
    plan.advise(
        "gpu",
        why,
        vec![
            "systemctl enable --now nvidia-persistenced".to_owned(),
            "nvidia-smi -pm 1    # without that service; until the next boot".to_owned(),
        ],
    );
}
