//! Issues of a row of the screen, and the doctor's checks for each.

use super::summary::{GpuSummary, PortSummary};

/// An issue of a port or GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Issue {
    /// The port is not active.
    State,
    /// The rate is lower than expected.
    Rate,
    /// Error counters are increasing.
    Errors,
    /// Congestion notifications are ignored.
    Ignored,
    /// There are signs of congestion.
    Congestion,
    /// Packets are retransmitted.
    Retries,
    /// A counter is saturated.
    Saturated,
    /// A counter cannot be read.
    Unreadable,
    /// The GPU driver reported errors.
    Xid,
    /// The GPU is at its slowdown temperature.
    Hot,
    /// The GPU's clocks are throttled.
    Throttled,
}

impl Issue {
    /// Whether it is a fault, and not only notable.
    pub(super) fn is_bad(self) -> bool {
        use Issue::{Congestion, Retries, Saturated, Throttled, Unreadable};
        !matches!(self, Congestion | Retries | Saturated | Throttled | Unreadable)
    }

    /// The doctor's checks for it.
    pub(super) fn checks(self) -> &'static [&'static str] {
        match self {
            Issue::State => &["ports"],
            Issue::Rate => &["rate", "pcie"],
            Issue::Errors => &["link-errors", "kernel-log"],
            Issue::Ignored | Issue::Congestion => &["congestion", "ecn", "flow-control"],
            Issue::Retries => &["losses", "flow-control", "mtu"],
            Issue::Saturated => &["saturated"],
            Issue::Unreadable => &["unreadable-counters"],
            Issue::Xid | Issue::Hot | Issue::Throttled => &["kernel-log", "aer"],
        }
    }

    /// A short description.
    pub(super) fn description(self) -> &'static str {
        match self {
            Issue::State => "the port is not active",
            Issue::Rate => "the port's rate is lower than expected",
            Issue::Errors => "errors are increasing",
            Issue::Ignored => "congestion notifications (CNPs) are ignored",
            Issue::Congestion => "there are signs of congestion",
            Issue::Retries => "packets are lost or late, and retransmitted",
            Issue::Saturated => "a counter is saturated",
            Issue::Unreadable => "a counter cannot be read",
            Issue::Xid => "the GPU driver reported errors",
            Issue::Hot => "the GPU is at its slowdown temperature",
            Issue::Throttled => "the GPU's clocks are throttled",
        }
    }
}

/// Issues of a port, the worst first.
pub(super) fn of_port(port: &PortSummary) -> Vec<Issue> {
    let some = |rate: Option<f64>| rate.is_some_and(|rate| rate > 0.0);
    let rates = &port.rates;
    let all = [
        (Issue::State, !port.is_active()),
        (Issue::Rate, port.is_slow()),
        (Issue::Errors, some(rates.errors_per_second)),
        (Issue::Ignored, some(rates.ignored_per_second)),
        (Issue::Retries, some(rates.retries_per_second)),
        (Issue::Congestion, some(rates.congestion_per_second)),
        (Issue::Saturated, !rates.saturated.is_empty()),
        (Issue::Unreadable, !port.unreadable.is_empty()),
    ];
    all.into_iter().filter(|(_, is_present)| *is_present).map(|(issue, _)| issue).collect()
}

/// Issues of a GPU.
pub(super) fn of_gpu(gpu: &GpuSummary) -> Vec<Issue> {
    let reading = &gpu.gpu.reading;
    let heat = reading.temperature_c.zip(reading.slowdown_temperature_c);
    let all = [
        (Issue::Xid, !reading.xids.is_empty()),
        (Issue::Hot, heat.is_some_and(|(now, limit)| now >= limit)),
        (Issue::Throttled, !gpu.throttled().is_empty()),
    ];
    all.into_iter().filter(|(_, is_present)| *is_present).map(|(issue, _)| issue).collect()
}

/// Checks for a port without issues.
pub(super) const PORT_CHECKS: &[&str] = &[
    "ports",
    "rate",
    "pcie",
    "link-errors",
    "losses",
    "congestion",
    "saturated",
    "unreadable-counters",
];

/// Checks for a GPU without issues.
pub(super) const GPU_CHECKS: &[&str] = &["kernel-log", "gpudirect", "aer"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_exists_in_the_doctor() {
        use Issue::*;
        let all = [State, Rate, Errors, Ignored, Congestion, Retries, Saturated, Unreadable];
        let all = all.into_iter().chain([Xid, Hot, Throttled]).flat_map(Issue::checks);
        for name in all.chain(PORT_CHECKS).chain(GPU_CHECKS) {
            assert!(doctor::check(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_slow_port_is_bad_and_a_retry_is_notable() {
        let mut port = PortSummary { state: Some("active"), ..PortSummary::default() };
        assert!(of_port(&port).is_empty());
        (port.rate_mbps, port.expected_mbps) = (Some(10_000), Some(40_000));
        port.rates.retries_per_second = Some(3.0);
        assert_eq!(of_port(&port), [Issue::Rate, Issue::Retries]);
        assert!(Issue::Rate.is_bad() && !Issue::Retries.is_bad());
        port.state = Some("down");
        assert!(!of_port(&port).contains(&Issue::Rate), "a port that is down has no rate");
    }
}
