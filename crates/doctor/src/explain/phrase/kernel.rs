//! Lines of the kernel.

use super::{ANY_FAILED, Phrase, row};
use crate::explain::ErrorClass;
use crate::explain::scan::has_word;

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["access_reg(0x805)|0x9a6171"],
        ErrorClass::Restricted,
        "a function may not read this register (0x805)",
        "A program reads port counters of a function that belongs to another manager (syndrome \
         0x9a6171). It is harmless, but each attempt logs another line.",
    ),
    row(
        &["cgroup", "rdma", "permission denied|not permitted|read-only"],
        ErrorClass::Restricted,
        "the cgroup controller for RDMA may not be used",
        "The container runtime may not create or write its rdma cgroup.",
    ),
    row(
        &["mlx|infiniband", "cq error on|cq overrun"],
        ErrorClass::LocalUse,
        "a completion queue overflowed",
        "More completions arrived than the queue has entries; all queue pairs that use it fail.",
    ),
    row(
        &["mlx|infiniband", "error cqe|cqe error|error_cqe|dump_cqe|dump cqe"],
        ErrorClass::Other,
        "the driver prints a completion that failed",
        "The program that posted the request prints its status.",
    ),
    row(
        &["async reg mr failed|create_mkey_callback|reg_create|mlx5_ib_reg_user_mr|\
             reg_user_mr|umem_get|get umem for|get the umem|ib_umem"],
        ErrorClass::Registration,
        "the driver could not register memory",
        "The NIC's firmware or the kernel refused another memory key.",
    ),
    row(
        &["insufficient power|power on the pcie slot|pcie slot power|not enough power", "pci|slot"],
        ErrorClass::SlotPower,
        "the PCIe slot provides less power than the NIC may need",
        "The slot reports fewer watts than the NIC needs with all its ports and active cables; \
         under load the NIC may shut down transceivers, or itself.",
    ),
    row(
        &["port module event[error]|cable error|unsupported cable|bad or shorted cable|\
             unreadable eeprom|power budget exceeded"],
        ErrorClass::Cable,
        "the cable or transceiver has an error",
        "The driver prints the reason: too hot, not readable, an unsupported type, or drawing more \
         power than the port provides. The link may go down or be slower.",
    ),
    row(
        &[
            "[sff]|sff_|sfp|qsfp|osfp|transceiver|xcvrd|xcvr",
            "fail|error|invalid|unsupported|cannot|unable|not ",
        ],
        ErrorClass::Cable,
        "a cable or transceiver has an error",
        "The module is badly seated, defective, or of a kind that the NIC or switch does not support.",
    ),
    row(
        &["[linkdownedcounter|[symbolerrorcounter|[linkerrorrecoverycounter|[portrcverrors|\
             [portlocalphysicalerrors|[portrcvremotephysicalerrors|[excessivebufferoverrun|\
             [localintegrityerrors"],
        ErrorClass::Cable,
        "a port counts errors of its link",
        "A cable, a transceiver or its contact is bad if the numbers grow; old numbers may be of a reboot.",
    ),
    row(
        &["eeprom", "module|cable|mlx|sfp", "fail|error|cannot|unable"],
        ErrorClass::Cable,
        "the cable's or transceiver's memory cannot be read",
        "The module is badly seated, defective, or of a kind that the NIC does not support.",
    ),
    row(
        &["port module event|cable plugged|cable unplugged|module unplugged"],
        ErrorClass::Cable,
        "a cable or transceiver was plugged or unplugged",
        "Harmless if somebody did it, or at boot. If it repeats, the contact or the module is bad.",
    ),
    row(
        &["device's health", "compromised"],
        ErrorClass::NicHealth,
        "the NIC's firmware does not answer",
        "The driver's periodic health check of the NIC failed: all operations on it fail from now \
         on.",
    ),
    row(
        &["mlx5_core|mlx4_core", "assert"],
        ErrorClass::NicHealth,
        "the NIC's firmware failed an assertion",
        "The lines around it have the firmware's error state.",
    ),
    row(
        &[
            "mlx5_core|mlx4_core|bnxt_en|ice 0000|ixgbe 0000|i40e 0000|igb 0000|hns3|ionic|efa|irdma|bnxt_re",
            "health|firmware error|unhealthy|internal error|error state|error_state|crdump|pci slot|\
             fatal error|fw reset|firmware not responding|firmware is not responding|\
             not come back|irisc|ext_synd|hw_id|catas|internal err buf|high temperature|\
             sw_reset|error recovery|firmware fatal|pre-initializing|pre-init|tx timeout|\
             device is dead|dead",
        ],
        ErrorClass::NicHealth,
        "the driver reports an unhealthy NIC",
        "The lines around it have the firmware's error state.",
    ),
    row(
        &[
            "mlx5_core|mlx4_core|mlx5_cmd|wait_func|bnxt_en|efa",
            "no done completion|leak of a command resource|cmd[|cmd_exec|wait_func|command",
            "timeout|no done|timed out|leak",
        ],
        ErrorClass::Command,
        "the NIC's firmware did not answer a command",
        "The firmware or the PCIe link hangs, or the firmware was busy for too long.",
    ),
    row(
        &["mlx5_core|mlx4_core", "timeout|timed out"],
        ErrorClass::NicHealth,
        "the NIC's firmware did not answer",
        "The firmware or the PCIe link hangs.",
    ),
    row(
        &["efa", "failed to process command|failed to submit command|process command"],
        ErrorClass::Command,
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
        ErrorClass::Command,
        "the NIC's firmware refused a command",
        "The driver requested something that this function may not use, or that is invalid; the \
         syndrome is for the vendor's support.",
    ),
    row(
        &[
            "infiniband|ib_mad|ib_core",
            "couldn't create|couldn't open|can't create|failed to create",
        ],
        ErrorClass::Creation,
        "the kernel could not create its own queues on the device",
        "The NIC or its driver refused a queue pair or completion queue for management packets.",
    ),
];

