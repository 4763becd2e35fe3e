//! Links that run slower than they should.

use node::{Device, LaneSpeed, LinkLayer, Port, Seen};

use crate::case::{gbps, is_software, port_name};
use crate::rates::{self, KnownRate};
use crate::{Case, Check, Finding, Verdict};

pub(super) const CHECK: Check = Check {
    name: "rate",
    title: "each active port runs at the rate of its link",
    why: "A bad cable or a forced speed leaves a link up and slow: 10 Gb/s on a 40 Gb/s link \
          looks healthy to everything but a stopwatch. One such link holds back every job that \
          crosses it.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cards = case.active_ports().filter(|(device, _)| !is_software(device));
    cards.map(|(device, port)| of_port(case, device, port)).collect()
}

fn of_port(case: &Case<'_>, device: &Device, port: &Port) -> Finding {
    let name = port_name(device, port);
    let Some(now) = rates::now(case, device, port) else {
        return Finding::unknown(name, "what the link runs at cannot be told")
            .read(case.port_file(device, port, "rate"));
    };
    if let Some(few) = few_lanes(&name, port) {
        return few.read(now.evidence);
    }
    match rates::expected(case, device, port, now.mbps) {
        Some(expected) if expected.told.mbps > now.mbps => {
            slow(name, &now, &expected.told, expected.verdict)
        }
        Some(expected) => {
            Finding::ok(name, format!("{}, as {} says", gbps(now.mbps), expected.told.by))
                .read(now.evidence)
                .read(expected.told.evidence)
        }
        None => Finding::ok(name, format!("{}; nothing tells what to expect", gbps(now.mbps)))
            .read(now.evidence),
    }
}

fn slow(name: String, now: &KnownRate, expected: &KnownRate, verdict: Verdict) -> Finding {
    let summary = match verdict {
        Verdict::Note => {
            format!("runs at {}; {} could do {}", gbps(now.mbps), expected.by, gbps(expected.mbps))
        }
        _ => format!("runs at {} of {}, by {}", gbps(now.mbps), gbps(expected.mbps), expected.by),
    };
    let finding = Finding::new(verdict, name, summary)
        .read(now.evidence.clone())
        .read(expected.evidence.clone());
    if verdict == Verdict::Note {
        return finding.fix(
            "If the link should be faster: `wirelane doctor rate --expect-rate RATE` makes it a \
             problem.",
        );
    }
    finding
        .fix(
            "Clean and reseat the cable at both ends, then try another cable; then another port \
             of the switch.",
        )
        .fix("Look for a forced speed at both ends: `ethtool NETDEV`, the switch's port settings.")
}

/// InfiniBand links have four lanes, or two; one, or the slowest speed of all, is a link that came up badly.
fn few_lanes(name: &str, port: &Port) -> Option<Finding> {
    let addressed = port.lid.value().is_some_and(|lid| *lid != 0);
    let infiniband = port.link_layer == Seen::Value(LinkLayer::InfiniBand) && addressed;
    let rate = port.rate.value().filter(|_| infiniband)?;
    let summary = match (rate.width, rate.speed) {
        (1, _) => format!("the InfiniBand link came up with one lane ({rate})"),
        (_, Some(LaneSpeed::Sdr)) => {
            format!("the InfiniBand link came up at the slowest speed there is ({rate})")
        }
        _ => return None,
    };
    let finding = Finding::warning(name, summary);
    Some(finding.fix(
        "Reseat the cable at both ends, then try another; `ibportstate LID PORT query` shows what \
         each end can do.",
    ))
}
