//! Pause frames, for the whole port or per priority.

use node::answers::{Dcb, Ethtool};
use node::{Device, Port};

use crate::case::port_name;
use crate::limits::pfc::{DSCP, PRIORITY, TRAFFIC_CLASS};
use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "flow-control",
    title: "RoCE ports are paused rather than overrun",
    why: "RoCE was made for networks that lose nothing. Priority flow control (PFC) on the \
          priority of RoCE, or pause frames for the whole port, keep switches from dropping; \
          without either, a burst costs retransmissions unless the network's congestion control \
          is good. Both at once work against each other.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.roce_ports().filter_map(|(device, port)| of_port(case, device, port)).collect()
}

fn of_port(case: &Case<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let netdev = port.netdev.as_deref()?;
    let dcb = case.tree.answers().dcb().and_then(|all| all.get(netdev));
    let ethtool = case.tree.answers().ethtool().and_then(|all| all.get(netdev));
    let pfc = dcb.and_then(|dcb| dcb.pfc_enabled);
    let pause = ethtool.and_then(|ethtool| ethtool.pause);
    let name = port_name(device, port);
    if pfc.is_none() && pause.is_none() {
        return Some(Finding::unknown(name, "whether the port pauses is not known"));
    }
    let pauses = pause.is_some_and(|pause| pause.rx || pause.tx);
    let finding = match (pfc.unwrap_or(0), pauses) {
        (0, false) => none(name, netdev, pfc.is_none()),
        (0, true) => Finding::ok(name, "pause frames are on for the whole port"),
        (_, true) => Finding::warning(name, "PFC and pause frames for the whole port are both on")
            .fix(format!("ethtool -A {netdev} rx off tx off")),
        (mask, false) => by_priority(name, netdev, mask, dcb),
    };
    let finding = storm(finding, ethtool);
    Some(finding.read_all(evidence(netdev, dcb, ethtool)))
}

fn none(name: String, netdev: &str, pfc_unknown: bool) -> Finding {
    if pfc_unknown {
        return Finding::unknown(name, "pause frames are off, and whether PFC is on is not known");
    }
    Finding::note(name, "neither PFC nor pause frames: the network may drop RoCE packets")
        .fix(format!(
            "A lossless network: PFC on RoCE's priority at every hop, e.g. `dcb pfc set dev \
             {netdev} prio-pfc all:off {PRIORITY}:on`."
        ))
        .fix("A lossy one by design (congestion control alone): nothing to do.")
}

/// PFC acts by priority, and a packet's priority comes from its VLAN tag or its DSCP.
fn by_priority(name: String, netdev: &str, mask: u8, dcb: Option<&Dcb>) -> Finding {
    let priorities: Vec<String> =
        (0..8).filter(|bit| mask >> bit & 1 == 1).map(|bit: u8| bit.to_string()).collect();
    let by_tag = dcb.and_then(|dcb| dcb.trust.as_deref()) == Some("pcp");
    if by_tag && mask & 1 == 0 {
        return Finding::warning(
            name,
            format!(
                "PFC is on for priority {}, and packets without a VLAN tag have priority 0",
                priorities.join(", ")
            ),
        )
        .fix(format!(
            "Tell priorities by DSCP: `mlnx_qos -i {netdev} --trust dscp`, or `dcb app add dev \
             {netdev} dscp-prio {DSCP}:{PRIORITY}`."
        ))
        .fix(format!(
            "Then give RoCE that DSCP: NCCL_IB_TC={TRAFFIC_CLASS}, \
             UCX_IB_TRAFFIC_CLASS={TRAFFIC_CLASS}."
        ));
    }
    Finding::ok(name, format!("PFC is on for priority {}", priorities.join(", ")))
}

/// A port that has to stop others for seconds is stuck behind a receiver that does not drain.
fn storm(finding: Finding, ethtool: Option<&Ethtool>) -> Finding {
    let statistics = ethtool.map(|ethtool| &ethtool.statistics);
    let events = statistics.and_then(|all| all.get(STORM)).copied().unwrap_or(0);
    if events == 0 {
        return finding;
    }
    let name = finding.subject();
    Finding::warning(name, format!("a pause storm was cut off here: {STORM} {events}")).fix(
        "This host stopped the network for too long: look for a process that hangs with its \
         queues full, and at PCIe errors.",
    )
}

fn evidence(netdev: &str, dcb: Option<&Dcb>, ethtool: Option<&Ethtool>) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    if let Some(mask) = dcb.and_then(|dcb| dcb.pfc_enabled) {
        evidence
            .push(Evidence::new(format!("dcb {netdev}: PFC"), format!("priorities {mask:#010b}")));
    }
    if let Some(trust) = dcb.and_then(|dcb| dcb.trust.as_deref()) {
        evidence.push(Evidence::new(format!("dcb {netdev}: trust"), trust));
    }
    if let Some(pause) = ethtool.and_then(|ethtool| ethtool.pause) {
        let word = |on| if on { "on" } else { "off" };
        let value = format!("rx {}, tx {}", word(pause.rx), word(pause.tx));
        evidence.push(Evidence::new(format!("ethtool {netdev}: pause"), value));
    }
    evidence
}

const STORM: &str = "tx_pause_storm_error_events";
