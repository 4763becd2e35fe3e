//! Links that run slower than they should.

use node::{Device, LaneSpeed, LinkLayer, Port, Reading};

use crate::input::{gbps, is_software, port_name};
use crate::rates::{self, KnownRate};
use crate::{Check, CheckInput, Finding, Severity};

pub(super) const CHECK: Check = Check {
    name: "rate",
    title: "active ports run at the full rate of their link",
    why: "A bad cable or a forced speed leaves a link up but slow: 10 Gb/s on a 40 Gb/s link \
          raises no error anywhere. One such link slows down every job that uses it.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let nics = input.active_ports().filter(|(device, _)| !is_software(device));
    nics.map(|(device, port)| check_port(input, device, port)).collect()
}

fn check_port(input: &CheckInput<'_>, device: &Device, port: &Port) -> Finding {
    let name = port_name(device, port);
    let Some(now) = rates::current(input, device, port) else {
        return Finding::unknown(name, "the rate of the link is not known")
            .evidence(input.port_file(device, port, "rate"));
    };
    if let Some(few) = few_lanes(&name, port) {
        return few.evidence(now.evidence);
    }
    match rates::expected(input, device, port, now.mbps) {
        Some(expected) if expected.rate.mbps > now.mbps => {
            slow(name, &now, &expected.rate, expected.severity)
        }
        Some(expected) => {
            let rate = gbps(now.mbps);
            Finding::ok(name, format!("{rate}, as expected (from {})", expected.rate.source))
                .evidence(now.evidence)
                .evidence(expected.rate.evidence)
        }
        None => Finding::ok(name, format!("{}; the expected rate is not known", gbps(now.mbps)))
            .evidence(now.evidence),
    }
}

fn slow(name: String, now: &KnownRate, expected: &KnownRate, severity: Severity) -> Finding {
    let (current, best) = (gbps(now.mbps), gbps(expected.mbps));
    let summary = match severity {
        Severity::Note => {
            format!("runs at {current}, {best} may be possible (from {})", expected.source)
        }
        _ => format!("runs at {current}, expected {best} (from {})", expected.source),
    };
    let finding = Finding::new(severity, name, summary)
        .evidence(now.evidence.clone())
        .evidence(expected.evidence.clone());
    if severity == Severity::Note {
        return finding.fix(
            "If the link should be faster: `wirelane doctor rate --expect-rate RATE` reports it as \
             a problem.",
        );
    }
    finding
        .fix(
            "Clean and reseat the cable at both ends, then try another cable; then another port \
             of the switch.",
        )
        .fix("Check for a forced speed at both ends: `ethtool NETDEV`, the switch's port settings.")
}

/// InfiniBand links have four lanes or two. A link with one lane, or at the slowest speed (SDR), failed to train
/// properly.
fn few_lanes(name: &str, port: &Port) -> Option<Finding> {
    let addressed = port.lid.value().is_some_and(|lid| *lid != 0);
    let infiniband = port.link_layer == Reading::Value(LinkLayer::InfiniBand) && addressed;
    let rate = port.rate.value().filter(|_| infiniband)?;
    let summary = match (rate.width, rate.speed) {
        (1, _) => format!("the InfiniBand link came up with one lane ({rate})"),
        (_, Some(LaneSpeed::Sdr)) => {
            format!("the InfiniBand link came up at the slowest speed, SDR ({rate})")
        }
        _ => return None,
    };
    let finding = Finding::warning(name, summary);
    Some(finding.fix(
        "Reseat the cable at both ends, then try another; `ibportstate LID PORT query` prints what \
         each end supports.",
    ))
}
