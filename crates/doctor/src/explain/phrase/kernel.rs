//! Lines of the kernel.

use super::{Phrase, row};
use crate::explain::Subject;
use crate::explain::scan::has_word;

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["access_reg(0x805)"],
        Subject::Restricted,
        "a function may not read this register (0x805)",
        "A program reads port counters of a function that belongs to another manager (syndrome \
         0x9a6171). It is harmless, but each attempt logs another line.",
    ),
    row(
        &["0x9a6171"],
        Subject::Restricted,
        "a function may not read this register",
        "A program reads port counters of a function that belongs to another manager. It is \
         harmless, but each attempt logs another line.",
    ),
    row(
        &["device's health", "compromised"],
        Subject::NicHealth,
        "the NIC's firmware does not answer",
        "The driver's periodic health check of the NIC failed: all operations on it fail from now \
         on.",
    ),
    row(
        &["port module event[error]"],
        Subject::Cable,
        "the cable or transceiver has an error",
        "The driver prints the reason: too hot, not readable, an unsupported type, or drawing more \
         power than the port provides. The link may go down or be slower.",
    ),
    row(
        &["insufficient power on the pcie slot"],
        Subject::SlotPower,
        "the PCIe slot provides less power than the NIC may need",
        "The slot reports fewer watts than the NIC needs with all its ports and active cables; \
         under load the NIC may shut down transceivers, or itself.",
    ),
    row(
        &["mlx5_core", "assert"],
        Subject::NicHealth,
        "the NIC's firmware failed an assertion",
        "The lines around it have the firmware's error state.",
    ),
    row(
        &["mlx5_core", "health"],
        Subject::NicHealth,
        "the driver reports an unhealthy NIC",
        "The lines around it have the firmware's error state.",
    ),
    row(
        &["mlx5_core", "unhealthy"],
        Subject::NicHealth,
        "the driver reports an unhealthy NIC",
        "The lines around it have the firmware's error state.",
    ),
    row(
        &["mlx5_core", "timeout"],
        Subject::NicHealth,
        "the NIC's firmware did not answer a command",
        "The firmware or the PCIe link hangs.",
    ),
    row(
        &["mlx5_core", "syndrome"],
        Subject::Command,
        "the NIC's firmware refused a command",
        "The driver requested something that this function may not use, or that is invalid; the \
         syndrome is for the vendor's support.",
    ),
    row(
        &["efa", "failed to process command"],
        Subject::Command,
        "the EFA device refused a command",
        "A limit of the device was reached, or its state does not allow the command.",
    ),
    row(
        &["aer:", "uncorrect"],
        Subject::Pcie,
        "uncorrected PCIe errors",
        "Data was lost on a PCIe link; the device may be unavailable.",
    ),
    row(
        &["severity=uncorrect"],
        Subject::Pcie,
        "uncorrected PCIe errors",
        "Data was lost on a PCIe link; the device may be unavailable.",
    ),
    row(
        &["dpc:", "containment event"],
        Subject::Pcie,
        "a PCIe port disabled its link after an error (DPC)",
        "Devices below the port are disconnected until its link is up again; they may be \
         unavailable.",
    ),
    row(
        &["aer:", "corrected"],
        Subject::PcieCorrected,
        "corrected PCIe errors",
        "The link retransmits corrupted packets. A few are harmless; many indicate a bad contact.",
    ),
    row(
        &["severity=correct"],
        Subject::PcieCorrected,
        "corrected PCIe errors",
        "The link retransmits corrupted packets. A few are harmless; many indicate a bad contact.",
    ),
    row(&["aer:", "error"], Subject::Pcie, "PCIe errors", "An error occurred on a PCIe link."),
    row(&["aer:", "fatal"], Subject::Pcie, "PCIe errors", "An error occurred on a PCIe link."),
    row(&["aer:", "recover"], Subject::Pcie, "PCIe errors", "An error occurred on a PCIe link."),
    row(&["pcie bus error"], Subject::Pcie, "PCIe errors", "An error occurred on a PCIe link."),
    row(
        &["dmar", "fault"],
        Subject::IommuFault,
        "the IOMMU blocked an access (Intel)",
        "A device accessed an address that is not mapped for it.",
    ),
    row(
        &["amd-vi", "io_page_fault"],
        Subject::IommuFault,
        "the IOMMU blocked an access (AMD)",
        "A device accessed an address that is not mapped for it.",
    ),
    row(
        &["amd-vi", "fault"],
        Subject::IommuFault,
        "the IOMMU blocked an access (AMD)",
        "A device accessed an address that is not mapped for it.",
    ),
    row(
        &["arm-smmu", "fault"],
        Subject::IommuFault,
        "the IOMMU blocked an access (Arm)",
        "A device accessed an address that is not mapped for it.",
    ),
];

pub(super) const LINK_DOWN: Phrase = row(
    &[],
    Subject::PortDown,
    "a link went down",
    "The cable or the link partner is disconnected.",
);

/// Whether the line reports `link down` and names a driver or net device.
pub(super) fn is_link_down(lower: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_down = ["link down", "link is down"].iter().any(|words| has_word(lower, words));
    is_down && lower.split(|letter| !is_part(letter)).any(is_nic)
}

/// Whether a word is the name of a driver or a net device.
fn is_nic(word: &str) -> bool {
    let is_numbered = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
    DRIVERS.iter().any(|driver| word.starts_with(driver))
        || NETDEVS.iter().any(|kind| word.strip_prefix(kind).is_some_and(is_numbered))
}

/// Prefixes of the names of network drivers.
const DRIVERS: &[&str] = &[
    "bnxt_", "cxgb4", "e1000", "efa", "hfi1", "hns3", "hns_roce", "i40e", "igb", "ionic", "irdma",
    "ixgbe", "mana", "mlx4_", "mlx5_", "qede", "tg3",
];

/// Prefixes of the names of net devices and RDMA devices, before a number.
const NETDEVS: &[&str] =
    &["bond", "eno", "enp", "ens", "eth", "ib", "ibp", "ibs", "ocp", "rdmap", "rocep"];
