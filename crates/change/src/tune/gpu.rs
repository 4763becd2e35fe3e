//! NVIDIA's driver unloads a GPU that nobody uses, and the next program waits seconds for it.

use super::Ask;
use crate::Plan;

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    let Some(nvml) = ask.tree.answers().nvml() else { return };
    let off = nvml.gpus.iter().filter(|gpu| gpu.persistence == Some(false)).count();
    if off == 0 {
        return;
    }
    let why = format!("the driver unloads {off} of {} GPUs when nobody uses them", nvml.gpus.len());
    plan.advise(
        "gpu",
        why,
        vec![
            "systemctl enable --now nvidia-persistenced".to_owned(),
            "nvidia-smi -pm 1    # where there is no such service; until the next start".to_owned(),
        ],
    );
}
