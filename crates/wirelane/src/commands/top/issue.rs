//! What is wrong with a row of the screen, and which of the doctor's checks have words on it.

use super::summary::{GpuMoment, PortMoment};

/// Something that ought to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A port carries no traffic.
    State,
    /// It runs slower than it should.
    Rate,
    /// Errors come.
    Errors,
    /// Others ask to slow down, and are not heard.
    Ignored,
    /// The network is full at times.
    Congestion,
    /// Packets are sent again.
    Retries,
    /// A counter can count no further.
    Saturated,
    /// A counter cannot be read.
    Unreadable,
    /// A GPU's driver reported errors.
    Xid,
    /// A GPU is as hot as it may be.
    Hot,
    /// A GPU is slower than it could be.
    Throttled,
}

impl Trouble {
    /// Whether it is a fault, or only worth knowing.
    pub(super) fn is_bad(self) -> bool {
        use Trouble::{Congestion, Retries, Saturated, Throttled, Unreadable};
        !matches!(self, Congestion | Retries | Saturated | Throttled | Unreadable)
    }

    /// The checks that look into it.
    pub(super) fn checks(self) -> &'static [&'static str] {
        match self {
            Trouble::State => &["ports"],
            Trouble::Rate => &["rate", "pcie"],
            Trouble::Errors => &["link-errors", "kernel-log"],
            Trouble::Ignored | Trouble::Congestion => &["congestion", "ecn", "flow-control"],
            Trouble::Retries => &["losses", "flow-control", "mtu"],
            Trouble::Saturated => &["saturated"],
            Trouble::Unreadable => &["restricted"],
            Trouble::Xid | Trouble::Hot | Trouble::Throttled => &["kernel-log", "aer"],
        }
    }

    /// In a few words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Trouble::State => "the port is not active",
            Trouble::Rate => "the port runs slower than it should",
            Trouble::Errors => "errors are increasing",
            Trouble::Ignored => "notices of congestion are ignored",
            Trouble::Congestion => "there are signs of congestion",
            Trouble::Retries => "packets are lost or late, and sent again",
            Trouble::Saturated => "a counter is saturated",
            Trouble::Unreadable => "a counter cannot be read",
            Trouble::Xid => "the GPU's driver reported errors",
            Trouble::Hot => "the GPU is as hot as it may be",
            Trouble::Throttled => "the GPU's clocks are throttled",
        }
    }
}

/// What is wrong with a port, the worst first.
pub(super) fn of_port(port: &PortMoment) -> Vec<Trouble> {
    let some = |rate: Option<f64>| rate.is_some_and(|rate| rate > 0.0);
    let rates = &port.rates;
    let all = [
        (Trouble::State, !port.is_active()),
        (Trouble::Rate, port.is_slow()),
        (Trouble::Errors, some(rates.errors_per_second)),
        (Trouble::Ignored, some(rates.ignored_per_second)),
        (Trouble::Retries, some(rates.retries_per_second)),
        (Trouble::Congestion, some(rates.congestion_per_second)),
        (Trouble::Saturated, !rates.saturated.is_empty()),
        (Trouble::Unreadable, !port.unreadable.is_empty()),
    ];
    all.into_iter().filter(|(_, holds)| *holds).map(|(trouble, _)| trouble).collect()
}

/// The same of a GPU.
pub(super) fn of_gpu(gpu: &GpuMoment) -> Vec<Trouble> {
    let reading = &gpu.gpu.reading;
    let heat = reading.temperature_c.zip(reading.slowdown_temperature_c);
    let all = [
        (Trouble::Xid, !reading.xids.is_empty()),
        (Trouble::Hot, heat.is_some_and(|(now, most)| now >= most)),
        (Trouble::Throttled, !gpu.throttled().is_empty()),
    ];
    all.into_iter().filter(|(_, holds)| *holds).map(|(trouble, _)| trouble).collect()
}

/// What is looked at of a port with which nothing is wrong.
pub(super) const CHECKS_OF_PORTS: &[&str] =
    &["ports", "rate", "pcie", "link-errors", "losses", "congestion", "saturated", "restricted"];

/// The same of a GPU.
pub(super) const CHECKS_OF_GPUS: &[&str] = &["kernel-log", "gpudirect", "aer"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_one_of_the_doctors() {
        use Trouble::*;
        let all = [State, Rate, Errors, Ignored, Congestion, Retries, Saturated, Unreadable];
        let all = all.into_iter().chain([Xid, Hot, Throttled]).flat_map(Trouble::checks);
        for name in all.chain(CHECKS_OF_PORTS).chain(CHECKS_OF_GPUS) {
            assert!(doctor::check(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_slow_port_is_bad_and_a_retry_is_worth_knowing() {
        let mut port = PortMoment { state: Some("active"), ..PortMoment::default() };
        assert!(of_port(&port).is_empty());
        (port.rate_mbps, port.expected_mbps) = (Some(10_000), Some(40_000));
        port.rates.retries_per_second = Some(3.0);
        assert_eq!(of_port(&port), [Trouble::Rate, Trouble::Retries]);
        assert!(Trouble::Rate.is_bad() && !Trouble::Retries.is_bad());
        port.state = Some("down");
        assert!(!of_port(&port).contains(&Trouble::Rate), "a port that is down has no rate");
    }
}
