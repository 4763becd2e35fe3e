//! PCIe error counters (AER).

use node::{ErrorCount, Function};

use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "aer",
    title: "PCIe functions report no errors (AER)",
    why: "Advanced error reporting (AER) counts errors of a PCIe link. Many corrected errors cost \
          bandwidth; the others lose data or the device.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input
        .functions_with_bridges()
        .into_iter()
        .filter_map(|function| check_function(input, function))
        .collect()
}

fn check_function(input: &CheckInput<'_>, function: &Function) -> Option<Finding> {
    let name = name(input, function);
    let errors = |severity: &str| -> Vec<&ErrorCount> {
        // Scanning for devices causes unsupported requests.
        let counts = |error: &&ErrorCount| {
            error.count > 0 && !error.name.starts_with("TOTAL") && error.name != "UnsupReq"
        };
        function.errors.iter().filter(|error| error.severity == severity).filter(counts).collect()
    };
    let (fatal, nonfatal, corrected) = (errors("fatal"), errors("nonfatal"), errors("correctable"));
    let total: u64 = corrected.iter().fold(0, |sum, error| sum.saturating_add(error.count));
    let many = match input.hours_up() {
        Some(hours) => total >= MIN_MANY && total as f64 > hours * MAX_PER_HOUR,
        None => total >= 10 * MIN_MANY,
    };
    let (finding, file) = match () {
        () if !fatal.is_empty() => {
            (Finding::problem(name, format!("fatal PCIe errors: {}", list(&fatal))), "fatal")
        }
        () if !nonfatal.is_empty() => {
            (Finding::warning(name, format!("PCIe errors: {}", list(&nonfatal))), "nonfatal")
        }
        () if many => (
            Finding::warning(name, format!("many corrected PCIe errors: {}", list(&corrected))),
            "correctable",
        ),
        () if function.errors.is_empty() => return None,
        () => return Some(Finding::ok(name, "few or no PCIe errors")),
    };
    let file = input.file(format!("{}/aer_dev_{file}", function.address.folder()));
    Some(finding.evidence(file).fix(
        "Reseat the card and its riser, update the firmware of machine and card, then try another \
         slot.",
    ))
}

/// The name of the device or GPU, or else the PCI address.
fn name(input: &CheckInput<'_>, function: &Function) -> String {
    let device = input.node.devices.iter().find(|device| device.pci == Some(function.address));
    let gpu = input.node.gpus.iter().find(|gpu| gpu.pci == function.address);
    match (device, gpu) {
        (Some(device), _) => device.name.clone(),
        (None, Some(gpu)) => format!("GPU {}", gpu.index),
        (None, None) => function.address.to_string(),
    }
}

fn list(errors: &[&ErrorCount]) -> String {
    errors
        .iter()
        .map(|error| format!("{} {}", error.count, error.name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Fewer corrected errors than this are not reported.
const MIN_MANY: u64 = 100;
const MAX_PER_HOUR: f64 = 10.0;
