//! Lost packets, and operations that exceeded their retries.

use node::{Device, Port};

use crate::input::port_name;
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "losses",
    title: "packet loss is below 0.01 %",
    why: "RDMA retransmits from the first lost packet on, so that one loss in ten thousand packets \
          already costs much of a link's bandwidth. A few losses over the uptime of a machine are \
          normal: a killed job causes some.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input.ports().filter_map(|(device, port)| check_port(input, device, port)).collect()
}

fn check_port(input: &CheckInput<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let name = port_name(device, port);
    let known = |names: &'static [&'static str]| {
        names.iter().filter_map(|name| {
            let counter = port.counter(name)?;
            Some((*name, *counter.value.value()?))
        })
    };
    let lost: Vec<(&str, u64)> = known(LOST).collect();
    let failed: Vec<(&str, u64)> = known(RETRIES_EXCEEDED).collect();
    if lost.is_empty() && failed.is_empty() {
        return None;
    }
    let total: u64 = lost.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
    let failures: u64 = failed.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
    let packets: u64 = known(PACKETS).fold(0, |sum, (_, count)| sum.saturating_add(count));
    let evidence = lost
        .iter()
        .chain(&failed)
        .filter(|(_, count)| *count > 0)
        .map(|(counter, _)| file(input, device, port, counter));
    let finding = match () {
        () if packets > 0 && total as f64 / packets as f64 > MAX_LOSS && total >= MIN_LOST => {
            Finding::warning(
                name,
                format!("{total} of {packets} packets lost or late, more than 0.01 %"),
            )
            .fix(
                "Check drops and pauses of the switches on the path, `wirelane doctor flow-control \
                 ecn mtu`, and cables.",
            )
            .fix(
                "To see whether it continues: `wirelane snapshot FILE`, then later `wirelane doctor \
                 --since FILE`.",
            )
        }
        () if failures > 0 => Finding::note(
            name,
            format!("{failures} operations exceeded their retries since the driver was loaded"),
        )
        .fix(
            "Peers that disconnect cause such counts. To see whether it continues: `wirelane \
             snapshot FILE`, then later `wirelane doctor --since FILE`.",
        ),
        () => return Some(Finding::ok(name, format!("{total} packets lost or late"))),
    };
    Some(finding.evidence_all(evidence))
}

fn file(input: &CheckInput<'_>, device: &Device, port: &Port, counter: &str) -> Evidence {
    input.port_file(device, port, &format!("hw_counters/{counter}"))
}

/// The loss ratio that a healthy network stays below.
const MAX_LOSS: f64 = 1e-4;
/// Fewer are not reported: one killed job can cause them.
const MIN_LOST: u64 = 100;

/// Packets that did not arrive in time or in order, by each driver's names.
const LOST: &[&str] = &[
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "implied_nak_seq_err",
    "sq_num_to",
    "sq_num_oos",
    "rq_num_oos",
    "to_retransmits",
    "seq_err_naks_rcvd",
    "oos_drop_count",
    "retrans_pkts",
    "RetransSegs",
    "out_of_seq_request",
    "rcvd_seq_err",
    "completer_retry_err",
];

/// Operations that failed after all retries.
const RETRIES_EXCEEDED: &[&str] = &[
    "req_transport_retries_exceeded",
    "req_rnr_retries_exceeded",
    "sq_num_tree",
    "sq_num_rree",
    "max_retry_exceeded",
    "unresponsive_remote_events",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
];

/// All packets, by each driver's names.
const PACKETS: &[&str] = &[
    "port_rcv_packets",
    "port_xmit_packets",
    "rx_pkts",
    "tx_pkts",
    "sent_pkts",
    "rcvd_pkts",
    "ip4InPkts",
    "ip4OutPkts",
    "ip6InPkts",
    "ip6OutPkts",
];
