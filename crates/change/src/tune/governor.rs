//! CPUs at full clock: a CPU that has to raise its clock first adds latency.

use doctor::expected::cpus::GOVERNOR;
use node::Reading;

use super::{Context, persistent};
use crate::{Change, Plan};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    let files = files(context);
    let other = files.iter().filter(|(_, governor)| governor != GOVERNOR).count();
    if other == 0 {
        return;
    }
    let why = format!("{other} of {} CPUs scale their clock with load", files.len());
    let paths = files.into_iter().map(|(path, _)| path).collect();
    plan.step("governor", why, Change::values(paths, GOVERNOR), false);
    let line = format!("w {FOLDER}/cpu*/cpufreq/scaling_governor - - - - {GOVERNOR}");
    plan.step("governor", persistent::WHY, persistent::values("governor", &[line]), false);
}

/// Governor files of the CPUs whose driver has the wanted governor, with their content.
fn files(context: &Context<'_>) -> Vec<(String, String)> {
    let tree = context.tree;
    let governor = |name: String| {
        name.strip_prefix("cpu")?.parse::<u32>().ok()?;
        let folder = format!("{FOLDER}/{name}/cpufreq");
        let path = format!("{folder}/scaling_governor");
        let governor = tree.text(&path).into_value()?;
        let can = match tree.text(&format!("{folder}/scaling_available_governors")) {
            Reading::Value(names) => names.split_whitespace().any(|name| name == GOVERNOR),
            _ => true,
        };
        can.then_some((path, governor))
    };
    tree.list(FOLDER).into_iter().filter_map(governor).collect()
}

const FOLDER: &str = "/sys/devices/system/cpu";
