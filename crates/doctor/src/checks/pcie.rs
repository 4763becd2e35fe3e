//! Width and speed of PCIe links, hop by hop, compared with what both ends support.

use std::collections::BTreeSet;

use node::{Address, Device, Function, PciLink};

use crate::input::{gbps, is_restricted, is_software};
use crate::{Check, CheckInput, Finding, Severity};

pub(super) const CHECK: Check = Check {
    name: "pcie",
    title: "every PCIe link up to the root has the width and speed that both ends support",
    why: "A NIC whose PCIe link trained narrower or slower cannot reach its port's rate, and the \
          port does not show it. The slot may be below a switch, so every hop is checked. A NIC \
          that supports more than its slot is not a fault.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for device in input.devices().into_iter().filter(|device| !is_software(device)) {
        let Some(function) =
            device.pci.and_then(|address| input.function(link_address(input, address)))
        else {
            continue;
        };
        let need = need_gbps(device);
        seen.extend(hops(input, function).map(|(child, _)| child.address));
        let hops: Vec<Finding> = hops(input, function)
            .filter_map(|(child, parent)| degraded(input, &device.name, child, parent, need, true))
            .collect();
        if hops.is_empty() {
            findings.push(not_degraded(input, device, function, need));
        }
        findings.extend(hops);
    }
    for gpu in input.gpus() {
        let Some(function) = input.function(gpu.pci) else { continue };
        let name = format!("GPU {}", gpu.index);
        // An idle GPU lowers the speed of its link, but not the width.
        let hops = hops(input, function).filter(|(child, _)| seen.insert(child.address));
        findings.extend(hops.filter_map(|(child, parent)| {
            degraded(input, &name, child, parent, None, child.address != function.address)
        }));
    }
    findings
}

/// The function that has the link: of a virtual function, its physical function.
fn link_address(input: &CheckInput<'_>, address: Address) -> Address {
    input.function(address).and_then(|function| function.physical_function).unwrap_or(address)
}

/// Links from a function to the root, each with its lower and upper end. Every second pair of functions is inside a
/// switch, without a link.
fn hops<'c>(
    input: &CheckInput<'c>,
    from: &'c Function,
) -> impl Iterator<Item = (&'c Function, &'c Function)> + use<'c> {
    let input = *input;
    let chain: Vec<Address> =
        std::iter::once(from.address).chain(from.above.iter().copied()).collect();
    let pairs: Vec<(Address, Address)> =
        chain.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    pairs
        .into_iter()
        .filter_map(move |(child, parent)| Some((input.function(child)?, input.function(parent)?)))
}

fn degraded(
    input: &CheckInput<'_>,
    subject: &str,
    child: &Function,
    parent: &Function,
    need: Option<f64>,
    with_speed: bool,
) -> Option<Finding> {
    let now = &child.link;
    let best = PciLink {
        speed_gts: now.speed_gts,
        width: now.width,
        max_speed_gts: lower(now.max_speed_gts, parent.link.max_speed_gts),
        max_width: lower(now.max_width, parent.link.max_width),
    };
    let narrow = is_less(now.width.map(f64::from), best.max_width.map(f64::from));
    let slow = with_speed && is_less(now.speed_gts, best.max_speed_gts);
    if !narrow && !slow {
        return None;
    }
    let summary = format!(
        "the PCIe link below {} runs at {}, but both ends support {}",
        parent.address,
        link_text(now.speed_gts, now.width),
        link_text(best.max_speed_gts, best.max_width)
    );
    let (rate, _) = now.gbps();
    let limits_port = matches!((rate, need), (Some(rate), Some(need)) if rate < need);
    let severity = if limits_port { Severity::Problem } else { Severity::Warning };
    let finding = Finding::new(severity, subject, summary);
    let files = [child, parent].into_iter().flat_map(|function| evidence(input, function));
    Some(
        finding
            .evidence_all(files)
            .fix("Reseat the NIC and its riser, then try another slot.")
            .fix(format!(
                "Check the slot's settings in the firmware setup, and `lspci -vv -s {}` (LnkSta).",
                child.address
            )),
    )
}

/// All links run as their ends support; the slot may still be slower than the port.
fn not_degraded(
    input: &CheckInput<'_>,
    device: &Device,
    function: &Function,
    need: Option<f64>,
) -> Finding {
    let (rate, _) = function.link.gbps();
    let files = evidence(input, function);
    let restricted = device.ports.iter().any(is_restricted);
    match (rate, need) {
        (Some(rate), Some(need)) if rate < need && !restricted => {
            let summary = format!(
                "its slot has {rate:.0} Gb/s, less than the port's {}",
                gbps((need * 1000.0) as u64)
            );
            Finding::note(&*device.name, summary).evidence_all(files)
        }
        (Some(_), _) => {
            Finding::ok(&*device.name, "PCIe links have the width and speed that both ends support")
                .evidence_all(files)
        }
        (None, _) => Finding::unknown(&*device.name, "the PCIe link's speed is not known")
            .evidence_all(files),
    }
}

fn evidence(input: &CheckInput<'_>, function: &Function) -> Vec<crate::Evidence> {
    let names = ["current_link_speed", "current_link_width", "max_link_speed", "max_link_width"];
    names.map(|name| input.file(format!("{}/{name}", function.address.folder()))).to_vec()
}

/// The rate of the device's fastest active port.
fn need_gbps(device: &Device) -> Option<f64> {
    let active = device.ports.iter().filter(|port| port.is_active());
    active.filter_map(|port| Some(port.rate.value()?.gbps())).max_by(f64::total_cmp)
}

fn lower<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other < one { other } else { one }),
        _ => None,
    }
}

/// Functions without a link of their own report zero.
fn is_less(now: Option<f64>, best: Option<f64>) -> bool {
    matches!((now, best), (Some(now), Some(best)) if now > 0.0 && now < best)
}

fn link_text(speed_gts: Option<f64>, width: Option<u32>) -> String {
    let speed = speed_gts.map_or("? GT/s".to_owned(), |speed| format!("{speed} GT/s"));
    format!("{speed} x{}", width.map_or("?".to_owned(), |width| width.to_string()))
}
