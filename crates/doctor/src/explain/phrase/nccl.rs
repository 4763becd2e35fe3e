//! Lines of NCCL, RCCL and PyTorch's process groups.

use super::{FAILED, Phrase, row};
use crate::explain::ErrorClass;
use crate::explain::errno::{
    EADDRINUSE, ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ENETUNREACH, EPIPE, ETIMEDOUT,
};

const NO_ROUTE: &str = "No answer: the address is of a network that this host does not reach, or a firewall drops packets.";

pub(super) const TABLE: &[Phrase] = &[
    row(
        &[
            "net/plugin|libnccl-net|ncclnetplugin|libnccl-ofi",
            "no plugin|not find|cannot open|no such file|not found|could not|fail|unable|\
             returned",
        ],
        ErrorClass::Fallback,
        "NCCL found no network plugin",
        "Harmless with InfiniBand and RoCE, which NCCL supports itself. On EFA and other fabrics \
         that need a plugin, NCCL uses TCP without it.",
    ),
    row(
        &[
            "nccl|net/ofi",
            "failed to initialize net|net plugin|aws-ofi-nccl initialization|\
             ofi initialization|ofi plugin",
            FAILED,
        ],
        ErrorClass::Fallback,
        "NCCL could not start a network",
        "The lines before have the reason; NCCL tries its other networks, TCP last.",
    ),
    row(
        &["using network socket|via net/socket"],
        ErrorClass::Fallback,
        "NCCL uses TCP",
        "It found no usable RDMA device, or RDMA is disabled in its settings.",
    ),
    row(
        &["net/socket", "using"],
        ErrorClass::Fallback,
        "NCCL uses TCP",
        "It found no usable RDMA device, or RDMA is disabled in its settings.",
    ),
    row(
        &[
            "net/ib|net/ofi",
            "no device found|no devices found|returned 0 devices|no eligible|no supported|optimal provider|\
             no provider",
        ],
        ErrorClass::NoDevice,
        "NCCL found no RDMA device",
        "No device with an active port could be opened, so that NCCL uses TCP.",
    ),
    row(
        &["nccl", "error : network|error: network|network", "not found"],
        ErrorClass::NoDevice,
        "NCCL does not have the network that its settings name",
        "NCCL_NET names a network whose plugin is not loaded, or that has no device here.",
    ),
    row(
        &["net/ib", "gid|ncclibroce", FAILED],
        ErrorClass::WrongGid,
        "NCCL could not read or choose a GID",
        "The GID index is not valid on this port, or the entry is empty.",
    ),
    row(
        &["gpu direct rdma|gdr|gpudirect", "disabled|not enabled|not supported"],
        ErrorClass::NoGpuDirect,
        "GPUDirect is not used",
        "GPU memory is copied through host memory first.",
    ),
    row(
        &[
            "nccl|rccl",
            "cuda failure|cuda error|hip failure|hip error|cuda call|nvls|nvml|cuda driver",
            "fail|error|mismatch|invalid",
        ],
        ErrorClass::Gpu,
        "a call to CUDA failed",
        "The GPU or its driver refused a call; this is not about the network. The line has CUDA's reason.",
    ),
    row(
        &[
            "nccl|rccl",
            "duplicate gpu|multiple ranks using the same|mnnvl|imex|peer access|peer with device|nvlink|\
             cuda malloc|cuda host alloc|cuda device|cuda driver|cuda toolkit|gpu rank|cuda graph",
            "fail|error|duplicate|unable|could not|not |minimum|mismatch",
        ],
        ErrorClass::Gpu,
        "NCCL cannot use a GPU as configured",
        "This is about GPUs and the links between them, not about the network; the line has the reason.",
    )
    .unless("nccl info|net/ib|net/ofi"),
    row(
        &["unhandled cuda error|ncclunhandledcudaerror|unhandledcudaerror"],
        ErrorClass::Gpu,
        "a call to CUDA failed",
        "The GPU or its driver refused a call; the first NCCL WARN line has CUDA's reason.",
    ),
    row(
        &["no socket interface|no usable interface|no interface found"],
        ErrorClass::OutOfBand,
        "NCCL found no network for its start-up connection",
        "Before RDMA all ranks exchange addresses over TCP. NCCL_SOCKET_IFNAME names no interface of \
         this host, or there is none with an address.",
    ),
    row(
        &["nccl|rccl", "socket interface|bootstrap|bootstrap.cc", FAILED],
        ErrorClass::OutOfBand,
        "NCCL's start-up connection failed",
        "Before RDMA all ranks exchange addresses over TCP. The line has the reason; \
         NCCL_SOCKET_IFNAME selects the network.",
    ),
    row(
        &[
            "socketpollconnect|socketstartconnect|socketconnect|connect to|call to connect",
            "nccl|misc/socket|include/socket|socketpollconnect|socketstartconnect",
            "no route|unreachable|timed out|timeout",
        ],
        ErrorClass::NoAnswer,
        "a peer's TCP address does not answer",
        NO_ROUTE,
    ),
    row(
        &[
            "nccl|rccl|socket.cc|socket.h|include/socket|ncclsocket|socketprogress|socketpollconnect|\
             socketstartconnect|socketfinalize|sockettryaccept",
            "connection closed by remote peer|connection reset|broken pipe|\
             connection refused|connection abort|socketprogress|socketfinalize|socketaccept|\
             socketrecv|socketsend|socketconnect|socketpollconnect|socketstartconnect|\
             socket creation failed|call to connect|call to recv|call to send|call to accept|\
             call to bind|call to listen|call to socket|call to poll|call to getsockopt|\
             net : call to|net : connect|wrong magic|wrong type|bad magic|with family|connecting to|\
             sockettryaccept|already checked in|mismatch in|socket init|no ip interface|\
             listening interface|comm_id",
        ],
        ErrorClass::OutOfBand,
        "a TCP connection between ranks failed",
        "NCCL's ranks exchange addresses over TCP. Usually the other rank ended first: look for its \
         first error.",
    )
    .unless("set by environment|connecting to socket"),
    row(
        &[
            "nccl|proxy.cc|rccl",
            "proxy service|service thread|proxy call|proxy connect|could not receive type|\
             ncclproxy|proxyconnect",
            FAILED,
        ],
        ErrorClass::OutOfBand,
        "NCCL's proxy thread failed an operation",
        "The proxy thread opens connections for the ranks; it failed, or lost its TCP connection to \
         another rank. The WARN lines before have the reason.",
    ),
    row(
        &[
            "nccl warn|rccl warn",
            "xml|topo|topology|graph|algorithm|ring |rings|tree |config|communicator|comm |ncclcomm|group|\
             collective|symmetric|window|reduction|redop|rank |signal|could not find net|no path computed|\
             ncclredop|datatype|uniqueid|argument|environment variable|numa|cpu",
        ],
        ErrorClass::Other,
        "NCCL reports a failure of its own",
        "Ranks, settings or the detected topology do not fit together; this is not about the network. Look \
         at the WARN lines of all ranks.",
    )
    .unless(
        "net/|ibv_|ib_|net_|socket|bootstrap|connect|plugin|regist|dlopen|.so|library|device|nic|peer|\
         cuda|gpu|proxy|timed out|timeout|shared memory|register|remote|collnet|transport",
    ),
    row(
        &["nccl", "message truncated"],
        ErrorClass::LocalUse,
        "ranks disagree on the size of a message",
        "One rank receives less than another sends: the ranks call different collectives, or with \
         different counts.",
    ),
    row(
        &["socket.cpp|c10d|tcpstore|gloo|distnetworkerror|diststoreerror|socketimpl|rendezvous"],
        ErrorClass::OutOfBand,
        "a TCP connection between ranks failed",
        "PyTorch's ranks find each other over TCP (MASTER_ADDR, MASTER_PORT). Usually the other \
         rank ended first, or is not started.",
    )
    .only_with(&[ECONNRESET, ECONNREFUSED, EPIPE, ECONNABORTED, EADDRINUSE]),
    row(
        &[
            "socket.cpp|c10d|tcpstore|gloo|distnetworkerror|diststoreerror|rendezvous|original timeout was",
            "no route|unreachable|timed out|timeout",
        ],
        ErrorClass::NoAnswer,
        "a peer's TCP address does not answer",
        NO_ROUTE,
    ),
    row(
        &["socket.cpp|c10d|tcpstore|gloo|distnetworkerror|diststoreerror|socketimpl|\
             rendezvous"],
        ErrorClass::NoAnswer,
        "a peer's TCP address does not answer",
        NO_ROUTE,
    )
    .only_with(&[EHOSTUNREACH, ENETUNREACH, ETIMEDOUT]),
    row(
        &[
            "socket.cpp|c10d|tcpstore|gloo|distnetworkerror|diststoreerror|socketimpl|\
             rendezvous",
            "connection reset|connection closed|broken pipe|refused|failed to recv|\
             failed to connect|failed to bind|failed to listen|already in use|sendbytes|\
             recvbytes|recvvalue|read callback failed|end of file|unable to resolve|unable to find|\
             cannot be retrieved|\
             gai error|name or service|read error|write error|abort",
        ],
        ErrorClass::OutOfBand,
        "a TCP connection between ranks failed",
        "PyTorch's ranks find each other over TCP (MASTER_ADDR, MASTER_PORT). Usually the other \
         rank ended first, or is not started.",
    ),
    row(
        &["communicator encountered a fatal error|unhandled system error|ncclsystemerror|\
             ncclremoteerror|ncclinternalerror|test nccl failure|\
             internal error - please report|remote process exited|internal check failed|\
             ncclinvalidusage"],
        ErrorClass::Other,
        "NCCL reports an earlier error",
        "The line has no reason of its own: look for the first NCCL WARN line on every rank, with \
         NCCL_DEBUG=WARN or INFO.",
    )
    .unless("net/ofi|net/ib"),
    row(
        &["internal assert failed"],
        ErrorClass::Other,
        "a program stopped at an assertion",
        "A check within the program failed: mostly an error of the program, or a consequence of an \
         earlier one.",
    ),
    row(
        &[
            "watchdog caught|detected by watchdog|processgroupnccl|worknccl|\
             collective operation timeout|nccl watchdog|\
             nccl operations have failed or timed out|collective timeout|heartbeat monitor",
            "timeout|timed out|detected|caught|ran for|stuck|terminat",
        ],
        ErrorClass::NoAnswer,
        "a collective did not complete in time",
        "At least one rank did not take part or its packets do not arrive: it hangs, ended, or has \
         another error. Compare the last operation of all ranks.",
    ),
];
