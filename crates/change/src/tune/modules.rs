//! Modules that RDMA programs need: they are loaded by nobody where rdma-core is not installed.

use node::{LinkLayer, Seen};

use super::{Ask, kept};
use crate::{Change, Plan};

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    if ask.is_container() {
        return;
    }
    let wanted = wanted(ask);
    for (name, why) in &wanted {
        plan.step("modules", *why, Change::module(*name), true);
    }
    let names: Vec<String> = wanted.iter().map(|(name, _)| (*name).to_owned()).collect();
    let file = kept::file("/etc/modules-load.d/wirelane.conf", &names);
    plan.step("modules", kept::WHY, file, true);
}

fn wanted(ask: &Ask<'_>) -> Vec<(&'static str, &'static str)> {
    let mut wanted = vec![
        ("ib_uverbs", "programs use devices by /dev/infiniband/uverbsN"),
        ("rdma_ucm", "programs connect by /dev/infiniband/rdma_cm"),
    ];
    let infiniband = |layer: &Seen<LinkLayer>| *layer == Seen::Value(LinkLayer::InfiniBand);
    // One file for all of the machine, whichever devices are tuned.
    let mut ports = ask.node.devices.iter().flat_map(|device| &device.ports);
    if ports.any(|port| infiniband(&port.link_layer)) {
        wanted.push((
            "ib_umad",
            "tools and subnet managers talk to InfiniBand by /dev/infiniband/umadN",
        ));
    }
    wanted
}
