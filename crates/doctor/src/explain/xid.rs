//! NVIDIA's error numbers (`NVRM: Xid (PCI:0000:1b:00): 79, …`).

use super::ErrorClass;
use super::scan::number;

pub(super) fn read(line: &str) -> Option<(String, Vec<String>, ErrorClass)> {
    let rest = line.split_once("Xid")?.1.split_once("):")?.1.trim_start();
    let xid = number(rest)?.value;
    let known = TABLE.iter().find(|(number, _)| *number == xid);
    let meaning = known.map_or("See NVIDIA's catalogue of Xid errors.", |(_, meaning)| meaning);
    Some((format!("Xid {xid} of a GPU"), vec![meaning.to_owned()], ErrorClass::Gpu))
}

const TABLE: &[(u32, &str)] = &[
    (13, "Graphics engine exception: usually a bug in the program."),
    (31, "The program accessed GPU memory that is not mapped: usually a bug in the program."),
    (43, "The program on the GPU was stopped after an error of its own."),
    (45, "The program's work was removed, since the program ended or an earlier error occurred."),
    (
        48,
        "Uncorrectable double-bit error in GPU memory. Reset the GPU; replace it if the error \
         recurs.",
    ),
    (62, "The GPU's microcontroller halted."),
    (63, "A page or row of GPU memory was retired; effective after a reset."),
    (
        64,
        "A page or row of GPU memory could not be retired. Reset the GPU; replace it if the error \
         recurs.",
    ),
    (
        74,
        "An NVLink failed. Check the fabric manager's log; reseat or replace the connected parts.",
    ),
    (
        79,
        "The GPU fell off the bus and is unavailable until the machine reboots. Check power, \
         temperature and its PCIe link.",
    ),
    (94, "A contained memory error: one program was terminated, others continue."),
    (95, "An uncontained memory error: all programs on the GPU are terminated. Reset it."),
    (119, "The GPU's GSP firmware does not answer. Reboot; update the driver."),
    (120, "The GPU's GSP firmware failed. Reboot; update the driver."),
];
