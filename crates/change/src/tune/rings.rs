//! Rings at their maximum size: packets that find the ring full are dropped.

use doctor::expected::queues::are_largest;

use super::{Context, Profile, persistent, udev};
use crate::{Change, Plan, State, Target};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    if context.profile != Profile::Throughput {
        return;
    }
    for (_, netdev) in context.nics() {
        let name = &netdev.name;
        let answer = context.tree.query_results().ethtool().and_then(|answers| answers.get(name));
        let Some(rings) = answer.and_then(|answer| answer.rings) else { continue };
        if are_largest(rings) {
            continue;
        }
        let (rx, tx) = (rings.rx_max.to_string(), rings.tx_max.to_string());
        let why = format!(
            "rings of {name} have {} and {} entries, at most {rx} and {tx}; its link goes down briefly",
            rings.rx, rings.tx
        );
        let rule = format!("{}, RUN+=\"{ETHTOOL} -G $name rx {rx} tx {tx}\"", udev::net(netdev));
        let wanted = State::Values(vec![Some(rx), Some(tx)]);
        let target = Target::Rings { netdev: name.clone() };
        plan.step("rings", why, Change { target, wanted }, false);
        plan.step("rings", persistent::WHY, persistent::rule("rings", name, rule), false);
    }
}

/// udev needs the full path.
pub(super) const ETHTOOL: &str = "/usr/sbin/ethtool";
