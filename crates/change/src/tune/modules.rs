//! Modules that RDMA programs need: without rdma-core nothing loads them.

use doctor::limits::kernel_modules::{INFINIBAND_TOOLS, NEEDED, has_infiniband};

use super::{Ask, persistent};
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
    let file = persistent::file("/etc/modules-load.d/wirelane.conf", &names);
    plan.step("modules", persistent::WHY, file, true);
}

fn wanted(ask: &Ask<'_>) -> Vec<(&'static str, &'static str)> {
    let mut wanted: Vec<_> = NEEDED.iter().map(|module| (module.name, module.used_for)).collect();
    // One file for all of the machine, whichever devices are tuned.
    if has_infiniband(ask.node) {
        wanted.push(INFINIBAND_TOOLS);
    }
    wanted
}
