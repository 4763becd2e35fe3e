//! Lines of programs.

use super::{Phrase, row};
use crate::explain::Subject;

pub(super) const TABLE: &[Phrase] = &[
    // NCCL and other programs that use verbs.
    row(
        &["ibv_modify_qp", "110"],
        Subject::NoAnswer,
        "a queue pair could not be connected: timed out (110)",
        "Resolving the peer's address (ARP, or a query to the subnet manager) got no answer.",
    ),
    row(
        &["ibv_modify_qp", "timed out"],
        Subject::NoAnswer,
        "a queue pair could not be connected: timed out",
        "Resolving the peer's address (ARP, or a query to the subnet manager) got no answer.",
    ),
    row(
        &["modify qp to rtr", "timed out"],
        Subject::NoAnswer,
        "a queue pair could not be connected: timed out",
        "Resolving the peer's address (ARP, or a query to the subnet manager) got no answer.",
    ),
    row(
        &["ibv_modify_qp", "unreachable"],
        Subject::NoAnswer,
        "a queue pair could not be connected: unreachable",
        "There is no route from this port's address to the peer's.",
    ),
    row(
        &["ibv_modify_qp", "no such device"],
        Subject::WrongGid,
        "a queue pair could not be connected: no such device",
        "The chosen GID belongs to no net device here: it is empty, or of another network \
         namespace.",
    ),
    row(
        &["ibv_modify_qp", "invalid argument"],
        Subject::WrongGid,
        "a queue pair could not be connected: invalid argument",
        "An attribute is not valid for the port: the GID index, the MTU, or the type of the peer's \
         address.",
    ),
    row(
        &["ibv_modify_qp"],
        Subject::NoAnswer,
        "a queue pair could not be connected",
        "The peer's address could not be resolved.",
    ),
    row(
        &["modify qp"],
        Subject::NoAnswer,
        "a queue pair could not be connected",
        "The peer's address could not be resolved.",
    ),
    row(
        &["ibv_reg_mr", "fail"],
        Subject::Registration,
        "memory could not be registered",
        "The kernel refused to pin the memory, or the NIC refused to register it.",
    ),
    row(
        &["ibv_reg_dmabuf_mr"],
        Subject::GpuRegistration,
        "GPU memory could not be registered with DMA-BUF",
        "The kernel, the NIC's driver or the GPU driver does not support DMA-BUF for GPU memory.",
    ),
    row(
        &["couldn't allocate mr"],
        Subject::Registration,
        "memory could not be registered",
        "The kernel refused to pin the memory, or the NIC refused to register it.",
    ),
    row(
        &["reg_mr", "cannot allocate memory"],
        Subject::Registration,
        "memory could not be registered",
        "The kernel refused to pin the memory, or the NIC refused to register it.",
    ),
    row(
        &["cannot lock memory"],
        Subject::Registration,
        "memory could not be locked",
        "The limit on locked memory is too low.",
    ),
    row(
        &["raise memlock"],
        Subject::Registration,
        "memory could not be registered",
        "The limit on locked memory is too low.",
    ),
    row(
        &["ibv_create_qp", "fail"],
        Subject::Creation,
        "a queue pair could not be created",
        "A limit of the NIC or of the cgroup is reached, or the requested size is too large.",
    ),
    row(
        &["ibv_create_cq", "fail"],
        Subject::Creation,
        "a completion queue could not be created",
        "Its memory could not be pinned, or a limit of the NIC is reached.",
    ),
    row(
        &["couldn't create qp"],
        Subject::Creation,
        "a queue pair could not be created",
        "A limit of the NIC or of the cgroup is reached, or the requested size is too large.",
    ),
    row(
        &["couldn't create cq"],
        Subject::Creation,
        "a completion queue could not be created",
        "Its memory could not be pinned, or a limit of the NIC is reached.",
    ),
    row(
        &["net/ib", "no device found"],
        Subject::NoDevice,
        "NCCL found no RDMA device",
        "No device with an active port could be opened, so that NCCL uses TCP.",
    ),
    row(
        &["no ib devices found"],
        Subject::NoDevice,
        "no RDMA device was found",
        "libibverbs lists no device that this process can open.",
    ),
    row(
        &["unable to find the ib/roce device"],
        Subject::NoDevice,
        "perftest found no such RDMA device",
        "libibverbs lists no device of that name that this process can open.",
    ),
    row(
        &["unable to find the infiniband/roce device"],
        Subject::NoDevice,
        "perftest found no such RDMA device",
        "libibverbs lists no device of that name that this process can open.",
    ),
    row(
        &["libibverbs.so", "cannot open"],
        Subject::NoLibrary,
        "libibverbs is missing",
        "The library that programs use for RDMA is not installed, or not found.",
    ),
    row(
        &["failed to open libibverbs"],
        Subject::NoLibrary,
        "libibverbs is missing",
        "The library that programs use for RDMA is not installed, or not found.",
    ),
    row(
        &["rdma is off"],
        Subject::NoDevice,
        "Wirelane does not use RDMA",
        "It uses shared memory or TCP instead; the line has the reason.",
    ),
    row(
        &["rdma: off"],
        Subject::NoDevice,
        "Wirelane does not use RDMA",
        "It uses shared memory or TCP instead; the line has the reason.",
    ),
    row(
        &["using network socket"],
        Subject::Fallback,
        "NCCL uses TCP",
        "It found no usable RDMA device, or RDMA is disabled in its settings.",
    ),
    row(
        &["net/socket", "using"],
        Subject::Fallback,
        "NCCL uses TCP",
        "It found no usable RDMA device, or RDMA is disabled in its settings.",
    ),
    row(
        &["via net/socket"],
        Subject::Fallback,
        "NCCL uses TCP",
        "It found no usable RDMA device, or RDMA is disabled in its settings.",
    ),
    row(
        &["gpu direct rdma disabled"],
        Subject::NoGpuDirect,
        "NCCL does not use GPUDirect",
        "GPU memory is copied through host memory first.",
    ),
    row(
        &["async", "port error"],
        Subject::PortDown,
        "a port went down",
        "The link was lost while the program ran.",
    ),
    row(
        &["got async event", "fatal"],
        Subject::NicHealth,
        "the NIC failed",
        "The driver reported a fatal error of the device to the program.",
    ),
    row(
        &["async fatal event", "local catastrophic error"],
        Subject::DeviceFatal,
        "the NIC failed: it must be reset",
        "The driver reported a fatal error of the device to the program; all operations on it fail \
         from now on.",
    ),
    row(
        &["ibv_event_device_fatal"],
        Subject::DeviceFatal,
        "the NIC failed: it must be reset",
        "The driver reported a fatal error of the device to the program; all operations on it fail \
         from now on.",
    ),
    row(
        &["async fatal event"],
        Subject::Flushed,
        "a queue pair failed",
        "The NIC reported a queue pair in the error state to the program; look for the first error \
         in other lines.",
    ),
    // perftest.
    row(
        &["unable to init the socket connection"],
        Subject::OutOfBand,
        "perftest could not reach its peer over TCP",
        "Before RDMA both ends exchange addresses over TCP, port 18515 by default.",
    ),
    row(
        &["couldn't connect to", ":18515"],
        Subject::OutOfBand,
        "perftest could not reach its peer over TCP",
        "Before RDMA both ends exchange addresses over TCP, port 18515 by default.",
    ),
    row(
        &["conflicting cpu frequency"],
        Subject::Frequency,
        "CPUs change their frequency",
        "perftest measures time in CPU cycles, whose length changes: printed latencies are not \
         reliable.",
    ),
    row(
        &["couldn't get device attributes"],
        Subject::NoDevice,
        "the device cannot be queried",
        "It was listed, but this process may not open it, or its driver does not answer.",
    ),
    // UCX and Open MPI.
    row(
        &["no usable transports"],
        Subject::NoDevice,
        "UCX found no transport",
        "None of the devices and transports in its settings is available.",
    ),
    row(
        &["network device", "is not available"],
        Subject::NoDevice,
        "UCX is configured with a device that is not available",
        "UCX_NET_DEVICES names a device and port that this process does not have.",
    ),
    row(
        &["ucx", "error no ", " transport to"],
        Subject::NoDevice,
        "no common transport between the two ends",
        "One end has no usable RDMA device, or UCX_TLS and UCX_NET_DEVICES exclude it at one end.",
    ),
    row(
        &["ucx", "destination is unreachable"],
        Subject::NoAnswer,
        "UCX cannot reach the peer",
        "No transport connects the two ends.",
    ),
    row(
        &["no openfabrics", "initializing"],
        Subject::Fallback,
        "Open MPI's old openib component does not start",
        "Open MPI uses UCX today (`--mca pml ucx --mca btl ^openib`).",
    ),
    // libfabric.
    row(
        &["provider efa output empty list"],
        Subject::NoDevice,
        "libfabric's EFA provider found no device",
        "There is no EFA device, or none with the requested capabilities.",
    ),
    row(
        &["fi_getinfo", "no data available"],
        Subject::NoDevice,
        "libfabric found no provider",
        "No provider has the requested capabilities.",
    ),
    row(
        &["unresponsive receiver"],
        Subject::EfaPeer,
        "the peer does not answer",
        "The peer's process ended, or the path to it is down.",
    ),
    row(
        &["completion with error at"],
        Subject::Other,
        "an operation failed",
        "The next line has its status.",
    ),
    // Wirelane's own.
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
];
