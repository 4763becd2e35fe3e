//! Modules that RDMA programs need: without rdma-core nothing loads them.

use doctor::expected::kernel_modules::{INFINIBAND_TOOLS, NEEDED, has_infiniband};

use super::{Context, persistent};
use crate::{Change, Plan};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    if context.is_container() {
        return;
    }
    let wanted = wanted(context);
    for (name, why) in &wanted {
        plan.step("modules", *why, Change::module(*name), true);
    }
    let names: Vec<String> = wanted.iter().map(|(name, _)| (*name).to_owned()).collect();
    let file = persistent::file("/etc/modules-load.d/wirelane.conf", &names);
    plan.step("modules", persistent::WHY, file, true);
}

fn wanted(context: &Context<'_>) -> Vec<(&'static str, &'static str)> {
    let mut wanted: Vec<_> = NEEDED.iter().map(|module| (module.name, module.used_for)).collect();
    // One file for the whole machine, whichever devices are tuned.
    if has_infiniband(context.node) {
        wanted.push(INFINIBAND_TOOLS);
    }
    wanted
}
