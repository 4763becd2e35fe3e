//! The mode of IPoIB: datagrams, or connections with longer packets.

use node::NetDev;
use serde::Serialize;

use super::{Context, PERSISTENT, Refusal, persistent_file};
use crate::{Change, Plan};

/// A mode of IPoIB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IpoibMode {
    /// Unreliable datagrams: scales, with offloads in the NIC.
    Datagram,
    /// A connection for each peer: packets of 65520 bytes.
    Connected,
}

impl IpoibMode {
    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            IpoibMode::Datagram => "datagram",
            IpoibMode::Connected => "connected",
        }
    }

    /// The largest MTU that always works.
    fn mtu(self) -> u32 {
        match self {
            IpoibMode::Datagram => 2044,
            IpoibMode::Connected => 65520,
        }
    }
}

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let Some(mode) = context.request.ipoib else { return Ok(()) };
    let netdevs: Vec<&NetDev> =
        context.node.netdevs.iter().filter(|netdev| netdev.ipoib_mode.is_some()).collect();
    if netdevs.is_empty() {
        return Err(Refusal::WrongUse(format!(
            "IPoIB mode {}: no net device here is IPoIB with a configurable mode",
            mode.name()
        )));
    }
    for netdev in
        netdevs.into_iter().filter(|netdev| netdev.ipoib_mode.as_deref() != Some(mode.name()))
    {
        set(plan, netdev, mode);
    }
    Ok(())
}

fn set(plan: &mut Plan, netdev: &NetDev, mode: IpoibMode) {
    let name = &netdev.name;
    let folder = format!("/sys/class/net/{name}");
    let why = format!("{name} is in {} mode", netdev.ipoib_mode.as_deref().unwrap_or_default());
    let to_mode = Change::value(format!("{folder}/mode"), mode.name());
    let to_mtu = Change::value(format!("{folder}/mtu"), mode.mtu().to_string());
    let mtu_reason = format!("the MTU of {} mode", mode.name());
    // The kernel reduces the MTU when it leaves connected mode. Set before, it is in the journal and is restored.
    match mode {
        IpoibMode::Datagram if netdev.mtu.value().is_some_and(|mtu| *mtu > mode.mtu()) => {
            plan.step("ipoib", mtu_reason, to_mtu, false);
            plan.step("ipoib", why, to_mode, false);
        }
        IpoibMode::Datagram => plan.step("ipoib", why, to_mode, false),
        IpoibMode::Connected => {
            plan.step("ipoib", why, to_mode, false);
            plan.step("ipoib", mtu_reason, to_mtu, false);
        }
    }
    let rule = format!(
        "{}, ATTR{{mode}}=\"{}\", ATTR{{mtu}}=\"{}\"",
        crate::tune::udev::net(netdev),
        mode.name(),
        mode.mtu()
    );
    let file = format!("/etc/udev/rules.d/90-wirelane-ipoib-{name}.rules");
    plan.step("ipoib", PERSISTENT, Change::file(file, persistent_file(&[rule])), false);
}
