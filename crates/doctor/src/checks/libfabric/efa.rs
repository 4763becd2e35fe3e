//! EFA devices: what is known of those that work, and those that have no driver.

use node::{Device, Function, Module};

use crate::{Case, Evidence, Finding};

/// EFA devices that no driver has taken.
pub(super) fn without_driver(case: &Case<'_>) -> Vec<Finding> {
    let functions = case.node.pci.values();
    let left = functions.filter(|function| function.is_efa() && function.driver.is_none());
    left.map(|function| untaken(case, function)).collect()
}

fn untaken(case: &Case<'_>, function: &Function) -> Finding {
    let folder = function.address.folder();
    let finding =
        Finding::problem(function.address.to_string(), "an EFA device without its driver")
            .read_all(["vendor", "device"].map(|name| case.file(format!("{folder}/{name}"))))
            .read(Evidence::new(format!("{folder}/driver"), "not there"));
    match module(case) {
        Some(_) => finding.fix(
            "The module efa is loaded and did not take it: `dmesg | grep -i efa` says why; then restart.",
        ),
        None => finding.fix("modprobe efa").fix(
            "Kernels have it from 5.2 on; where there is none, EFA's installer brings it (`efa_installer.sh`).",
        ),
    }
}

/// A device's model, versions and state, for those who compare two hosts.
pub(super) fn facts(case: &Case<'_>, device: &Device) -> Finding {
    let function = device.pci.and_then(|address| case.function(address));
    let model = function.and_then(|function| function.device.value());
    let driver = module(case).and_then(|module| module.version.as_ref());
    let states = device.ports.iter().filter_map(|port| {
        port.state.value().map(|state| format!("port {} {}", port.number, state.name()))
    });
    let parts = [
        model.map(|model| format!("EFA {model:04x}")),
        driver.map(|version| format!("driver {version}")),
        device.firmware.value().map(|version| format!("firmware {version}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().chain(states).collect();
    let done = [done(device, "read"), done(device, "write")].join(", ");
    let finding = Finding::ok(&*device.name, format!("{}; {done}", parts.join(", ")));
    finding.read_all(files(case, device))
}

fn files(case: &Case<'_>, device: &Device) -> Vec<Evidence> {
    let counters = ["state", "hw_counters/rdma_read_wrs", "hw_counters/rdma_write_wrs"];
    let of_ports = device
        .ports
        .iter()
        .flat_map(|port| counters.iter().map(move |name| case.port_file(device, port, name)));
    let of_device = ["/sys/module/efa/version".to_owned(), format!("{}/fw_ver", device.folder())];
    of_device.into_iter().map(|path| case.file(path)).chain(of_ports).collect()
}

/// No file tells whether a device reads and writes remote memory itself, or libfabric does it by messages: older
/// devices count writes, too, and always none. That it has done so its counters tell.
fn done(device: &Device, what: &str) -> String {
    let names = match what {
        "read" => ["rdma_read_wrs", "rdma_read_resp_bytes"],
        _ => ["rdma_write_wrs", "rdma_write_recv_bytes"],
    };
    let ports = device.ports.iter();
    let counts =
        ports.flat_map(|port| names.iter().filter_map(|name| port.counter(name)?.value.value()));
    match counts.max().copied() {
        None => format!("RDMA {what}s not counted"),
        Some(0) => format!("no RDMA {what} seen yet"),
        Some(_) => format!("RDMA {what}s seen"),
    }
}

fn module<'n>(case: &Case<'n>) -> Option<&'n Module> {
    case.node.modules.iter().find(|module| module.name == "efa")
}
