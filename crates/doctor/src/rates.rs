//! The current rate of a port, and the rate it should have. There is no table of NIC models: the link partner, the cable and
//! other ports of the same model decide.

use node::queries::Ethtool;
use node::{Device, LinkLayer, Port, Reading};

use super::input::{CheckInput, gbps, is_software, is_virtual, port_name};
use super::{Evidence, Severity};

/// A rate in Mb/s and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownRate {
    pub(crate) mbps: u64,
    pub(super) source: String,
    pub(super) evidence: Evidence,
}

/// The rate a port should have, and the severity if it is slower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExpectedRate {
    pub(super) rate: KnownRate,
    pub(super) severity: Severity,
}

/// What is known of a port's rate besides its file `rate`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RateStatus {
    /// If the port's own file is imprecise: the rate of the net device, if known. `None`: the file is right.
    pub(crate) netdev_mbps: Option<Option<u64>>,
    /// The expected rate in Mb/s, and its source.
    pub(crate) expected: Option<(u64, String)>,
}

/// For monitoring. An expectation that is only worth a note is left out: that a NIC could do more than its link
/// partner, or that a virtual function is slower than others, is permanently true on many machines.
pub(crate) fn status(input: &CheckInput<'_>, device: &Device, port: &Port) -> RateStatus {
    let mbps = current(input, device, port).map(|rate| rate.mbps);
    let checked = mbps.filter(|_| port.is_active() && !is_software(device));
    let expected = checked.and_then(|mbps| expected(input, device, port, mbps));
    let reliable = expected.filter(|expected| expected.severity != Severity::Note);
    RateStatus {
        netdev_mbps: is_imprecise(device, port).then_some(mbps),
        expected: reliable.map(|expected| (expected.rate.mbps, expected.rate.source)),
    }
}

/// The current rate of an active port.
pub(crate) fn current(input: &CheckInput<'_>, device: &Device, port: &Port) -> Option<KnownRate> {
    if is_imprecise(device, port) {
        return netdev_rate(input, port);
    }
    let rate = port.rate.value()?;
    Some(KnownRate {
        mbps: rate.mbps,
        source: "the port".to_owned(),
        evidence: input.port_file(device, port, "rate"),
    })
}

/// mlx4 reports every Ethernet speed except 40 and 56 Gb/s as `10 Gb/sec (1X QDR)`.
fn is_imprecise(device: &Device, port: &Port) -> bool {
    let mlx4 = device.driver.as_deref().is_some_and(|driver| driver.starts_with("mlx4"));
    let ten = port.rate.value().is_none_or(|rate| rate.mbps == 10_000);
    mlx4 && ten && port.link_layer == Reading::Value(LinkLayer::Ethernet)
}

fn netdev_rate(input: &CheckInput<'_>, port: &Port) -> Option<KnownRate> {
    let netdev = input.netdev(port)?;
    let rate = |mbps: u32, file: String| KnownRate {
        mbps: u64::from(mbps),
        source: netdev.name.clone(),
        evidence: Evidence::new(file, mbps.to_string()),
    };
    if let Some(mbps) = netdev.speed_mbps {
        return Some(rate(mbps, format!("/sys/class/net/{}/speed", netdev.name)));
    }
    let mbps = ethtool(input, port)?.speed_mbps?;
    Some(rate(mbps, format!("ethtool {}: speed", netdev.name)))
}

/// The rate the port should have, by the best evidence there is.
pub(super) fn expected(
    input: &CheckInput<'_>,
    device: &Device,
    port: &Port,
    now_mbps: u64,
) -> Option<ExpectedRate> {
    by_user(input)
        .or_else(|| by_link_partner(input, port))
        .or_else(|| by_cable(input, port))
        .or_else(|| by_same_model(input, device, port, now_mbps))
        .or_else(|| by_supported_modes(input, port))
}

fn by_user(input: &CheckInput<'_>) -> Option<ExpectedRate> {
    let mbps = input.expectations.expect_rate_mbps?;
    let evidence = Evidence::new("expected rate", gbps(mbps));
    Some(ExpectedRate {
        rate: KnownRate { mbps, source: "the user".to_owned(), evidence },
        severity: Severity::Problem,
    })
}

