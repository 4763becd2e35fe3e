//! What the kernel prints.

use super::{Phrase, row};
use crate::explain::Subject;

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
        &["health", "compromised"],
        Subject::CardHealth,
        "the card's firmware does not answer",
        "The driver asks the card every so often whether it is well, and it is not: everything on \
         it fails from now on.",
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
        &["failed to process command"],
        Subject::Command,
        "the EFA device refused a command",
        "A limit of the device, or its state.",
    ),
    row(
        &["aer:", "corrected"],
        Subject::PcieCorrected,
        "PCIe errors that were corrected",
        "A link repeats what came wrong. Now and then it means nothing; many mean a bad contact.",
    ),
    row(
        &["aer:", "severity=corrected"],
        Subject::PcieCorrected,
        "PCIe errors that were corrected",
        "A link repeats what came wrong. Now and then it means nothing; many mean a bad contact.",
    ),
    row(
        &["severity=corrected"],
        Subject::PcieCorrected,
        "PCIe errors that were corrected",
        "A link repeats what came wrong. Now and then it means nothing; many mean a bad contact.",
    ),
    row(
        &["severity=uncorrect"],
        Subject::Pcie,
        "PCIe errors",
        "Something was lost on a PCIe link; the device may be gone.",
    ),
    row(&["aer:"], Subject::Pcie, "PCIe errors", "Something went wrong on a PCIe link."),
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
    row(
        &["link down"],
        Subject::PortDown,
        "a link went down",
        "The wire, or its other end, is gone.",
    ),
];
