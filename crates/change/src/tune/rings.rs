//! Rings at their largest: a burst that finds the ring full is dropped.

use doctor::limits::queues::are_largest;

use super::{Ask, Profile, persistent, udev};
use crate::{Change, Plan, State, Target};

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    if ask.profile != Profile::Throughput {
        return;
    }
    for (_, netdev) in ask.cards() {
        let name = &netdev.name;
        let answer = ask.tree.answers().ethtool().and_then(|answers| answers.get(name));
        let Some(rings) = answer.and_then(|answer| answer.rings) else { continue };
        if are_largest(rings) {
            continue;
        }
        let (rx, tx) = (rings.rx_max.to_string(), rings.tx_max.to_string());
        let why = format!(
            "rings of {name} hold {} and {} packets of {rx} and {tx}; its link is down for a moment",
            rings.rx, rings.tx
        );
        let rule = format!("{}, RUN+=\"{ETHTOOL} -G $name rx {rx} tx {tx}\"", udev::net(netdev));
        let wanted = State::Values(vec![Some(rx), Some(tx)]);
        let target = Target::Rings { netdev: name.clone() };
        plan.step("rings", why, Change { target, wanted }, false);
        plan.step("rings", persistent::WHY, persistent::rule("rings", name, rule), false);
    }
}

/// udev wants the whole path.
pub(super) const ETHTOOL: &str = "/usr/sbin/ethtool";
