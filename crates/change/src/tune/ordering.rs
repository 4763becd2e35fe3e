//! Relaxed ordering of PCIe writes. It is set in the firmware and in programs, so it is advice.

use super::Context;
use crate::Plan;

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    let nics = context.physical();
    let mlx5 = nics.iter().filter(|(device, _)| device.driver.as_deref() == Some("mlx5_core"));
    let query: Vec<String> =
        mlx5.map(|(_, address)| format!("mlxconfig -d {address} query PCI_WR_ORDERING")).collect();
    if query.is_empty() {
        return;
    }
    let mut commands = query;
    commands.push(
        "mlxconfig -d ADDRESS set PCI_WR_ORDERING=1    # then restart the machine".to_owned(),
    );
    commands.push("export NCCL_IB_PCI_RELAXED_ORDERING=1    # in virtual machines".to_owned());
    plan.advise("ordering", WHY, commands);
}

const WHY: &str = "relaxed ordering raises the throughput of PCIe writes, above all on AMD and in virtual \
                   machines; it is enabled in the NIC's firmware, from the next boot on, and requested by programs";
