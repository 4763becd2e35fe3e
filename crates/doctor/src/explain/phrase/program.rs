//! What programs print.

use super::{Phrase, row};
use crate::explain::Subject;

pub(super) const TABLE: &[Phrase] = &[
    // NCCL and other users of verbs.
    row(
        &["ibv_modify_qp", "110"],
        Subject::NoAnswer,
        "a queue pair could not be connected: timed out (110)",
        "The card looked for the path to the peer's address (ARP, or the subnet manager's answer) \
         and got none.",
    ),
    row(
        &["ibv_modify_qp", "timed out"],
        Subject::NoAnswer,
        "a queue pair could not be connected: timed out",
        "The card looked for the path to the peer's address (ARP, or the subnet manager's answer) \
         and got none.",
    ),
    row(
        &["modify qp to rtr", "timed out"],
        Subject::NoAnswer,
        "a queue pair could not be connected: timed out",
        "The card looked for the path to the peer's address (ARP, or the subnet manager's answer) \
         and got none.",
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
        "The address that was chosen belongs to no net device here: an entry of another network \
         namespace, or an empty one.",
    ),
    row(
        &["ibv_modify_qp", "invalid argument"],
        Subject::WrongGid,
        "a queue pair could not be connected: invalid argument",
        "An attribute does not fit the port: the GID's index, the packet size, or the peer's kind \
         of address.",
    ),
    row(
        &["ibv_modify_qp"],
        Subject::NoAnswer,
        "a queue pair could not be connected",
        "The card could not find the path to the peer's address.",
    ),
    row(
        &["modify qp"],
        Subject::NoAnswer,
        "a queue pair could not be connected",
        "The card could not find the path to the peer's address.",
    ),
    row(
        &["ibv_reg_mr", "fail"],
        Subject::Registration,
        "memory could not be registered",
        "The kernel refused to pin the memory, or the card to take it.",
    ),
    row(
        &["ibv_reg_dmabuf_mr"],
        Subject::GpuRegistration,
        "GPU memory could not be registered by DMA-BUF",
        "The kernel, the card's driver or the GPU's driver cannot give GPU memory to the card.",
    ),
    row(
        &["couldn't allocate mr"],
        Subject::Registration,
        "memory could not be registered",
        "The kernel refused to pin the memory, or the card to take it.",
    ),
    row(
        &["reg_mr", "cannot allocate memory"],
        Subject::Registration,
        "memory could not be registered",
        "The kernel refused to pin the memory, or the card to take it.",
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
        "The limit on locked memory is too low for it.",
    ),
    row(
        &["ibv_create_qp", "fail"],
        Subject::Creation,
        "a queue pair could not be made",
        "The card or a limit refuses another one, or one of this size.",
    ),
    row(
        &["ibv_create_cq", "fail"],
        Subject::Creation,
        "a completion queue could not be made",
        "Its memory could not be pinned, or the card refuses another one.",
    ),
    row(
        &["couldn't create qp"],
        Subject::Creation,
        "a queue pair could not be made",
        "The card or a limit refuses another one, or one of this size.",
    ),
    row(
        &["couldn't create cq"],
        Subject::Creation,
        "a completion queue could not be made",
        "Its memory could not be pinned, or the card refuses another one.",
    ),
    row(
        &["net/ib", "no device found"],
        Subject::NoDevice,
        "NCCL found no RDMA device",
        "No device with an active port could be opened, so NCCL will go over TCP.",
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
        "libibverbs is not there",
        "The library by which programs use RDMA is not installed, or not found.",
    ),
    row(
        &["failed to open libibverbs"],
        Subject::NoLibrary,
        "libibverbs is not there",
        "The library by which programs use RDMA is not installed, or not found.",
    ),
    row(
        &["rdma is off"],
        Subject::NoDevice,
        "Wirelane found no RDMA to use",
        "It goes over shared memory or TCP instead; the line says why.",
    ),
    row(
        &["rdma: off"],
        Subject::NoDevice,
        "Wirelane found no RDMA to use",
        "It goes over shared memory or TCP instead; the line says why.",
    ),
    row(
        &["using network socket"],
        Subject::Fallback,
        "NCCL goes over TCP",
        "It found no RDMA device that it can use, or was told not to.",
    ),
    row(
        &["net/socket", "using"],
        Subject::Fallback,
        "NCCL goes over TCP",
        "It found no RDMA device that it can use, or was told not to.",
    ),
    row(
        &["via net/socket"],
        Subject::Fallback,
        "NCCL goes over TCP",
        "It found no RDMA device that it can use, or was told not to.",
    ),
    row(
        &["gpu direct rdma disabled"],
        Subject::NoGpuDirect,
        "NCCL does not use GPUDirect",
        "GPU memory is copied through the host's memory first.",
    ),
    row(
        &["async", "port error"],
        Subject::PortDown,
        "a port went down",
        "The link was lost while the program ran.",
    ),
    row(
        &["got async event", "fatal"],
        Subject::CardHealth,
        "the card failed",
        "The driver told the program that its device is gone.",
    ),
    row(
        &["async fatal event", "local catastrophic error"],
        Subject::DeviceFatal,
        "the card failed: it is dead until it is reset",
        "The driver told the program that its device is gone; nothing on it works from now on.",
    ),
    row(
        &["ibv_event_device_fatal"],
        Subject::DeviceFatal,
        "the card failed: it is dead until it is reset",
        "The driver told the program that its device is gone; nothing on it works from now on.",
    ),
    row(
        &["async fatal event"],
        Subject::Flushed,
        "a queue pair failed",
        "The card told the program that a queue pair is in error; the first error stands \
         elsewhere.",
    ),
    // perftest.
    row(
        &["unable to init the socket connection"],
        Subject::OutOfBand,
        "perftest could not reach its peer over TCP",
        "Before RDMA the two ends exchange addresses over TCP, port 18515 unless told otherwise.",
    ),
    row(
        &["couldn't connect to", ":18515"],
        Subject::OutOfBand,
        "perftest could not reach its peer over TCP",
        "Before RDMA the two ends exchange addresses over TCP, port 18515 unless told otherwise.",
    ),
    row(
        &["conflicting cpu frequency"],
        Subject::Frequency,
        "CPUs change their speed",
        "Times are measured in cycles, and cycles change their length: latencies printed are not \
         to be trusted.",
    ),
    row(
        &["couldn't get device attributes"],
        Subject::NoDevice,
        "the device cannot be asked",
        "It was listed, and this process may not open it or its driver does not answer.",
    ),
    // UCX and Open MPI.
    row(
        &["no usable transports"],
        Subject::NoDevice,
        "UCX found no transport",
        "None of the devices and transports that it was told to use is here.",
    ),
    row(
        &["network device", "is not available"],
        Subject::NoDevice,
        "UCX was told of a device that is not here",
        "UCX_NET_DEVICES names one, with its port, that this process does not have.",
    ),
    row(
        &["ucx", "error no ", " transport to"],
        Subject::NoDevice,
        "no transport between the two ends",
        "Nothing that both ends have connects them: one has no RDMA device that it can use, or \
         UCX_TLS and UCX_NET_DEVICES rule it out at one end.",
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
        "Open MPI's old openib part does not start",
        "It is not what carries data today; UCX is (`--mca pml ucx --mca btl ^openib`).",
    ),
    // libfabric.
    row(
        &["provider efa output empty list"],
        Subject::NoDevice,
        "libfabric's EFA provider found nothing",
        "No EFA device is here, or none with what was asked for.",
    ),
    row(
        &["fi_getinfo", "no data available"],
        Subject::NoDevice,
        "libfabric found no provider",
        "Nothing here has what was asked for.",
    ),
    row(
        &["unresponsive receiver"],
        Subject::EfaPeer,
        "the peer does not answer",
        "The peer's process, or the path to it, is gone.",
    ),
    row(
        &["completion with error at"],
        Subject::Other,
        "an operation failed",
        "Its status stands in the next line.",
    ),
    // Wirelane's own.
    row(
        &["the peer or the path to it is gone"],
        Subject::RetryExceeded,
        "a lane of Wirelane lost its peer",
        "The peer did not answer, however often it was asked; the link makes another lane where it can.",
    ),
    row(
        &["the device refused local memory or failed"],
        Subject::LocalProtection,
        "a lane of Wirelane failed at this end",
        "The card could not read or write memory at this end, or failed itself.",
    ),
    row(
        &["the peer posted no receive in time"],
        Subject::NotReady,
        "a lane of Wirelane found its peer not ready",
        "The peer had no receive posted until this end gave up.",
    ),
];
