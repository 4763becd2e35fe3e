//! A port's rate now, and the rate it should have. There is no list of boards: cable, neighbours and the other end decide.

use node::answers::Ethtool;
use node::{Device, LinkLayer, Port, Seen};

use super::case::{Case, gbps, is_software, is_virtual, port_name};
use super::{Evidence, Verdict};

/// A rate in Mb/s, and what it follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownRate {
    pub(crate) mbps: u64,
    pub(super) by: String,
    pub(super) evidence: Evidence,
}

/// What it should run at, and how bad it is when it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) told: KnownRate,
    pub(super) verdict: Verdict,
}

/// What is known of a port's rate beside the file that tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Where the port's own file is vague: what it runs at, if the net device tells. Else the file is right.
    pub(crate) instead: Option<Option<u64>>,
    /// What it should run at, in Mb/s, and what that follows from.
    pub(crate) expected: Option<(u64, String)>,
}

/// For monitoring. What is worth no more than a note is no expectation: that a card could do more than its cable's
/// other end, or that a virtual function is slower than others, is true of many machines for as long as they live.
pub(crate) fn standing(case: &Case<'_>, device: &Device, port: &Port) -> Standing {
    let mbps = now(case, device, port).map(|told| told.mbps);
    let judged = mbps.filter(|_| port.is_active() && !is_software(device));
    let expected = judged.and_then(|mbps| expected(case, device, port, mbps));
    let firm = expected.filter(|expected| expected.verdict != Verdict::Note);
    Standing {
        instead: is_vague(device, port).then_some(mbps),
        expected: firm.map(|expected| (expected.told.mbps, expected.told.by)),
    }
}

/// What a port that is active runs at.
pub(crate) fn now(case: &Case<'_>, device: &Device, port: &Port) -> Option<KnownRate> {
    if is_vague(device, port) {
        return by_netdev(case, port);
    }
    let rate = port.rate.value()?;
    Some(KnownRate {
        mbps: rate.mbps,
        by: "the port".to_owned(),
        evidence: case.port_file(device, port, "rate"),
    })
}

/// mlx4 calls every speed of Ethernet but 40 and 56 Gb/s `10 Gb/sec (1X QDR)`.
fn is_vague(device: &Device, port: &Port) -> bool {
    let mlx4 = device.driver.as_deref().is_some_and(|driver| driver.starts_with("mlx4"));
    let ten = port.rate.value().is_none_or(|rate| rate.mbps == 10_000);
    mlx4 && ten && port.link_layer == Seen::Value(LinkLayer::Ethernet)
}

fn by_netdev(case: &Case<'_>, port: &Port) -> Option<KnownRate> {
    let netdev = case.netdev(port)?;
    let told = |mbps: u32, source: String| KnownRate {
        mbps: u64::from(mbps),
        by: netdev.name.clone(),
        evidence: Evidence::new(source, mbps.to_string()),
    };
    if let Some(mbps) = netdev.speed_mbps {
        return Some(told(mbps, format!("/sys/class/net/{}/speed", netdev.name)));
    }
    let mbps = ethtool(case, port)?.speed_mbps?;
    Some(told(mbps, format!("ethtool {}: speed", netdev.name)))
}

/// What it should run at, by the best evidence there is.
pub(super) fn expected(
    case: &Case<'_>,
    device: &Device,
    port: &Port,
    now: u64,
) -> Option<Expected> {
    by_user(case)
        .or_else(|| by_partner(case, port))
        .or_else(|| by_cable(case, port))
        .or_else(|| by_neighbour(case, device, port, now))
        .or_else(|| by_modes(case, port))
}

fn by_user(case: &Case<'_>) -> Option<Expected> {
    let mbps = case.settings.expect_rate_mbps?;
    let evidence = Evidence::new("expected rate", gbps(mbps));
    Some(Expected {
        told: KnownRate { mbps, by: "the user".to_owned(), evidence },
        verdict: Verdict::Problem,
    })
}

