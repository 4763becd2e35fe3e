//! NVIDIA's error numbers (`NVRM: Xid (PCI:0000:1b:00): 79, …`).

use super::Subject;
use super::scan::number;

pub(super) fn read(line: &str) -> Option<(String, Vec<String>, Subject)> {
    let rest = line.split_once("Xid")?.1.split_once("):")?.1.trim_start();
    let xid = number(rest)?.value;
    let known = TABLE.iter().find(|(number, _)| *number == xid);
    let meaning =
        known.map_or("NVIDIA's catalogue of Xid errors has this number.", |(_, meaning)| meaning);
    Some((format!("Xid {xid} of a GPU"), vec![meaning.to_owned()], Subject::Gpu))
}

const TABLE: &[(u32, &str)] = &[
    (
        13,
        "The program made the GPU do something that it cannot: a fault of the program, most often.",
    ),
    (
        31,
        "The program reached for GPU memory that is not mapped: a fault of the program, most \
         often.",
    ),
    (43, "The program on the GPU was stopped after an error of its own."),
    (45, "The program's work was ended, since the program ended or another error came first."),
    (
        48,
        "GPU memory has an error of two bits, which cannot be corrected. The GPU must be reset, \
         and replaced if it comes again.",
    ),
    (62, "The GPU's own CPU halted."),
    (63, "A page or row of GPU memory was taken out of use; in force after a reset."),
    (
        64,
        "A page or row of GPU memory could not be taken out of use. Reset the GPU; replace it if \
         it comes again.",
    ),
    (
        74,
        "An NVLink failed. Look at the fabric manager's log; reseat or replace what the link \
         connects.",
    ),
    (
        79,
        "The GPU fell off the bus: it is gone until the machine restarts. Power, heat, or its \
         PCIe link.",
    ),
    (94, "A memory error hit one program, which was ended; others go on."),
    (95, "A memory error could not be contained: all programs on the GPU are ended. Reset it."),
    (119, "The GPU's own CPU (GSP) does not answer. Restart; update the driver."),
    (120, "The GPU's own CPU (GSP) failed. Restart; update the driver."),
];
