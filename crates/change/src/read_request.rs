//! The maximum read request size of a PCI function: three bits of its configuration space.
//!
//! PCI Express Base Specification, 7.5.3.4: bits 14:12 of Device Control, which is at 8 in the PCI Express
//! capability (number 0x10); 0 is 128 bytes, each step doubles, 5 is 4096.

use node::Tree;

use super::{Error, Machine, State};

/// Its current value.
pub(super) fn read(tree: &Tree, pci: &str) -> Result<State, Error> {
    let (_, control) = register(tree, pci)?;
    Ok(State::all(bytes(control).to_string(), 1))
}

/// Changes the three bits and no others.
pub(super) fn set(machine: &Machine, pci: &str, wanted: Option<&str>) -> Result<(), Error> {
    let steps = wanted.and_then(|bytes| STEPS.iter().position(|step| step == &bytes));
    let step = steps.and_then(|step| u16::try_from(step).ok()).ok_or_else(|| {
        Error::failed(format!(
            "{pci}: the read request size must be one of {} bytes",
            STEPS.join(", ")
        ))
    })?;
    let (at, control) = register(&machine.reader()?.tree, pci)?;
    let control = control & !(7 << 12) | step << 12;
    machine.set_bytes(&file(pci), at, &control.to_le_bytes())
}

/// The offset of Device Control, and its content.
fn register(tree: &Tree, pci: &str) -> Result<(u64, u16), Error> {
    let config = tree.bytes(&file(pci)).into_value().unwrap_or_default();
    let byte = |at: usize| config.get(at).copied();
    let found = || {
        let mut at = usize::from(byte(0x34)?);
        // At most 48 entries fit; a cycle in the list would be endless.
        for _ in 0..48 {
            if at < 0x40 {
                return None;
            }
            if byte(at)? == 0x10 {
                let control = u16::from_le_bytes([byte(at + 8)?, byte(at + 9)?]);
                return Some((at as u64 + 8, control));
            }
            at = usize::from(byte(at + 1)?);
        }
        None
    };
    found().ok_or_else(|| {
        let why =
            if config.len() <= 64 { "only root can read all of it" } else { "no PCIe capability" };
        Error::failed(format!("{}: {why}, so it could not be reverted", file(pci)))
    })
}

fn bytes(control: u16) -> u32 {
    128 << (control >> 12 & 7)
}

fn file(pci: &str) -> String {
    format!("/sys/bus/pci/devices/{pci}/config")
}

const STEPS: [&str; 6] = ["128", "256", "512", "1024", "2048", "4096"];
