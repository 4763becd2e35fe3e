//! Optional counters of congestion control, which are off by default. Setting them replaces the whole
//! list and would discard counters that others enabled: so it is advice.

use super::Context;
use crate::Plan;

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    let mlx5 =
        context.devices.iter().filter(|device| device.driver.as_deref() == Some("mlx5_core"));
    let mut commands = Vec::new();
    for device in mlx5 {
        for port in &device.ports {
            let link = format!("{}/{}", device.name, port.number);
            commands.push(format!("rdma statistic mode link {link}"));
            commands.push(format!("rdma statistic set link {link} optional-counters {WANTED}"));
        }
    }
    if !commands.is_empty() {
        plan.advise("counters", WHY, commands);
    }
}

const WANTED: &str = "cc_rx_ce_pkts,cc_rx_cnp_pkts,cc_tx_cnp_pkts";
const WHY: &str = "ECN-marked packets and CNPs are counted only when enabled (kernel 5.16 and later). \
                   `set` replaces the list: add what the first command prints. Lost at a restart";
