//! Interrupt coalescing: none for latency; the driver's adaptive mode for throughput.

use node::NetDev;
use node::queries::Coalescing;

use super::rings::ETHTOOL;
use super::{Context, Profile, persistent, udev};
use crate::{Change, Plan, State, Target};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    for (_, netdev) in context.nics() {
        let answer =
            context.tree.query_results().ethtool().and_then(|answers| answers.get(&netdev.name));
        let Some(now) = answer.and_then(|answer| answer.coalescing) else { continue };
        match context.profile {
            Profile::Latency if now.rx_usecs > 0 || is_adaptive(now) => disable(plan, netdev, now),
            Profile::Throughput if !is_adaptive(now) && can_adapt(netdev) => {
                enable_adaptive(plan, netdev)
            }
            Profile::Latency | Profile::Throughput => {}
        }
    }
}

fn disable(plan: &mut Plan, netdev: &NetDev, now: Coalescing) {
    let why = format!(
        "{} delays interrupts for up to {} µs; no effect on programs that poll",
        netdev.name, now.rx_usecs
    );
    // Adaptive mode is set only where the driver has it.
    let off = is_adaptive(now).then_some("off");
    set(plan, netdev, why, [off, off, Some("0"), Some("0")]);
}

fn enable_adaptive(plan: &mut Plan, netdev: &NetDev) {
    let why = format!("{} has adaptive coalescing off, its driver supports it", netdev.name);
    set(plan, netdev, why, [Some("on"), Some("on"), None, None]);
}

fn set(plan: &mut Plan, netdev: &NetDev, why: String, wanted: [Option<&str>; 4]) {
    let name = &netdev.name;
    let named = wanted.iter().zip(ARGUMENTS);
    let arguments: Vec<String> =
        named.filter_map(|(value, name)| Some(format!("{name} {}", (*value)?))).collect();
    let arguments = arguments.join(" ");
    let rule = format!("{}, RUN+=\"{ETHTOOL} -C $name {arguments}\"", udev::net(netdev));
    let target = Target::Coalescing { netdev: name.clone() };
    let wanted = State::Values(wanted.map(|value| value.map(str::to_owned)).to_vec());
    plan.step("coalescing", why, Change { target, wanted }, false);
    plan.step("coalescing", persistent::WHY, persistent::rule("coalescing", name, rule), false);
}

fn is_adaptive(now: Coalescing) -> bool {
    now.adaptive_rx || now.adaptive_tx
}

fn can_adapt(netdev: &NetDev) -> bool {
    netdev.driver.as_deref().is_some_and(|driver| ADAPTIVE.contains(&driver))
}

/// Drivers with adaptive coalescing in both directions.
const ADAPTIVE: [&str; 2] = ["ice", "mlx5_core"];
const ARGUMENTS: [&str; 4] = ["adaptive-rx", "adaptive-tx", "rx-usecs", "tx-usecs"];
