//! The matrix as text.

use super::matrix::{Matrix, Slot};

/// The devices, their distances, and the device of each GPU.
pub(super) fn render(matrix: &Matrix) -> String {
    let parts = [table(&devices(matrix)), table(&distances(matrix)), table(&assignment(matrix))];
    let mut parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if !matrix.gpus.is_empty() && !matrix.nics.is_empty() {
        parts.push(LEGEND.to_owned());
    }
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

fn distances(matrix: &Matrix) -> Vec<Vec<String>> {
    if matrix.gpus.is_empty() || matrix.nics.is_empty() {
        return Vec::new();
    }
    let names = matrix.nics.iter().map(|nic| nic.device.clone());
    let head: Vec<String> = [String::new()].into_iter().chain(names).collect();
    let rows = matrix.gpus.iter().zip(&matrix.distances).map(|(gpu, row)| {
        let cells = row.iter().map(|cell| cell.name().to_owned());
        [format!("GPU {}", gpu.index)].into_iter().chain(cells).collect()
    });
    [head].into_iter().chain(rows).collect()
}

fn assignment(matrix: &Matrix) -> Vec<Vec<String>> {
    let rows = matrix.assignment.iter().map(|assigned| {
        let device = format!("{}:{}", assigned.device, assigned.port);
        let gpu = format!("GPU {}", assigned.gpu);
        vec![gpu, "→".to_owned(), device, assigned.distance.name().to_owned(), assigned.why.clone()]
    });
    rows.collect()
}

/// Columns as wide as their widest cell.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        // Columns without values are omitted.
        let cells = row.iter().zip(&widths).filter(|(_, width)| **width > 0);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

const LEGEND: &str = "\
PIX one PCIe switch · PXB several · PHB a host bridge · NODE the same NUMA node · SYS the link between nodes
";
