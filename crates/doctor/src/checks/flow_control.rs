//! Pause frames: global, or per priority (PFC).

use node::queries::{Dcb, Ethtool};
use node::{Device, Port};

use crate::expected::pfc::{DSCP, PRIORITY, TRAFFIC_CLASS};
use crate::input::port_name;
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "flow-control",
    title: "RoCE ports have flow control: PFC or global pause",
    why: "RoCE was designed for lossless networks. Priority flow control (PFC) on the priority of \
          RoCE, or global pause, keep switches from dropping packets; without either, a burst costs \
          retransmissions unless the network's congestion control is good. Both together conflict.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input.roce_ports().filter_map(|(device, port)| check_port(input, device, port)).collect()
}

fn check_port(input: &CheckInput<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let netdev = port.netdev.as_deref()?;
    let dcb = input.tree.query_results().dcb().and_then(|all| all.get(netdev));
    let ethtool = input.tree.query_results().ethtool().and_then(|all| all.get(netdev));
    let pfc = dcb.and_then(|dcb| dcb.pfc_enabled);
    let pause = ethtool.and_then(|ethtool| ethtool.pause);
    let name = port_name(device, port);
    if pfc.is_none() && pause.is_none() {
        return Some(Finding::unknown(name, "the flow control of the port is not known"));
    }
    let pauses = pause.is_some_and(|pause| pause.rx || pause.tx);
    let finding = match (pfc.unwrap_or(0), pauses) {
        (0, false) => no_flow_control(name, netdev, pfc.is_none()),
        (0, true) => Finding::ok(name, "global pause is on"),
        (_, true) => Finding::warning(name, "PFC and global pause are both on")
            .fix(format!("ethtool -A {netdev} rx off tx off")),
        (mask, false) => by_priority(name, netdev, mask, dcb),
    };
    let finding = storm(finding, ethtool);
    Some(finding.evidence_all(evidence(netdev, dcb, ethtool)))
}

fn no_flow_control(name: String, netdev: &str, pfc_unknown: bool) -> Finding {
    if pfc_unknown {
        return Finding::unknown(name, "global pause is off; whether PFC is on is not known");
    }
    Finding::note(name, "neither PFC nor global pause: the network may drop RoCE packets")
        .fix(format!(
            "Lossless network: enable PFC on RoCE's priority at every hop, e.g. `dcb pfc set dev \
             {netdev} prio-pfc all:off {PRIORITY}:on`."
        ))
        .fix("Lossy network by design (congestion control only): nothing to do.")
}

/// PFC works per priority, and a packet's priority comes from its VLAN tag or its DSCP.
fn by_priority(name: String, netdev: &str, mask: u8, dcb: Option<&Dcb>) -> Finding {
    let priorities: Vec<String> =
        (0..8).filter(|bit| mask >> bit & 1 == 1).map(|bit: u8| bit.to_string()).collect();
    let by_tag = dcb.and_then(|dcb| dcb.trust.as_deref()) == Some("pcp");
    if by_tag && mask & 1 == 0 {
        return Finding::warning(
            name,
            format!(
                "PFC is on for priority {}, but packets without a VLAN tag have priority 0",
                priorities.join(", ")
            ),
        )
        .fix(format!(
            "Map DSCP to priorities: `mlnx_qos -i {netdev} --trust dscp`, or `dcb app add dev \
             {netdev} dscp-prio {DSCP}:{PRIORITY}`."
        ))
        .fix(format!(
            "Then set that DSCP for RoCE: NCCL_IB_TC={TRAFFIC_CLASS}, \
             UCX_IB_TRAFFIC_CLASS={TRAFFIC_CLASS}."
        ));
    }
    Finding::ok(name, format!("PFC is on for priority {}", priorities.join(", ")))
}

/// A port that pauses its peers for seconds has a receiver that does not drain its queues.
fn storm(finding: Finding, ethtool: Option<&Ethtool>) -> Finding {
    let statistics = ethtool.map(|ethtool| &ethtool.statistics);
    let events = statistics.and_then(|all| all.get(STORM)).copied().unwrap_or(0);
    if events == 0 {
        return finding;
    }
    let name = finding.subject();
    Finding::warning(name, format!("a pause storm was stopped here: {STORM} {events}")).fix(
        "This host paused the network for too long: look for a process that hangs with full \
         queues, and for PCIe errors.",
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
        let state = |on| if on { "on" } else { "off" };
        let value = format!("rx {}, tx {}", state(pause.rx), state(pause.tx));
        evidence.push(Evidence::new(format!("ethtool {netdev}: pause"), value));
    }
    evidence
}

const STORM: &str = "tx_pause_storm_error_events";
