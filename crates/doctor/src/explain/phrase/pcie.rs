//! Lines of the kernel about PCIe links and the IOMMU.

use super::{Phrase, row};
use crate::explain::ErrorClass;

pub(super) const TABLE: &[Phrase] = &[
    row(
        &[
            "pcie width|pcie speed|pcie link|pcie bandwidth|pci width|pci speed|pcie_print_link_status",
            "lower than|less than|limited by|downgraded|degraded|reduced",
        ],
        ErrorClass::Pcie,
        "a PCIe link is slower than the device could be",
        "The slot, a riser or a bad contact gives it fewer lanes or a lower rate.",
    ),
    row(
        &["aer:|aer|pci_err_detected", "uncorrect|pci_err_detected"],
        ErrorClass::Pcie,
        "uncorrected PCIe errors",
        "Data was lost on a PCIe link; the device may be unavailable.",
    ),
    row(
        &["severity=uncorrect|severity: fatal|severity: recoverable"],
        ErrorClass::Pcie,
        "uncorrected PCIe errors",
        "Data was lost on a PCIe link; the device may be unavailable.",
    ),
    row(
        &["dpc:", "containment event"],
        ErrorClass::Pcie,
        "a PCIe port disabled its link after an error (DPC)",
        "Devices below the port are disconnected until its link is up again; they may be \
         unavailable.",
    ),
    row(
        &["cmpltto|cmpltabrt|unxcmplt|malftlp|unsupreq|acsviol|poisontlp|uncorrinterr|\
             mcblkedtlp"],
        ErrorClass::Pcie,
        "uncorrected PCIe errors",
        "Data was lost on a PCIe link; the device may be unavailable.",
    ),
    row(
        &[
            "pci",
            "rxof|ecrc|sdes|dlp  |tlp  |completion timeout|unsupported request|malformed tlp|\
             data link protocol|surprise down|completer abort|unexpected completion|\
             poisoned tlp|flow control protocol|acs violation|atomicop",
        ],
        ErrorClass::Pcie,
        "uncorrected PCIe errors",
        "Data was lost on a PCIe link; the device may be unavailable.",
    ),
    row(
        &[
            "aer:|severity=correct|severity: correct|pcie bus error|hardware error",
            "corrected|correctable|severity=correct|severity: correct",
        ],
        ErrorClass::PcieCorrected,
        "corrected PCIe errors",
        "The link retransmits corrupted packets. A few are harmless; many indicate a bad contact.",
    ),
    row(
        &[
            "pci|mlx|nvme|nvidia|aer",
            "replay timer|rxerr|badtlp|baddllp|bad tlp|bad dllp|rollover|receiver error|\
             replay num|nonfatalerr|advisory non-fatal|corrinterr|headerof|timeout  |\
             [12] timeout|[12] replay|[ 8] r|[13] non|[15] header|can't find device of|\
             /00002000|/0000a000|/0000e000|/00006000",
        ],
        ErrorClass::PcieCorrected,
        "corrected PCIe errors",
        "The link retransmits corrupted packets. A few are harmless; many indicate a bad contact.",
    ),
    row(
        &["aer:", "error|fatal|recover|fail|reset"],
        ErrorClass::Pcie,
        "PCIe errors",
        "An error occurred on a PCIe link.",
    ),
    row(
        &[
            "pcie bus error|error_detected message|aer-aware driver|error status/mask|config space inaccessible|pcie link lost|\
             pcie error|from d3cold",
        ],
        ErrorClass::Pcie,
        "PCIe errors",
        "An error occurred on a PCIe link.",
    ),
    row(
        &["pciehp", "link down|card not present|fail|timeout|not present"],
        ErrorClass::Pcie,
        "a PCIe slot lost its device",
        "The slot's link went down, or the card was removed.",
    ),
    row(
        &["available pcie bandwidth", "limited by"],
        ErrorClass::Pcie,
        "the PCIe link is slower than the device supports",
        "The slot or a bridge above it limits the device.",
    ),
    row(
        &[
            "dmar|dmar-ir|intel-iommu|dmar_fault|amd_iommu|iommu",
            "fault|invalidation time-out|invalidation queue|pte read|pte write|already set|ite|iqe|broken|bug|not mapped|\
             failed|returns all",
        ],
        ErrorClass::IommuFault,
        "the IOMMU blocked an access (Intel)",
        "A device accessed an address that is not mapped for it.",
    ),
    row(
        &["io_page_fault|invalid_device_request|illegal_dev_table|dev_tab_hardware|\
             page_tab_hardware|iotlb_inv_timeout|invalid_ppr|illegal_command_error|\
             rmp_page_fault"],
        ErrorClass::IommuFault,
        "the IOMMU blocked an access (AMD)",
        "A device accessed an address that is not mapped for it, or in a way that the IOMMU refuses.",
    ),
    row(
        &["amd-vi", "fault|timed out|event logged|error"],
        ErrorClass::IommuFault,
        "the IOMMU blocked an access (AMD)",
        "A device accessed an address that is not mapped for it.",
    ),
    row(
        &["arm-smmu|smmu", "fault|event 0x|f_translation|c_bad|error"],
        ErrorClass::IommuFault,
        "the IOMMU blocked an access (Arm)",
        "A device accessed an address that is not mapped for it.",
    ),
];
