//! Links that went down, and bit errors.

use node::{Counter, Device, Port};

use crate::input::{counted, port_name};
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "link-errors",
    title: "links stay up, without bit errors",
    why: "A failing cable shows here first: bit errors, links that recover or go down. Each time, \
          packets in flight are lost and retransmitted.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input.ports().flat_map(|(device, port)| check_port(input, device, port)).collect()
}

fn check_port(input: &CheckInput<'_>, device: &Device, port: &Port) -> Vec<Finding> {
    let count = |name: &str| Some((port.counter(name)?, *port.counter(name)?.value.value()?));
    let mut findings = Vec::new();
    if let Some((counter, times)) = count("link_downed") {
        findings.push(downed(input, device, port, counter, times));
    }
    let errors: Vec<(&Counter, u64)> =
        ERRORS.iter().filter_map(|name| count(name)).filter(|(_, count)| *count > 0).collect();
    if !errors.is_empty() {
        findings.push(bit_errors(input, device, port, &errors));
    }
    findings
}

fn downed(
    input: &CheckInput<'_>,
    device: &Device,
    port: &Port,
    counter: &Counter,
    times: u64,
) -> Finding {
    let name = port_name(device, port);
    let often = match input.hours_up() {
        Some(hours) => times >= MIN_DOWN && times as f64 > hours / 24.0,
        None => times >= MIN_MANY,
    };
    let summary = format!("the link went down {}", counted(times, "time", "times"));
    let finding = match times {
        0 => return Finding::ok(name, "the link never went down"),
        _ if often => Finding::warning(name, summary)
            .fix("Reseat or replace the cable; check the switch's log for the same port.")
            .fix(
                "To see whether it continues: `wirelane snapshot FILE`, then later `wirelane doctor \
                 --since FILE`.",
            ),
        _ => Finding::note(name, summary),
    };
    finding.evidence(file(input, device, port, counter)).evidence_all(uptime(input))
}

fn bit_errors(
    input: &CheckInput<'_>,
    device: &Device,
    port: &Port,
    errors: &[(&Counter, u64)],
) -> Finding {
    let name = port_name(device, port);
    let total = errors.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let often = match input.hours_up() {
        Some(hours) => total >= MIN_MANY && total as f64 > hours * MAX_PER_HOUR,
        None => total >= 10 * MIN_MANY,
    };
    let summary = format!("{} on the link", counted(total, "error", "errors"));
    let finding = if often {
        Finding::warning(name, summary)
            .fix("Clean and reseat the cable at both ends, then replace it; then the transceiver.")
            .fix(
                "To see whether it continues: `wirelane snapshot FILE`, then later `wirelane doctor \
                 --since FILE`.",
            )
    } else {
        Finding::note(name, summary)
    };
    let files = errors.iter().map(|(counter, _)| file(input, device, port, counter));
    finding.evidence_all(files).evidence_all(uptime(input))
}

fn file(input: &CheckInput<'_>, device: &Device, port: &Port, counter: &Counter) -> Evidence {
    input.port_file(device, port, &format!("{}/{}", counter.source.name(), counter.name))
}

fn uptime(input: &CheckInput<'_>) -> Option<Evidence> {
    input.hours_up().map(|hours| Evidence::new("/proc/uptime", format!("{hours:.0} hours")))
}

/// Maintenance of a switch takes a link down occasionally: fewer times than this are not reported as often.
const MIN_DOWN: u64 = 3;
/// If the uptime is not known: more than maintenance explains.
const MIN_MANY: u64 = 10;
/// InfiniBand's own tools tolerate this many errors in an hour.
const MAX_PER_HOUR: f64 = 10.0;

/// Bit errors, and recoveries of the link.
const ERRORS: &[&str] = &[
    "symbol_error",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "link_error_recovery",
    "excessive_buffer_overrun_errors",
    "rx_icrc_encapsulated",
];
