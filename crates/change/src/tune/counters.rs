//! Counters that are off until somebody asks: what congestion control sees. Setting them replaces the whole
//! list, so that others' choice would be lost: advice.

use super::Ask;
use crate::Plan;

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    let mlx5 = ask.devices.iter().filter(|device| device.driver.as_deref() == Some("mlx5_core"));
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
const WHY: &str = "marked packets and congestion notices are counted only when asked for (kernel 5.16 and later). \
                   `set` replaces the list: add what the first command shows. Gone with a restart";