/// The best speed that both ends can have.
fn by_partner(case: &Case<'_>, port: &Port) -> Option<Expected> {
    let modes = ethtool(case, port)?.modes.as_ref()?;
    let both = modes.partner_mbps.iter().filter(|mbps| modes.supported_mbps.contains(mbps)).max();
    let mbps = *both?;
    let evidence = Evidence::new(
        format!("ethtool {}: link partner's modes", port.netdev.as_deref()?),
        list(&modes.partner_mbps),
    );
    Some(Expected {
        told: KnownRate { mbps: mbps.into(), by: "the other end of the link".to_owned(), evidence },
        verdict: Verdict::Problem,
    })
}

/// What the cable is made for, if the port can have that.
fn by_cable(case: &Case<'_>, port: &Port) -> Option<Expected> {
    let ethtool = ethtool(case, port)?;
    let module = ethtool.module.as_ref()?;
    let made_for = module.nominal_mbps?;
    let supported =
        ethtool.modes.as_ref().map(|modes| modes.supported_mbps.as_slice()).unwrap_or_default();
    let mbps = match supported {
        [] => made_for,
        speeds => *speeds.iter().filter(|mbps| **mbps <= made_for).max()?,
    };
    let identity = [&module.form, &module.vendor, &module.part]
        .map(|word| word.as_deref().unwrap_or_default());
    let evidence = Evidence::new(
        format!("ethtool {}: module", port.netdev.as_deref()?),
        format!("{} made for {}", identity.join(" ").trim(), gbps(made_for.into())),
    );
    Some(Expected {
        told: KnownRate { mbps: mbps.into(), by: "the cable".to_owned(), evidence },
        verdict: Verdict::Warning,
    })
}

/// The fastest sibling or card of the same model, if it is faster.
fn by_neighbour(case: &Case<'_>, device: &Device, port: &Port, at: u64) -> Option<Expected> {
    let own = device
        .ports
        .iter()
        .filter(|other| other.number != port.number)
        .map(|other| (device, other));
    let twins = case.same_model(device).into_iter();
    let twins = twins.flat_map(|twin| twin.ports.iter().map(move |port| (twin, port)));
    let same_kind = |other: &Port| other.is_active() && other.link_layer == port.link_layer;
    let faster = own
        .chain(twins)
        .filter(|(_, other)| same_kind(other))
        .filter_map(|(device, other)| Some((port_name(device, other), now(case, device, other)?)))
        .filter(|(_, told)| told.mbps > at)
        .max_by_key(|(_, told)| told.mbps)?;
    let (name, told) = faster;
    let verdict = if is_virtual(device) { Verdict::Note } else { Verdict::Warning };
    Some(Expected {
        told: KnownRate { by: format!("{name}, of the same model,"), ..told },
        verdict,
    })
}

/// What the card could do with what is plugged in: worth a note, since the other end may not be able to.
fn by_modes(case: &Case<'_>, port: &Port) -> Option<Expected> {
    let modes = ethtool(case, port)?.modes.as_ref()?;
    let mbps = *modes.supported_mbps.iter().max()?;
    let evidence = Evidence::new(
        format!("ethtool {}: supported modes", port.netdev.as_deref()?),
        list(&modes.supported_mbps),
    );
    Some(Expected {
        told: KnownRate { mbps: mbps.into(), by: "the card".to_owned(), evidence },
        verdict: Verdict::Note,
    })
}

fn ethtool<'c>(case: &Case<'c>, port: &Port) -> Option<&'c Ethtool> {
    // A bond's own modes say nothing of its members' wires.
    let netdev = case.netdev(port).filter(|netdev| netdev.bonding.is_none())?;
    case.tree.answers().ethtool()?.get(&netdev.name)
}

fn list(speeds: &[u32]) -> String {
    speeds.iter().map(|mbps| gbps(u64::from(*mbps))).collect::<Vec<_>>().join(", ")
}
