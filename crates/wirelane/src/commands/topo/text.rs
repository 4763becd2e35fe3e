//! The matrix as text.

use super::matrix::{Matrix, Slot};
use crate::output::wrap::{columns, line, table};

/// The devices, their distances, and the device of each GPU.
pub(super) fn render(matrix: &Matrix) -> String {
    let width = columns();
    let mut parts = vec![table(&devices(matrix), width)];
    parts.extend(distances(matrix, width).iter().map(|rows| table(rows, width)));
    parts.push(table(&assignment(matrix), width));
    if !matrix.gpus.is_empty() && !matrix.nics.is_empty() {
        parts.push(line("", LEGEND));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn devices(matrix: &Matrix) -> Vec<Vec<String>> {
    let gpus = matrix.gpus.iter().map(|gpu| {
        let model = gpu.model.clone().unwrap_or_default();
        row(format!("GPU {}", gpu.index), &gpu.slot, model, String::new())
    });
    let nics = matrix.nics.iter().map(|nic| {
        let rate = nic.rate_gbps.map(|gbps| format!("{gbps} Gb/s")).unwrap_or_default();
        let state = if nic.active { rate } else { "down".to_owned() };
        let netdev = nic.netdev.iter().map(String::as_str);
        let link: Vec<&str> =
            [state.as_str()].into_iter().chain(nic.link_layer).chain(netdev).collect();
        row(nic.device.clone(), &nic.slot, nic.model.clone().unwrap_or_default(), link.join(" "))
    });
    gpus.chain(nics).collect()
}

fn row(name: String, slot: &Slot, model: String, link: String) -> Vec<String> {
    let numa = slot.numa_node.map(|number| format!("NUMA {number}")).unwrap_or_default();
    vec![name, slot.pci.to_string(), numa, pcie(slot), link, model]
}

/// `PCIe 504 Gb/s`, or `PCIe 252 of 504 Gb/s`.
pub(super) fn pcie(slot: &Slot) -> String {
    match (slot.pcie_gbps, slot.pcie_max_gbps) {
        (Some(now), Some(max)) if now < max => format!("PCIe {now} of {max} Gb/s"),
        (Some(now), _) => format!("PCIe {now} Gb/s"),
        (None, _) => String::new(),
    }
}

/// The distances, in several tables if the NICs do not fit the width side by side.
fn distances(matrix: &Matrix, width: Option<usize>) -> Vec<Vec<Vec<String>>> {
    if matrix.gpus.is_empty() {
        return Vec::new();
    }
    let gpu = |index: u32| format!("GPU {index}");
    let first = matrix.gpus.iter().map(|one| gpu(one.index).len()).max().unwrap_or(0);
    let widest = matrix.nics.iter().map(|nic| nic.device.chars().count()).max().unwrap_or(0);
    let side_by_side = width.map_or(usize::MAX, |width| width.saturating_sub(first) / (widest + 2));
    let numbers: Vec<usize> = (0..matrix.nics.len()).collect();
    let tables = numbers.chunks(side_by_side.max(1)).map(|nics| {
        let names = nics.iter().map(|nic| matrix.nics[*nic].device.clone());
        let head: Vec<String> = [String::new()].into_iter().chain(names).collect();
        let rows = matrix.gpus.iter().zip(&matrix.distances).map(|(one, row)| {
            let cells = nics.iter().map(|nic| row[*nic].name().to_owned());
            [gpu(one.index)].into_iter().chain(cells).collect()
        });
        [head].into_iter().chain(rows).collect()
    });
    tables.collect()
}

fn assignment(matrix: &Matrix) -> Vec<Vec<String>> {
    let rows = matrix.assignment.iter().map(|assigned| {
        let device = format!("{}:{}", assigned.device, assigned.port);
        let gpu = format!("GPU {}", assigned.gpu);
        vec![gpu, "→".to_owned(), device, assigned.distance.name().to_owned(), assigned.why.clone()]
    });
    rows.collect()
}

const LEGEND: &str = "PIX one PCIe switch · PXB several · PHB a host bridge · NODE the same NUMA node · SYS the link \
                      between nodes";
