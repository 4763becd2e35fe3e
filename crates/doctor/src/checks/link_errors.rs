//! Links that go down, and bit errors.

use node::{Counter, Device, Port};

use crate::case::{counted, port_name};
use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "link-errors",
    title: "links stay up and carry bits unharmed",
    why: "A cable that is going bad shows here first: bits that come wrong, links that recover or \
          go down. Each time, what is in flight is lost and sent again.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.ports().flat_map(|(device, port)| of_port(case, device, port)).collect()
}

fn of_port(case: &Case<'_>, device: &Device, port: &Port) -> Vec<Finding> {
    let count = |name: &str| Some((port.counter(name)?, *port.counter(name)?.value.value()?));
    let mut findings = Vec::new();
    if let Some((counter, times)) = count("link_downed") {
        findings.push(downed(case, device, port, counter, times));
    }
    let wrong: Vec<(&Counter, u64)> =
        WRONG.iter().filter_map(|name| count(name)).filter(|(_, count)| *count > 0).collect();
    if !wrong.is_empty() {
        findings.push(bits(case, device, port, &wrong));
    }
    findings
}

fn downed(case: &Case<'_>, device: &Device, port: &Port, counter: &Counter, times: u64) -> Finding {
    let name = port_name(device, port);
    let often = match case.hours_up() {
        Some(hours) => times >= A_FEW && times as f64 > hours / 24.0,
        None => times >= MANY,
    };
    let summary = format!("the link went down {}", counted(times, "time", "times"));
    let finding = match times {
        0 => return Finding::ok(name, "the link never went down"),
        _ if often => Finding::warning(name, summary)
            .fix("Reseat or replace the cable; look at the switch's log for the same port.")
            .fix(
                "Whether it goes on: `wirelane snapshot FILE`, then later `wirelane doctor \
                 --since FILE`.",
            ),
        _ => Finding::note(name, summary),
    };
    finding.read(file(case, device, port, counter)).read_all(uptime(case))
}

fn bits(case: &Case<'_>, device: &Device, port: &Port, wrong: &[(&Counter, u64)]) -> Finding {
    let name = port_name(device, port);
    let total = wrong.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let often = match case.hours_up() {
        Some(hours) => total >= MANY && total as f64 > hours * AN_HOUR,
        None => total >= 10 * MANY,
    };
    let summary = format!("{} on the link", counted(total, "error", "errors"));
    let finding =
        if often {
            Finding::warning(name, summary)
            .fix("Clean and reseat the cable at both ends, then replace it; then the transceiver.")
            .fix("Whether it goes on: `wirelane snapshot FILE`, then later `wirelane doctor \
                  --since FILE`.")
        } else {
            Finding::note(name, summary)
        };
    let files = wrong.iter().map(|(counter, _)| file(case, device, port, counter));
    finding.read_all(files).read_all(uptime(case))
}

fn file(case: &Case<'_>, device: &Device, port: &Port, counter: &Counter) -> Evidence {
    case.port_file(device, port, &format!("{}/{}", counter.folder.name(), counter.name))
}

fn uptime(case: &Case<'_>) -> Option<Evidence> {
    case.hours_up().map(|hours| Evidence::new("/proc/uptime", format!("{hours:.0} hours")))
}

/// Maintenance of a switch takes a link down now and then.
const A_FEW: u64 = 3;
/// Without the machine's age: more than maintenance explains.
const MANY: u64 = 10;
/// What InfiniBand's own tools let pass in an hour.
const AN_HOUR: f64 = 10.0;

/// Bits that came wrong, and what the link did about it.
const WRONG: &[&str] = &[
    "symbol_error",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "link_error_recovery",
    "excessive_buffer_overrun_errors",
    "rx_icrc_encapsulated",
];
