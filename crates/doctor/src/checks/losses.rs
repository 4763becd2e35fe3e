//! Packets that were lost, and connections that gave up.

use node::{Device, Port};

use crate::case::port_name;
use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "losses",
    title: "next to no packet is lost or sent again",
    why: "RDMA sends again from the first packet that was lost, so that one loss in ten thousand \
          already costs much of a link. A few over the life of a machine are usual: a job that \
          was killed leaves some behind.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.ports().filter_map(|(device, port)| of_port(case, device, port)).collect()
}

fn of_port(case: &Case<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let name = port_name(device, port);
    let known = |names: &'static [&'static str]| {
        names.iter().filter_map(|name| {
            let counter = port.counter(name)?;
            Some((*name, *counter.value.value()?))
        })
    };
    let lost: Vec<(&str, u64)> = known(LOST).collect();
    let given_up: Vec<(&str, u64)> = known(GIVEN_UP).collect();
    if lost.is_empty() && given_up.is_empty() {
        return None;
    }
    let total: u64 = lost.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
    let ended: u64 = given_up.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
    let packets: u64 = known(PACKETS).fold(0, |sum, (_, count)| sum.saturating_add(count));
    let evidence = lost
        .iter()
        .chain(&given_up)
        .filter(|(_, count)| *count > 0)
        .map(|(counter, _)| file(case, device, port, counter));
    let finding = match () {
        () if packets > 0 && total as f64 / packets as f64 > TOO_MANY && total >= FEW => Finding::warning(
            name,
            format!("{total} packets lost or late of {packets}, more than 0.01 %"),
        )
        .fix("Look at the switches' drops and pauses on the way, at `wirelane doctor flow-control \
              ecn mtu`, and at cables.")
        .fix("Whether it goes on: `wirelane snapshot FILE`, then later `wirelane doctor --since \
              FILE`."),
        () if ended > 0 => Finding::note(name, format!("{ended} operations were given up after \
             all retries since the counters began"))
            .fix("Peers that went away leave such counts. Whether it goes on: `wirelane snapshot \
                  FILE`, then later `wirelane doctor --since FILE`."),
        () => return Some(Finding::ok(name, format!("{total} packets lost or late"))),
    };
    Some(finding.read_all(evidence))
}

fn file(case: &Case<'_>, device: &Device, port: &Port, counter: &str) -> Evidence {
    case.port_file(device, port, &format!("hw_counters/{counter}"))
}

/// The share that a healthy network stays below.
const TOO_MANY: f64 = 1e-4;
/// As many come of one killed job.
const FEW: u64 = 100;

/// A packet that did not come in time or in order, by each driver's names.
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

/// An operation that ended with an error after all retries.
const GIVEN_UP: &[&str] = &[
    "req_transport_retries_exceeded",
    "req_rnr_retries_exceeded",
    "sq_num_tree",
    "sq_num_rree",
    "max_retry_exceeded",
    "unresponsive_remote_events",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
];

/// Packets in all, by each driver's names.
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
