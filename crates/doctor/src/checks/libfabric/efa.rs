//! EFA devices: the facts of those with a driver, and those without.

use node::{Device, Function, Module};

use crate::{CheckInput, Evidence, Finding};

/// EFA devices that are bound to no driver.
pub(super) fn without_driver(input: &CheckInput<'_>) -> Vec<Finding> {
    let functions = input.node.pci.values();
    let unbound = functions.filter(|function| function.is_efa() && function.driver.is_none());
    unbound.map(|function| unbound_function(input, function)).collect()
}

fn unbound_function(input: &CheckInput<'_>, function: &Function) -> Finding {
    let folder = function.address.folder();
    let finding = Finding::problem(function.address.to_string(), "EFA device without a driver")
        .evidence_all(["vendor", "device"].map(|name| input.file(format!("{folder}/{name}"))))
        .evidence(Evidence::new(format!("{folder}/driver"), "not found"));
    match module(input) {
        Some(_) => finding.fix(
            "The module efa is loaded but not bound to it: see `dmesg | grep -i efa` for the reason; then reboot.",
        ),
        None => finding.fix("modprobe efa").fix(
            "Linux 5.2 and later include it; otherwise EFA's installer has it (`efa_installer.sh`).",
        ),
    }
}

/// A device's model, versions and state, to compare hosts.
pub(super) fn facts(input: &CheckInput<'_>, device: &Device) -> Finding {
    let function = device.pci.and_then(|address| input.function(address));
    let model = function.and_then(|function| function.device.value());
    let driver = module(input).and_then(|module| module.version.as_ref());
    let states = device.ports.iter().filter_map(|port| {
        port.state.value().map(|state| format!("port {} {}", port.number, state.name()))
    });
    let parts = [
        model.map(|model| format!("EFA {model:04x}")),
        driver.map(|version| format!("driver {version}")),
        device.firmware.value().map(|version| format!("firmware {version}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().chain(states).collect();
    let usage = [usage(device, "read"), usage(device, "write")].join(", ");
    let finding = Finding::ok(&*device.name, format!("{}; {usage}", parts.join(", ")));
    finding.evidence_all(files(input, device))
}

fn files(input: &CheckInput<'_>, device: &Device) -> Vec<Evidence> {
    let counters = ["state", "hw_counters/rdma_read_wrs", "hw_counters/rdma_write_wrs"];
    let of_ports = device
        .ports
        .iter()
        .flat_map(|port| counters.iter().map(move |name| input.port_file(device, port, name)));
    let check_device =
        ["/sys/module/efa/version".to_owned(), format!("{}/fw_ver", device.folder())];
    check_device.into_iter().map(|path| input.file(path)).chain(of_ports).collect()
}

/// No file shows whether a device does RDMA reads and writes itself, or libfabric emulates them with messages: older
/// devices have the counters too, always 0. Counters above 0 show that it did.
fn usage(device: &Device, operation: &str) -> String {
    let names = match operation {
        "read" => ["rdma_read_wrs", "rdma_read_resp_bytes"],
        _ => ["rdma_write_wrs", "rdma_write_recv_bytes"],
    };
    let ports = device.ports.iter();
    let counts =
        ports.flat_map(|port| names.iter().filter_map(|name| port.counter(name)?.value.value()));
    match counts.max().copied() {
        None => format!("RDMA {operation}s not counted"),
        Some(0) => format!("no RDMA {operation} counted yet"),
        Some(_) => format!("RDMA {operation}s counted"),
    }
}

fn module<'n>(input: &CheckInput<'n>) -> Option<&'n Module> {
    input.node.modules.iter().find(|module| module.name == "efa")
}
