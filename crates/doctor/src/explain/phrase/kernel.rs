//! Lines of the kernel.

use super::{Phrase, row};
use crate::explain::Subject;
use crate::explain::scan::has_word;

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["access_reg(0x805)|0x9a6171"],
        Subject::Restricted,
        "a function may not read this register (0x805)",
        "A program reads port counters of a function that belongs to another manager (syndrome \
         0x9a6171). It is harmless, but each attempt logs another line.",
    ),
    row(
        &["cgroup", "rdma", "permission denied|not permitted|read-only"],
        Subject::Restricted,
        "the cgroup controller for RDMA may not be used",
        "The container runtime may not create or write its rdma cgroup.",
    ),
    row(
        &["async reg mr failed|create_mkey_callback|reg_create|mlx5_ib_reg_user_mr|\
             reg_user_mr|umem_get"],
        Subject::Registration,
        "the driver could not register memory",
        "The NIC's firmware or the kernel refused another memory key.",
    ),
    row(
        &["insufficient power|power on the pcie slot|pcie slot power|not enough power", "pci|slot"],
        Subject::SlotPower,
        "the PCIe slot provides less power than the NIC may need",
        "The slot reports fewer watts than the NIC needs with all its ports and active cables; \
         under load the NIC may shut down transceivers, or itself.",
    ),
    row(
        &["port module event[error]|cable error|unsupported cable|bad or shorted cable|\
             unreadable eeprom|power budget exceeded"],
        Subject::Cable,
        "the cable or transceiver has an error",
        "The driver prints the reason: too hot, not readable, an unsupported type, or drawing more \
         power than the port provides. The link may go down or be slower.",
    ),
    row(
        &["eeprom", "module|cable|mlx|sfp", "fail|error|cannot|unable"],
        Subject::Cable,
        "the cable's or transceiver's memory cannot be read",
        "The module is badly seated, defective, or of a kind that the NIC does not support.",
    ),
    row(
        &["port module event|cable plugged|cable unplugged|module unplugged"],
        Subject::Cable,
        "a cable or transceiver was plugged or unplugged",
        "Harmless if somebody did it, or at boot. If it repeats, the contact or the module is bad.",
    ),
    row(
        &["device's health", "compromised"],
        Subject::NicHealth,
        "the NIC's firmware does not answer",
        "The driver's periodic health check of the NIC failed: all operations on it fail from now \
         on.",
    ),
    row(
        &["mlx5_core|mlx4_core", "assert"],
        Subject::NicHealth,
        "the NIC's firmware failed an assertion",
        "The lines around it have the firmware's error state.",
    ),
    row(
        &[
            "mlx5_core|mlx4_core|bnxt_en|ice 0000|hns3|ionic|efa|irdma|bnxt_re",
            "health|unhealthy|internal error|error state|error_state|crdump|pci slot|\
             fatal error|fw reset|firmware not responding|firmware is not responding|\
             not come back|irisc|ext_synd|hw_id|catas|internal err buf|high temperature|\
             sw_reset|error recovery|firmware fatal|pre-initializing|pre-init|tx timeout|\
             device is dead|dead",
        ],
        Subject::NicHealth,
        "the driver reports an unhealthy NIC",
        "The lines around it have the firmware's error state.",
    ),
    row(
        &[
            "mlx5_core|mlx4_core|mlx5_cmd|wait_func|bnxt_en|efa",
            "no done completion|leak of a command resource|cmd[|cmd_exec|wait_func|command",
            "timeout|no done|timed out|leak",
        ],
        Subject::Command,
        "the NIC's firmware did not answer a command",
        "The firmware or the PCIe link hangs, or the firmware was busy for too long.",
    ),
    row(
        &["mlx5_core|mlx4_core", "timeout|timed out"],
        Subject::NicHealth,
        "the NIC's firmware did not answer",
        "The firmware or the PCIe link hangs.",
    ),
    row(
        &["efa", "failed to process command|failed to submit command|process command"],
        Subject::Command,
        "the EFA device refused a command",
        "A limit of the device was reached, or its state does not allow the command.",
    ),
    row(
        &[
            "mlx5_core|mlx5_cmd|mlx4_core|bnxt_en|mlx5_ib|bnxt_re|irdma|mlx4_ib",
            "syndrome|cmd_check|cmd_out_err|fw status|hwrm|cap failed|hca_cap|load_one|\
             probe_one|init_one|function_setup|enable hca|set_issi|query_adapter|command|\
             opcode|cmd|probe|satisfy_startup|init_hca|uar|eq|give_pages|reclaim_pages|\
             manage_pages|boot fw|firmware",
            "fail|error|status|err|bad|abort|not ",
        ],
        Subject::Command,
        "the NIC's firmware refused a command",
        "The driver requested something that this function may not use, or that is invalid; the \
         syndrome is for the vendor's support.",
    ),
    row(
        &[
            "infiniband|ib_mad|ib_core",
            "couldn't create|couldn't open|can't create|failed to create",
        ],
        Subject::Creation,
        "the kernel could not create its own queues on the device",
        "The NIC or its driver refused a queue pair or completion queue for management packets.",
    ),
    row(
        &["aer:|aer|pci_err_detected", "uncorrect|pci_err_detected"],
        Subject::Pcie,
        "uncorrected PCIe errors",
        "Data was lost on a PCIe link; the device may be unavailable.",
    ),
    row(
        &["severity=uncorrect|severity: fatal|severity: recoverable"],
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
        &["cmpltto|cmpltabrt|unxcmplt|malftlp|unsupreq|acsviol|poisontlp|uncorrinterr|\
             mcblkedtlp"],
        Subject::Pcie,
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
        Subject::Pcie,
        "uncorrected PCIe errors",
        "Data was lost on a PCIe link; the device may be unavailable.",
    ),
    row(
        &[
            "aer:|severity=correct|severity: correct|pcie bus error|hardware error",
            "corrected|correctable|severity=correct|severity: correct",
        ],
        Subject::PcieCorrected,
        "corrected PCIe errors",
        "The link retransmits corrupted packets. A few are harmless; many indicate a bad contact.",
    ),
    row(
        &[
            "pci|mlx|nvme|nvidia|aer",
            "replay timer|rxerr|badtlp|baddllp|bad tlp|bad dllp|rollover|receiver error|\
             replay num|nonfatalerr|advisory non-fatal|corrinterr|headerof|timeout  |\
             /00002000|/0000a000|/0000e000|/00006000",
        ],
        Subject::PcieCorrected,
        "corrected PCIe errors",
        "The link retransmits corrupted packets. A few are harmless; many indicate a bad contact.",
    ),
    row(
        &["aer:", "error|fatal|recover|fail|reset"],
        Subject::Pcie,
        "PCIe errors",
        "An error occurred on a PCIe link.",
    ),
    row(
        &["pcie bus error|error status/mask|config space inaccessible|pcie link lost|\
             pcie error|from d3cold"],
        Subject::Pcie,
        "PCIe errors",
        "An error occurred on a PCIe link.",
    ),
    row(
        &["pciehp", "link down|card not present|fail|timeout|not present"],
        Subject::Pcie,
        "a PCIe slot lost its device",
        "The slot's link went down, or the card was removed.",
    ),
    row(
        &["available pcie bandwidth", "limited by"],
        Subject::Pcie,
        "the PCIe link is slower than the device supports",
        "The slot or a bridge above it limits the device.",
    ),
    row(
        &[
            "dmar|dmar-ir|intel-iommu",
            "fault|invalidation time-out|pte read|pte write|already set|ite|iqe",
        ],
        Subject::IommuFault,
        "the IOMMU blocked an access (Intel)",
        "A device accessed an address that is not mapped for it.",
    ),
    row(
        &["io_page_fault|invalid_device_request|illegal_dev_table|dev_tab_hardware|\
             page_tab_hardware|iotlb_inv_timeout|invalid_ppr|illegal_command_error|\
             rmp_page_fault"],
        Subject::IommuFault,
        "the IOMMU blocked an access (AMD)",
        "A device accessed an address that is not mapped for it, or in a way that the IOMMU refuses.",
    ),
    row(
        &["amd-vi", "fault|timed out|event logged|error"],
        Subject::IommuFault,
        "the IOMMU blocked an access (AMD)",
        "A device accessed an address that is not mapped for it.",
    ),
    row(
        &["arm-smmu|smmu", "fault|event 0x|f_translation|c_bad|error"],
        Subject::IommuFault,
        "the IOMMU blocked an access (Arm)",
        "A device accessed an address that is not mapped for it.",
    ),
];

/// Other failures that a driver reports.
pub(super) const REST: &[Phrase] = &[row(
    &[
        "mlx5_core|mlx4_core|mlx5_ib|mlx4_ib|mlx4_en|bnxt_re|bnxt_en|irdma|efa 0000|\
             infiniband mlx|infiniband efa|infiniband rocep|infiniband bnxt",
        "fail|err|error|couldn't|cannot",
    ],
    Subject::Command,
    "the driver reports that an operation on the NIC failed",
    "The NIC or its firmware refused a request of the driver; the lines around it have the reason.",
)];

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
