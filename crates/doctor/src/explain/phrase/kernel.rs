//! What the kernel prints.

use super::{Phrase, row};
use crate::explain::Subject;
use crate::explain::scan::stands;

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["access_reg(0x805)"],
        Subject::Restricted,
        "a function may not read this register (0x805)",
        "Counters of a port are asked for on a function that another manager has; syndrome \
         0x9a6171 says so. It is harmless, and each attempt is another line.",
    ),
    row(
        &["0x9a6171"],
        Subject::Restricted,
        "a function may not read this register",
        "Counters of a port are asked for on a function that another manager has. It is harmless, \
         and each attempt is another line.",
    ),
    row(
        &["device's health", "compromised"],
        Subject::CardHealth,
        "the card's firmware does not answer",
        "The driver asks the card every so often whether it is well, and it is not: everything on \
         it fails from now on.",
    ),
    row(
        &["port module event[error]"],
        Subject::Cable,
        "the cable or transceiver has an error",
        "The card's driver says which: too hot, not readable, of a kind that it does not take, or \
         drawing more power than the port gives. The link may go or be slower.",
    ),
    row(
        &["insufficient power on the pcie slot"],
        Subject::SlotPower,
        "the PCIe slot gives the card less power than it may need",
        "The slot says that it has fewer watts than the card asks for with all its ports and \
         active cables; the card may shut down transceivers, or itself, under load.",
    ),
    row(
        &["mlx5_core", "assert"],
        Subject::CardHealth,
        "the card's firmware failed an assertion",
        "Its own error state follows in the lines around.",
    ),
    row(
        &["mlx5_core", "health"],
        Subject::CardHealth,
        "the driver complains of the card's health",
        "Its own error state follows in the lines around.",
    ),
    row(
        &["mlx5_core", "unhealthy"],
        Subject::CardHealth,
        "the driver complains of the card's health",
        "Its own error state follows in the lines around.",
    ),
    row(
        &["mlx5_core", "timeout"],
        Subject::CardHealth,
        "the card's firmware did not answer a command",
        "The firmware hangs, or the bus to it does.",
    ),
    row(
        &["mlx5_core", "syndrome"],
        Subject::Command,
        "the card's firmware refused a command",
        "The driver asked for something that this function may not have, or that does not fit; \
         the syndrome is for the vendor's support.",
    ),
    row(
        &["efa", "failed to process command"],
        Subject::Command,
        "the EFA device refused a command",
        "A limit of the device, or its state.",
    ),
    row(
        &["aer:", "uncorrect"],
        Subject::Pcie,
        "PCIe errors that were not corrected",
        "Something was lost on a PCIe link; the device may be gone.",
    ),
    row(
        &["severity=uncorrect"],
        Subject::Pcie,
        "PCIe errors that were not corrected",
        "Something was lost on a PCIe link; the device may be gone.",
    ),
    row(
        &["dpc:", "containment event"],
        Subject::Pcie,
        "a PCIe port shut its link after an error (DPC)",
        "What is below the port is cut off until its link is brought up again; the device may be \
         gone.",
    ),
    row(
        &["aer:", "corrected"],
        Subject::PcieCorrected,
        "PCIe errors that were corrected",
        "A link repeats what came wrong. Now and then it means nothing; many mean a bad contact.",
    ),
    row(
        &["severity=correct"],
        Subject::PcieCorrected,
        "PCIe errors that were corrected",
        "A link repeats what came wrong. Now and then it means nothing; many mean a bad contact.",
    ),
    row(&["aer:", "error"], Subject::Pcie, "PCIe errors", "Something went wrong on a PCIe link."),
    row(&["aer:", "fatal"], Subject::Pcie, "PCIe errors", "Something went wrong on a PCIe link."),
    row(&["aer:", "recover"], Subject::Pcie, "PCIe errors", "Something went wrong on a PCIe link."),
    row(&["pcie bus error"], Subject::Pcie, "PCIe errors", "Something went wrong on a PCIe link."),
    row(
        &["dmar", "fault"],
        Subject::IommuFault,
        "the IOMMU stopped an access (Intel)",
        "A device reached for an address that it has no mapping for.",
    ),
    row(
        &["amd-vi", "io_page_fault"],
        Subject::IommuFault,
        "the IOMMU stopped an access (AMD)",
        "A device reached for an address that it has no mapping for.",
    ),
    row(
        &["amd-vi", "fault"],
        Subject::IommuFault,
        "the IOMMU stopped an access (AMD)",
        "A device reached for an address that it has no mapping for.",
    ),
    row(
        &["arm-smmu", "fault"],
        Subject::IommuFault,
        "the IOMMU stopped an access (Arm)",
        "A device reached for an address that it has no mapping for.",
    ),
];

pub(super) const LINK_DOWN: Phrase =
    row(&[], Subject::PortDown, "a link went down", "The wire, or its other end, is gone.");

/// `link down` of a driver or a net device that the line names.
pub(super) fn is_link_down(lower: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let told = ["link down", "link is down"].iter().any(|words| stands(lower, words));
    told && lower.split(|letter| !is_part(letter)).any(is_card)
}

/// Whether a word is the name of a driver or a net device.
fn is_card(word: &str) -> bool {
    let is_numbered = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
    DRIVERS.iter().any(|driver| word.starts_with(driver))
        || NETDEVS.iter().any(|kind| word.strip_prefix(kind).is_some_and(is_numbered))
}

/// How the names of drivers of network cards begin.
const DRIVERS: &[&str] = &[
    "bnxt_", "cxgb4", "e1000", "efa", "hfi1", "hns3", "hns_roce", "i40e", "igb", "ionic", "irdma",
    "ixgbe", "mana", "mlx4_", "mlx5_", "qede", "tg3",
];

/// How the names of net devices and RDMA devices begin, before a number.
const NETDEVS: &[&str] =
    &["bond", "eno", "enp", "ens", "eth", "ib", "ibp", "ibs", "ocp", "rdmap", "rocep"];
