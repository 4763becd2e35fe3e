//! NICs of one model with different firmware.

use std::collections::BTreeMap;

use node::Device;

use crate::input::is_virtual;
use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "versions",
    title: "NICs of one model have the same firmware",
    why: "Faults that depend on the NIC are hard to find if NICs have different firmware.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let mut models: BTreeMap<String, Vec<&Device>> = BTreeMap::new();
    for device in input.devices().into_iter().filter(|device| !is_virtual(device)) {
        if let (Some(model), Some(_)) = (input.model(device), device.firmware.value()) {
            models.entry(model).or_default().push(device);
        }
    }
    models
        .into_iter()
        .filter(|(_, nics)| nics.len() > 1)
        .map(|(model, nics)| check_model(input, &model, &nics))
        .collect()
}

fn check_model(input: &CheckInput<'_>, model: &str, nics: &[&Device]) -> Finding {
    let mut versions: Vec<&str> =
        nics.iter().filter_map(|nic| nic.firmware.value()).map(String::as_str).collect();
    versions.sort_unstable();
    versions.dedup();
    let name = nics[0].hca_type.value().map_or(model.trim(), String::as_str);
    match versions.as_slice() {
        [one] => Finding::ok("host", format!("all {} NICs {name} have firmware {one}", nics.len())),
        several => Finding::note(
            "host",
            format!("NICs {name} have different firmware: {}", several.join(", ")),
        )
        .evidence_all(nics.iter().map(|nic| input.file(format!("{}/fw_ver", nic.folder()))))
        .fix("Update all to the newest: `mlxfwmanager -u`, or the vendor's tool; then reboot."),
    }
}
