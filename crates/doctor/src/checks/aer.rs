//! PCIe errors as functions count them.

use node::{ErrorCount, Function};

use crate::{Case, Check, Finding};

pub(super) const CHECK: Check = Check {
    name: "aer",
    title: "PCIe functions count no errors",
    why: "Advanced error reporting counts what went wrong on a PCIe link. Corrected errors cost \
          time when they are many; the others lose data or the device.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.functions_with_hops()
        .into_iter()
        .filter_map(|function| of_function(case, function))
        .collect()
}

fn of_function(case: &Case<'_>, function: &Function) -> Option<Finding> {
    let name = name(case, function);
    let of = |severity: &str| -> Vec<&ErrorCount> {
        // A request that nobody understands is what looking for devices looks like.
        let usual = |error: &&ErrorCount| {
            error.count > 0 && !error.name.starts_with("TOTAL") && error.name != "UnsupReq"
        };
        function.errors.iter().filter(|error| error.severity == severity).filter(usual).collect()
    };
    let (fatal, nonfatal, corrected) = (of("fatal"), of("nonfatal"), of("correctable"));
    let total: u64 = corrected.iter().fold(0, |sum, error| sum.saturating_add(error.count));
    let many = match case.hours_up() {
        Some(hours) => total >= MANY && total as f64 > hours * AN_HOUR,
        None => total >= 10 * MANY,
    };
    let (finding, file) = match () {
        () if !fatal.is_empty() => {
            (Finding::problem(name, format!("fatal PCIe errors: {}", words(&fatal))), "fatal")
        }
        () if !nonfatal.is_empty() => {
            (Finding::warning(name, format!("PCIe errors: {}", words(&nonfatal))), "nonfatal")
        }
        () if many => (
            Finding::warning(name, format!("many corrected PCIe errors: {}", words(&corrected))),
            "correctable",
        ),
        () if function.errors.is_empty() => return None,
        () => return Some(Finding::ok(name, "few or no PCIe errors")),
    };
    let file = case.file(format!("{}/aer_dev_{file}", function.address.folder()));
    Some(finding.read(file).fix(
        "Reseat the card and its riser, update firmware of machine and card, then try another \
         slot.",
    ))
}

/// By the device's name where it has one.
fn name(case: &Case<'_>, function: &Function) -> String {
    let device = case.node.devices.iter().find(|device| device.pci == Some(function.address));
    let gpu = case.node.gpus.iter().find(|gpu| gpu.pci == function.address);
    match (device, gpu) {
        (Some(device), _) => device.name.clone(),
        (None, Some(gpu)) => format!("GPU {}", gpu.index),
        (None, None) => function.address.to_string(),
    }
}

fn words(errors: &[&ErrorCount]) -> String {
    errors
        .iter()
        .map(|error| format!("{} {}", error.count, error.name))
        .collect::<Vec<_>>()
        .join(", ")
}

const MANY: u64 = 100;
const AN_HOUR: f64 = 10.0;