/// The best speed that both ends support.
fn by_link_partner(input: &CheckInput<'_>, port: &Port) -> Option<ExpectedRate> {
    let modes = ethtool(input, port)?.modes.as_ref()?;
    let both = modes.partner_mbps.iter().filter(|mbps| modes.supported_mbps.contains(mbps)).max();
    let mbps = *both?;
    let evidence = Evidence::new(
        format!("ethtool {}: link partner's modes", port.netdev.as_deref()?),
        list(&modes.partner_mbps),
    );
    Some(ExpectedRate {
        rate: KnownRate { mbps: mbps.into(), source: "the link partner".to_owned(), evidence },
        severity: Severity::Problem,
    })
}

/// The nominal rate of the cable, as far as the port supports it.
fn by_cable(input: &CheckInput<'_>, port: &Port) -> Option<ExpectedRate> {
    let ethtool = ethtool(input, port)?;
    let module = ethtool.module.as_ref()?;
    let nominal_mbps = module.nominal_mbps?;
    let supported =
        ethtool.modes.as_ref().map(|modes| modes.supported_mbps.as_slice()).unwrap_or_default();
    let mbps = match supported {
        [] => nominal_mbps,
        speeds => *speeds.iter().filter(|mbps| **mbps <= nominal_mbps).max()?,
    };
    let identity = [&module.form, &module.vendor, &module.part]
        .map(|word| word.as_deref().unwrap_or_default());
    let evidence = Evidence::new(
        format!("ethtool {}: module", port.netdev.as_deref()?),
        format!("{} rated for {}", identity.join(" ").trim(), gbps(nominal_mbps.into())),
    );
    Some(ExpectedRate {
        rate: KnownRate { mbps: mbps.into(), source: "the cable".to_owned(), evidence },
        severity: Severity::Warning,
    })
}

/// The fastest other port of the device or of a NIC of the same model, if it is faster.
fn by_same_model(
    input: &CheckInput<'_>,
    device: &Device,
    port: &Port,
    now_mbps: u64,
) -> Option<ExpectedRate> {
    let own = device
        .ports
        .iter()
        .filter(|other| other.number != port.number)
        .map(|other| (device, other));
    let twins = input.same_model(device).into_iter();
    let twins = twins.flat_map(|twin| twin.ports.iter().map(move |port| (twin, port)));
    let same_kind = |other: &Port| other.is_active() && other.link_layer == port.link_layer;
    let faster = own
        .chain(twins)
        .filter(|(_, other)| same_kind(other))
        .filter_map(|(device, other)| {
            Some((port_name(device, other), current(input, device, other)?))
        })
        .filter(|(_, rate)| rate.mbps > now_mbps)
        .max_by_key(|(_, rate)| rate.mbps)?;
    let (name, rate) = faster;
    let severity = if is_virtual(device) { Severity::Note } else { Severity::Warning };
    Some(ExpectedRate {
        rate: KnownRate { source: format!("{name}, same model"), ..rate },
        severity,
    })
}

/// The best speed that the NIC supports: worth a note, since the link partner may not support it.
fn by_supported_modes(input: &CheckInput<'_>, port: &Port) -> Option<ExpectedRate> {
    let modes = ethtool(input, port)?.modes.as_ref()?;
    let mbps = *modes.supported_mbps.iter().max()?;
    let evidence = Evidence::new(
        format!("ethtool {}: supported modes", port.netdev.as_deref()?),
        list(&modes.supported_mbps),
    );
    Some(ExpectedRate {
        rate: KnownRate { mbps: mbps.into(), source: "the NIC".to_owned(), evidence },
        severity: Severity::Note,
    })
}

fn ethtool<'c>(input: &CheckInput<'c>, port: &Port) -> Option<&'c Ethtool> {
    // A bond's own modes are not those of its members' links.
    let netdev = input.netdev(port).filter(|netdev| netdev.bonding.is_none())?;
    input.tree.query_results().ethtool()?.get(&netdev.name)
}

fn list(speeds: &[u32]) -> String {
    speeds.iter().map(|mbps| gbps(u64::from(*mbps))).collect::<Vec<_>>().join(", ")
}
