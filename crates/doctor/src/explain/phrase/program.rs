//! Lines of Wirelane, perftest, transfer engines and DPDK, whose words mean something else elsewhere.

use super::{Phrase, RDMA, row};
use crate::explain::Subject;

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["the peer or the path to it is gone"],
        Subject::RetryExceeded,
        "a lane of Wirelane lost its peer",
        "The peer did not acknowledge packets after all retries; the link opens another lane if possible.",
    ),
    row(
        &["the device refused local memory or failed"],
        Subject::LocalProtection,
        "a lane of Wirelane failed at this end",
        "The NIC could not access local memory, or failed itself.",
    ),
    row(
        &["the peer posted no receive in time"],
        Subject::NotReady,
        "a lane of Wirelane found its peer not ready",
        "The peer had no receive posted, until the retries were exhausted.",
    ),
    row(
        &["conflicting cpu frequency|cpu frequency is not max"],
        Subject::Frequency,
        "CPUs change their frequency",
        "perftest measures time in CPU cycles, whose length changes: printed latencies are not \
         reliable.",
    ),
    row(
        &["completion with error at"],
        Subject::Other,
        "an operation failed",
        "The next line has its status.",
    ),
    row(
        &[
            "port",
            "state is down|state: down|not active|is not in active|port_down|is down|\
             state is init",
            RDMA,
        ],
        Subject::PortDown,
        "a port is not active",
        "The cable or the link partner is disconnected, or no subnet manager has configured the port.",
    ),
    row(
        &[
            "port number|ib port|port state|phys state|physical state",
            "down|not active|polling|disabled|init",
        ],
        Subject::PortDown,
        "a port is not active",
        "The cable or the link partner is disconnected, or no subnet manager has configured the port.",
    ),
    row(
        &["bond", "link status definitely down|link status down|interface down"],
        Subject::PortDown,
        "a link went down",
        "The cable or the link partner is disconnected.",
    ),
    row(
        &["sm port is down|lost carrier|no carrier"],
        Subject::PortDown,
        "a link went down",
        "The cable or the link partner is disconnected.",
    ),
    row(
        &["mlx|rte_|pmd", "flow", "fail|refuse|cannot|unable|error"],
        Subject::Other,
        "the NIC refused a flow rule",
        "The NIC, its firmware or its mode (virtual function, switchdev) does not support the rule; \
         this is about Ethernet packets, not about RDMA.",
    ),
    row(
        &[
            "mlx5_net|mlx4_net|net_mlx5|net_mlx4|mlx5_common|mlx5_pci|mlx5_eth|mlx5_vdpa",
            "cannot list|no verbs device|verbs device not found|no ib device|not found|\
             no suitable",
        ],
        Subject::NoDevice,
        "DPDK's driver finds no RDMA device for the PCI function",
        "It works through the kernel's driver: mlx5_ib and ib_uverbs must be loaded, and the function \
         must not be bound to vfio.",
    ),
    row(
        &[
            "mlx5_net|mlx4_net|net_mlx5|net_mlx4|mlx5_common|mlx5_pci|mlx5_eth",
            "fail|abort|error|cannot|unable",
        ],
        Subject::Creation,
        "DPDK's driver could not set up the device",
        "The kernel's driver or rdma-core refused an object: mostly their versions, or the rights of \
         this process, do not fit.",
    ),
];

/// Lines that report only that something failed.
pub(super) const RESULTS: &[Phrase] = &[
    row(
        &["transfer engine return error|failed to complete run_iter|run_iter|nixl_err_|\
             kvtransfererror|kv transfer failed|transfer engine"],
        Subject::Other,
        "a program reports that a transfer failed",
        "The line has no reason of its own: look for the first error before it, at both ends.",
    ),
    row(
        &["dump error cqe|dump_cqe|dump cqe"],
        Subject::Other,
        "the driver prints a completion that failed",
        "The program that posted the request prints its status.",
    ),
    row(
        &[
            RDMA,
            "fatal error|returned error|return error|internal error|unknown error|aborting|\
             abort",
        ],
        Subject::Other,
        "a program stops after an error",
        "The line has no reason of its own: look for the first error before it, at both ends.",
    ),
];