/// Other failures that a driver reports.
pub(super) const REST: &[Phrase] = &[
    row(
        &[
            "nvidia 0000|nvidia:|nvidia-gpu|nvidia_drm|nvidia-drm|firmware/nvidia|nvidia-uvm|nvidia-modeset|\
             nvidia-nvlink|nvidia_uvm|nouveau|\
             amdgpu|nv-hostengine|dcgm",
            ANY_FAILED,
        ],
        ErrorClass::Gpu,
        "the GPU driver reports an error",
        "The GPU or its driver failed; lines with an Xid number around it have the reason.",
    ),
    row(
        &[
            "pci 0000|pcieport|pci_bus",
            "bar |failed to assign|no space for|can't assign|can't find device|failed to allocate|\
             not responding|link is down|link lost|link training",
        ],
        ErrorClass::Pcie,
        "a PCIe device could not be set up",
        "The port or slot does not see the device, or the firmware setup gives it too little address \
         space (above 4G decoding, SR-IOV).",
    ),
    row(
        &["probe of", "failed with error", "mlx|bnx|ice|i40e|ixgbe|qed|cxgb|hns|ionic|efa|irdma|hfi1|mana"],
        ErrorClass::Command,
        "the driver could not start the NIC",
        "The NIC or its firmware refused a request of the driver; the lines before it have the reason.",
    ),
    row(
        &["nvme nvme", "mr pool|queue pair|ib device|rdma|create cq|create_qp", ANY_FAILED],
        ErrorClass::Creation,
        "NVMe over RDMA could not create its queues",
        "A limit of the NIC is reached, or memory could not be registered.",
    ),
    row(
        &["nvme nvme", "starting error recovery|reconnect|connect command|connect queue|keep-alive|keep alive|nvme_keep_alive|connect failed"],
        ErrorClass::NoAnswer,
        "the target of NVMe over fabrics does not answer",
        "The connection to the target was lost or not accepted; the kernel tries again.",
    ),
    row(
        &[
            "mlx5_core|mlx4_core|mlx5_ib|mlx4_ib|mlx4_en|bnxt_re|bnxt_en|irdma|efa 0000|hns_roce|hns3|\
             qedr|qede|ionic 0000|mana 0000|erdma|ice 0000|iw_cxgb4|cxgb4|infiniband mlx|\
             infiniband efa|hfi1 0000|hfi1_|infiniband rocep|infiniband bnxt|infiniband ib|infiniband irdma",
            ANY_FAILED,
        ],
        ErrorClass::Command,
        "the driver reports that an operation on the NIC failed",
        "The NIC or its firmware refused a request of the driver; the lines around it have the reason.",
    )
    .unless("ucx|nccl|libibverbs|spdk|perftest|nvshmem|libfabric|worker|local_nic|peer_nic|nic_path"),
];

pub(super) const LINK_DOWN: Phrase = row(
    &[],
    ErrorClass::PortDown,
    "a link went down",
    "The cable or the link partner is disconnected.",
);

/// Whether the line reports `link down` and names a driver or net device.
pub(super) fn is_link_down(lower: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_down = DOWN.iter().any(|words| has_word(lower, words));
    is_down && lower.split(|letter| !is_part(letter)).any(is_nic)
}

/// Whether a word is the name of a driver or a net device.
fn is_nic(word: &str) -> bool {
    let is_numbered = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
    DRIVERS.iter().any(|driver| word.starts_with(driver))
        || NETDEVS.iter().any(|kind| word.strip_prefix(kind).is_some_and(is_numbered))
}

/// What the kernel and its bonding driver call a link that is down.
const DOWN: &[&str] = &[
    "link down",
    "link is down",
    "link is not ready",
    "link status down",
    "link status definitely down",
    "lost carrier",
    "carrier lost",
];

/// Prefixes of the names of network drivers.
const DRIVERS: &[&str] = &[
    "bnxt_", "cxgb4", "e1000", "efa", "hfi1", "hns3", "hns_roce", "i40e", "igb", "ionic", "irdma",
    "ixgbe", "mana", "mlx4_", "mlx5_", "qede", "tg3",
];

/// Prefixes of the names of net devices and RDMA devices, before a number.
const NETDEVS: &[&str] =
    &["bond", "eno", "enp", "ens", "eth", "ib", "ibp", "ibs", "ocp", "rdmap", "rocep"];
