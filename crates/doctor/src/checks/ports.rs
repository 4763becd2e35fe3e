//! Ports that are not active.

use node::{Device, LinkLayer, PhysState, Port, PortState, Reading};

use crate::input::{gbps, is_software, is_virtual, port_name};
use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "ports",
    title: "each port is active, or another port of its NIC is",
    why: "Only an ACTIVE port transfers data. Programs that always use port 1 fail if the cable is \
          on port 2, and an InfiniBand port stays in INIT until a subnet manager assigns its LID.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input.devices().into_iter().flat_map(|device| check_device(input, device)).collect()
}

fn check_device(input: &CheckInput<'_>, device: &Device) -> Vec<Finding> {
    if device.ports.is_empty() && !has_known_ports(input, device) {
        let folder = input.file(format!("{}/ports", device.folder()));
        return vec![Finding::unknown(&*device.name, "its ports cannot be read").evidence(folder)];
    }
    if device.ports.is_empty() {
        let finding = Finding::problem(
            &*device.name,
            "the device has no port: its driver failed to start it",
        );
        let finding = finding.fix("Look for errors: `wirelane doctor kernel-log`, `dmesg`.");
        return vec![finding];
    }
    device.ports.iter().map(|port| check_port(input, device, port)).collect()
}

/// Whether the list of ports could be read. A tree may lack it; on the running machine only a driver that failed does.
fn has_known_ports(input: &CheckInput<'_>, device: &Device) -> bool {
    match input.tree.names(&format!("{}/ports", device.folder())) {
        Reading::Value(_) => true,
        Reading::Absent => input.tree.is_live(),
        _ => false,
    }
}

fn check_port(input: &CheckInput<'_>, device: &Device, port: &Port) -> Finding {
    let name = port_name(device, port);
    let finding = match &port.state {
        Reading::Value(PortState::Active | PortState::ActiveDefer) => {
            return active(input, device, port);
        }
        Reading::Value(PortState::Init) => {
            waiting(&name, "INIT: the link is up, but no subnet manager has answered")
        }
        Reading::Value(PortState::Armed) => {
            waiting(&name, "ARMED: the subnet manager has not activated this port")
        }
        Reading::Value(_) => down(input, device, port),
        other => {
            let why = other.why_not().unwrap_or_default();
            Finding::unknown(name, format!("the state of the port: {why}"))
        }
    };
    let finding = finding.evidence(input.port_file(device, port, "state"));
    let finding = finding.evidence(input.port_file(device, port, "phys_state"));
    if port.link_layer == Reading::Value(LinkLayer::InfiniBand) {
        return finding.evidence(input.port_file(device, port, "sm_lid"));
    }
    finding
}

fn active(input: &CheckInput<'_>, device: &Device, port: &Port) -> Finding {
    let rate = port.rate.value().map(|rate| gbps(rate.mbps)).unwrap_or_default();
    let layer = port.link_layer.value().map_or("", |layer| layer.name());
    let finding = Finding::ok(port_name(device, port), format!("ACTIVE {layer} {rate}"));
    finding.evidence(input.port_file(device, port, "state"))
}

fn waiting(name: &str, summary: &str) -> Finding {
    Finding::problem(name, summary)
        .fix(
            "Start a subnet manager on the fabric: on the switch, or `systemctl start opensm` on \
             one host.",
        )
        .fix("If one is running: check its log for this port's GUID, and the port's partition.")
}

fn down(input: &CheckInput<'_>, device: &Device, port: &Port) -> Finding {
    let name = port_name(device, port);
    if let Some(active) = active_sibling(input, device, port) {
        let summary = format!("no link; the NIC's cable is on {active}");
        return Finding::note(name, summary).fix(format!("Use {active}."));
    }
    let cause = cause(port);
    let summary = format!("the port is down: {cause}");
    let finding = if input.may_be_idle(device) {
        Finding::note(name, summary)
    } else if is_spare(input, device) {
        Finding::warning(name, format!("{summary}; other NICs are active"))
    } else {
        Finding::problem(name, summary)
    };
    fixes(finding, device, port)
}

/// Whether the NIC may be unused on purpose: no NIC of its model is active, but NICs of other models are.
fn is_spare(input: &CheckInput<'_>, device: &Device) -> bool {
    let active = |device: &Device| device.ports.iter().any(Port::is_active);
    let same_model = input.same_model(device).into_iter().any(active);
    !same_model && input.devices().into_iter().any(active)
}

fn active_sibling(input: &CheckInput<'_>, device: &Device, port: &Port) -> Option<String> {
    let own = device
        .ports
        .iter()
        .filter(|other| other.number != port.number)
        .map(|other| (device, other));
    let nic = input.same_nic(device).into_iter().filter(|_| !is_virtual(device));
    let nic = nic.flat_map(|device| device.ports.iter().map(move |port| (device, port)));
    let mut siblings = own.chain(nic.filter(|(device, _)| !is_virtual(device)));
    siblings.find(|(_, port)| port.is_active()).map(|(device, port)| port_name(device, port))
}

fn cause(port: &Port) -> &'static str {
    match port.phys_state {
        Reading::Value(PhysState::Polling) => "polling, no link partner found",
        Reading::Value(PhysState::Disabled) => "disabled, or no cable is plugged in",
        Reading::Value(PhysState::PortConfigurationTraining | PhysState::LinkErrorRecovery) => {
            "link training with the partner"
        }
        Reading::Value(PhysState::LinkUp) => "the physical link is up, but not in use",
        _ => "no link",
    }
}

fn fixes(finding: Finding, device: &Device, port: &Port) -> Finding {
    let finding = match &port.netdev {
        Some(netdev) => finding.fix(format!("ip link set {netdev} up")),
        None => finding,
    };
    if is_software(device) {
        return finding;
    }
    if is_virtual(device) {
        return finding.fix(
            "On the host: `ip link set PF vf NUMBER state enable`, and check the link of the \
             physical function.",
        );
    }
    finding
        .fix("Check the cable, the transceiver, and that the switch port is enabled.")
        .fix("Unused on purpose: nothing to do.")
}
