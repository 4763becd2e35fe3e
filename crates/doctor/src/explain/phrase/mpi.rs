//! Lines of MPI libraries.

use super::{FAILED, Phrase, row};
use crate::explain::ErrorClass;
use crate::explain::errno::EPERM;

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["process_vm_readv|process_vm_writev", "no such process"],
        ErrorClass::Other,
        "a process on this host ended while its memory was read",
        "Look for that process's first error.",
    ),
    row(
        &["read -1|write -1|process_vm_readv|process_vm_writev|cma_ep|cma support", "expected|fail|errno|error"],
        ErrorClass::Restricted,
        "processes of one host may not read each other's memory",
        "This user or container may not use CMA (process_vm_readv). MPI copies through shared memory \
         instead, which is slower; `--cap-add SYS_PTRACE` allows it.",
    )
    .only_with(&[EPERM]),
    row(
        &["retry count|retry exceeded", "exceeded|infiniband", "mpi|infiniband|openib|qp|ib "],
        ErrorClass::RetryExceeded,
        "a peer did not answer (retries exceeded)",
        "The peer did not acknowledge packets after all retries: packets or acknowledgements are lost \
         on the path, or the peer's process ended.",
    ),
    row(
        &["mpi_thread_multiple|thread_multiple", "not support|doesn't support|unsupported|not available"],
        ErrorClass::Other,
        "a library of MPI does not support several threads",
        "The program requests MPI_THREAD_MULTIPLE, but the library was built without it (UCX: --enable-mt).",
    ),
    row(
        &["coll_ucc|coll_hcoll|mca_coll_", FAILED],
        ErrorClass::Other,
        "Open MPI cannot use a library for collectives",
        "It uses its own collectives instead (`--mca coll ^ucc,hcoll` hides the line).",
    )
    .unless("device|ibv_|timed out|timeout"),
    row(
        &["unable to find any relevant network interfaces|non-excluded one openfabrics device"],
        ErrorClass::NoDevice,
        "MPI found no usable RDMA device",
        "There is no device, or none with an active port.",
    ),
    row(
        &["no-nics|no active ports|no nics|no active hca|no hca|hcas found"],
        ErrorClass::NoDevice,
        "MPI found no usable RDMA device",
        "There is no device, or none with an active port.",
    ),
    row(
        &[
            "openfabrics|openib|btl-openib|btl_openib|device that open mpi",
            "initializing|not selected|no openfabrics|not used by default|\
             error in device init|connection schemes|no cpcs|error initializing|no preset|\
             no device params|by default, for open mpi|failed to initialize|connection schemes|no available|\
             not be used|disabled|proc_create",
        ],
        ErrorClass::Fallback,
        "Open MPI's old openib component does not start",
        "Open MPI uses UCX today (`--mca pml ucx --mca btl ^openib`).",
    ),
    row(
        &["ib port not selected|no cpcs for port|not used by default|by default, for open mpi"],
        ErrorClass::Fallback,
        "Open MPI's old openib component does not start",
        "Open MPI uses UCX today (`--mca pml ucx --mca btl ^openib`).",
    ),
    row(
        &["requested component was not found|no components were able|find-available|\
             was unable to be opened|component_find|mca_base_component|unable to open mca_"],
        ErrorClass::Fallback,
        "Open MPI does not have a component that was requested",
        "It was built without it, or a library that the component needs is missing; `ompi_info` \
         lists the components.",
    ),
    row(
        &[
            "pmix error|opal error|orte_error",
            "unreachable|timed out|timeout|temporarily unavailable",
        ],
        ErrorClass::NoAnswer,
        "a process of MPI does not answer its launcher",
        "The launcher's daemon on this or another host ended, is overloaded, or is not reached over TCP.",
    ),
    row(
        &["ofi libfabric library call|ofi call fail"],
        ErrorClass::Creation,
        "libfabric could not create its objects",
        "The provider or the kernel refused a domain, an endpoint, a completion queue or an address \
         vector; the lines after it have the error.",
    ),
    row(
        &["error polling|poll_cq|poll cq|polling cq|handle_cq_error", "cq", "fail|error"],
        ErrorClass::Other,
        "the completion queue could not be read",
        "The device or its driver failed, or the queue was destroyed; lines before it have the reason.",
    ),
    row(
        &["rdma cm returned|unable to reach|unreachable|can't reach|cannot reach", "mpi|btl|pml"],
        ErrorClass::NoAnswer,
        "MPI processes cannot reach each other",
        "No transport or network connects the two hosts.",
    ),
    row(
        &["orte|prte|btl_tcp|btl:tcp|oob_tcp|plm", "connection|connect|recv|tcp", FAILED],
        ErrorClass::OutOfBand,
        "a TCP connection of Open MPI failed",
        "Open MPI's processes exchange addresses over TCP; `--mca btl_tcp_if_include` and \
         `oob_tcp_if_include` select the network.",
    ),
];
