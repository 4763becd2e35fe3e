//! Interrupt coalescing: none for latency; the driver's adaptive mode for throughput.

use node::NetDev;
use node::answers::Coalescing;

use super::rings::ETHTOOL;
use super::{Ask, Profile, persistent, udev};
use crate::{Change, Plan, State, Target};

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    for (_, netdev) in ask.cards() {
        let answer = ask.tree.answers().ethtool().and_then(|answers| answers.get(&netdev.name));
        let Some(now) = answer.and_then(|answer| answer.coalescing) else { continue };
        match ask.profile {
            Profile::Latency if now.rx_usecs > 0 || is_adaptive(now) => at_once(plan, netdev, now),
            Profile::Throughput if !is_adaptive(now) && can_adapt(netdev) => adapt(plan, netdev),
            Profile::Latency | Profile::Throughput => {}
        }
    }
}

fn at_once(plan: &mut Plan, netdev: &NetDev, now: Coalescing) {
    let why = format!(
        "{} holds interrupts back for up to {} µs; programs that poll do not notice",
        netdev.name, now.rx_usecs
    );
    // A driver that cannot adapt is not told not to.
    let off = is_adaptive(now).then_some("off");
    set(plan, netdev, why, [off, off, Some("0"), Some("0")]);
}

fn adapt(plan: &mut Plan, netdev: &NetDev) {
    let why = format!("the driver of {} knows best when many packets come", netdev.name);
    set(plan, netdev, why, [Some("on"), Some("on"), None, None]);
}

fn set(plan: &mut Plan, netdev: &NetDev, why: String, wanted: [Option<&str>; 4]) {
    let name = &netdev.name;
    let words = wanted.iter().zip(WORDS);
    let arguments: Vec<String> =
        words.filter_map(|(value, word)| Some(format!("{word} {}", (*value)?))).collect();
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

/// Drivers that can adapt in both directions.
const ADAPTIVE: [&str; 2] = ["ice", "mlx5_core"];
const WORDS: [&str; 4] = ["adaptive-rx", "adaptive-tx", "rx-usecs", "tx-usecs"];
