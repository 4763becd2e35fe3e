//! Lines of what starts and runs jobs: PyTorch, Ray and serving engines, the launchers of MPI.

use super::launch::NOT_A_JOB;
use super::{ANY_FAILED, Phrase, row};
use crate::explain::ErrorClass;

pub(super) const TABLE: &[Phrase] = &[
    row(
        &[
            "distributed package doesn't have|distributed package does not have",
            "nccl|gloo|mpi|ucc|built",
        ],
        ErrorClass::NoLibrary,
        "PyTorch was built without this backend",
        "Install a build of PyTorch for the GPUs of this host, or use another backend (`gloo`).",
    ),
    row(
        &[
            "processgroupnccl is only supported with gpus|no cuda gpus are available|\
             cuda-capable devices are busy|no cuda-capable device|no gpus were found|no gpus found|no gpu found|\
             no gpu detected|no gpus detected|no gpus available|no gpu available",
        ],
        ErrorClass::Gpu,
        "a process has no GPU that it can use",
        "No GPU is visible to it (container, CUDA_VISIBLE_DEVICES, driver), or others use it alone.",
    ),
    row(
        &["duplicate gpu detected|devices used by multiple ranks"],
        ErrorClass::Gpu,
        "two ranks use the same GPU",
        "Each rank needs a GPU of its own: set the device by the local rank before NCCL starts.",
    ),
    row(
        &[
            "p2p is disabled|p2p disabled|enable p2p|peer access is not supported|gpu p2p capability|\
             p2p test failed|peer-to-peer access|peer access between|p2p access|p2p communication|\
             peer access not supported|peer gpu",
            ANY_FAILED_OR_DISABLED,
        ],
        ErrorClass::Gpu,
        "two GPUs of this host cannot reach each other's memory",
        "Copies go through the host's memory. IOMMU or ACS, GPUs below different sockets, or GPUs without \
         P2P are the reasons.",
    ),
    row(
        &[
            "store based barrier|store_based_barrier|initializing process group|initialize process group|\
             init_process_group|monitoredbarrier|monitored_barrier",
            "timed out|timeout|error|fail|reset|refused",
        ],
        ErrorClass::NoAnswer,
        "not all ranks arrived",
        "At least one rank is not started, ended, or cannot reach the first one (MASTER_ADDR, MASTER_PORT).",
    ),
    row(
        &["connectfullmesh|unable to find address for|ifa != nullptr|rp != nullptr"],
        ErrorClass::OutOfBand,
        "the ranks could not connect to each other over TCP",
        "The interface does not exist here, the name has no address, or the other process ended: see \
         GLOO_SOCKET_IFNAME, MASTER_ADDR and the first error of the other ranks.",
    ),
    row(
        &["mismatch between collectives|collectives on ranks|collective mismatch|different collectives"],
        ErrorClass::Other,
        "ranks called different collectives",
        "The program's ranks took different ways: an error of the program, not of the network.",
    ),
    row(
        &[
            "gloo|tensorpipe|c10d|torch.distributed|torch/csrc/distributed",
            "pair.cc|device.cc|eof|gai error|server socket|client socket|listen on any",
            ANY_FAILED,
        ],
        ErrorClass::OutOfBand,
        "the ranks could not connect to each other over TCP",
        "The interface does not exist here, the name has no address, or the other process ended: see \
         GLOO_SOCKET_IFNAME, MASTER_ADDR and the first error of the other ranks.",
    ),
    row(
        &["the server socket has|network addresses of|gai error|socket.gaierror|name or service not known|\
             launch distributed communication on"],
        ErrorClass::OutOfBand,
        "an address could not be used",
        "The name has no address on this host, or the port is in use by another process.",
    ),
    row(
        &[
            "runtimeerror:|connectionreseterror|connectionrefusederror|brokenpipeerror|connectionabortederror|\
             connectionerror:|oserror:",
            "connection reset|broken pipe|connection refused|connection closed|connection aborted|\
             address already in use|no route to host|network is unreachable",
        ],
        ErrorClass::OutOfBand,
        "a TCP connection of the program failed",
        "The other process ended, does not listen yet, or listens elsewhere: look at its log first.",
    )
    .unless("nccl|ibv_|rdma|ucx|http|urllib|requests."),
    row(
        &["raychanneltimeouterror|ray.exceptions.getimeouterror|ray.exceptions.gettimeouterror"],
        ErrorClass::NoAnswer,
        "a worker of Ray did not answer in time",
        "It hangs, ended, or waits in a collective: look for its own first error.",
    ),
    row(
        &[
            "actordiederror|actorunavailableerror|enginedeaderror|failed (exitcode|failed (signal|\
             engine core initialization failed|engine process failed|engine core proc|workerproc failed|\
             childfailederror|processraisedexception|processexitedexception|signalexception|\
             one or more processes failed|workers failed|worker failed with error",
        ],
        ErrorClass::Other,
        "a process of the job ended with an error",
        "The line has no reason of its own: look for the first error of that process.",
    ),
    row(
        &[
            "mpirun noticed that|mpirun detected that|primary job|prterun noticed|prterun detected|\
             bad termination of one of your|one of the processes terminated badly|\
             terminated badly; aborting|srun: error|exited on signal|exiting improperly",
            "exited on|non-zero|signal|error|abort|badly|improperly",
        ],
        ErrorClass::Other,
        "a process of the job ended with an error",
        "The line has no reason of its own: look for the first error of that process.",
    ),
    row(
        &[
            "orte was unable|prte was unable|orte has lost communication|prte has lost communication|reliably start one or more daemons|orte daemon|prte daemon|\
             orted|prted|does not know how to route|\
             plm_rsh|rsh agent|ssh agent",
            FAILED_OR_REFUSED,
        ],
        ErrorClass::OutOfBand,
        "processes could not be started on a host",
        "The host does not answer over ssh, does not accept the key, or the launcher's program is not there: \
         `wirelane launch --dry-run` shows what is run, `wirelane setup mpi plan` what is missing.",
    ),
    row(
        &["inbound mpi tcp connection|unexpected process identifier in"],
        ErrorClass::OutOfBand,
        "a TCP connection of another job or process arrived",
        "Two hosts have the same address on some interface, or another job uses the port: restrict \
         interfaces (`--mca btl_tcp_if_include`).",
    ),
    row(
        &[
            "hydu_|hydt_|hyd_|[proxy:|[mpiexec@",
            "sock|connect|host address|firewall|accept|listen|read error|write error|bind",
            ANY_FAILED,
        ],
        ErrorClass::OutOfBand,
        "MPI's launcher could not reach its processes over TCP",
        "A process or host ended, a firewall drops the connection, or a name has a wrong address.",
    ),
    row(
        &["hydu_|hydt_|hyd_|[proxy:|[mpiexec@", ANY_FAILED],
        ErrorClass::Other,
        "MPI's launcher reports a failure",
        "The line has no reason of its own: look for the first error of the processes.",
    ),
    row(
        &["pml cm cannot be selected|pml ob1 cannot be selected|selected pml|no components were able to be opened"],
        ErrorClass::Other,
        "MPI's processes have no common component",
        "The component that was asked for cannot be used, or hosts chose different ones: use the same \
         options and devices on all, `--mca pml ucx` for RDMA.",
    ),
    row(
        &["remote process exited or there was a network error|ncclremoteerror"],
        ErrorClass::Flushed,
        "a rank ended, or the network to it failed",
        "NCCL lost the connection to another rank: look for the first error of all ranks.",
    ),
    row(
        &["nccl communicator was aborted|communicator was aborted|comm was aborted"],
        ErrorClass::Flushed,
        "a communicator was aborted after an earlier error",
        "Another thread or rank failed first: look for the first error of all ranks.",
    )
    .unless("watchdog|timeout|timed out|original reason"),
    row(
        &["marked dead|marked as dead|missed too many heartbeats"],
        ErrorClass::NoAnswer,
        "a node of Ray does not answer",
        "Its process or host ended, is overloaded, or the network to it failed: look at that node's log.",
    ),
    row(
        &["barrier timed out|getkeyvalue() timed out|deadline_exceeded: barrier|reached timeout=|ran for more than set timeout"],
        ErrorClass::NoAnswer,
        "not all processes answered in time",
        "At least one process hangs, ended, or cannot reach the others.",
    ),
    row(
        &["retry connect to ip|socket connect error|client socket cannot be retrieved|\
             recv failed with errno|unable to read to socket"],
        ErrorClass::OutOfBand,
        "a TCP connection between processes of a job failed",
        "The other process ended, does not listen yet, or has another address: look at its log first.",
    ),
    row(
        &["caught signal 11|caught signal 6|caught signal 7|caught signal 8|worker group failed|crashed with exit code|\
             a worker died or was killed while executing"],
        ErrorClass::Other,
        "a process of the job ended with an error",
        "The line has no reason of its own: look for the first error of that process.",
    ),
    row(
        &["waiting for remainder of ranks|stalled ranks|stalled ops|missing ranks"],
        ErrorClass::NoAnswer,
        "some ranks do not take part in a collective",
        "They hang, ended, or took another way through the program: compare what all ranks do.",
    ),
    row(
        &["caused by a firewall|blocked by a firewall|check for firewalls"],
        ErrorClass::OutOfBand,
        "a connection to another host was not accepted",
        "A firewall drops or rejects it, or the host has another address than the launcher was told.",
    ),
    row(
        &["nvshmem api called before|called before nvshmem|called before mpi_init|called after mpi_finalize|called before ucp"],
        ErrorClass::Other,
        "the program calls a library before it is started, or after its end",
        "An error of the program, or a consequence of an earlier one: look for the first error.",
    ),
    row(
        &["nameerror|attributeerror", "'nccl|'nvshmem|'ucp|'nixl|'deep_ep|'mooncake"],
        ErrorClass::NoLibrary,
        "a Python package does not have what its user expects",
        "Packages of different versions are mixed, or one was built without this part.",
    ),
    row(
        &[
            "rendezvoustimeouterror|rendezvousconnectionerror|rendezvousclosederror|\
             rendezvousgracefulexiterror|no rendezvous handler|env:// rendezvous",
        ],
        ErrorClass::OutOfBand,
        "the ranks could not find each other",
        "The first rank is not started, ended, or cannot be reached at MASTER_ADDR and MASTER_PORT (or the \
         endpoint of `torchrun`).",
    ),
    row(
        &["default process group", "not been initialized|twice|not initialized"],
        ErrorClass::Other,
        "the program called a collective before it joined its ranks, or joined them twice",
        "An error of the program, or a consequence of an earlier one: look for the first error.",
    ),
    row(
        &[
            "undefined symbol|symbol lookup error|undefined reference to",
            "nccl|nvshmem|ibv_|mlx5|mlx4|rdma_|ucp_|ucs_|uct_|fi_|mpi_|ompi|pmix|ncclcomm|gdr_|libmpi|opal|orte|prte|\
             libuc|libfabric|libibverbs|.so: undefined symbol|error: undefined symbol",
        ],
        ErrorClass::NoLibrary,
        "a library is of another version than its user",
        "The program was built with another version than the one that is loaded: `ldd` shows which file is \
         found, LD_LIBRARY_PATH decides.",
    ),
    row(
        &[
            "dlopen|cannot open|can't open|failed to load|could not load|unable to load|cannot find|not found",
            "libnvidia-ml|libcuda|libcudart|libnvrtc|libcublas|libcudnn|libnvidia-",
        ],
        ErrorClass::NoLibrary,
        "a library of the GPU's driver or of CUDA is missing",
        "It is not installed, not visible in this container, or not in a folder that is searched.",
    ),
    row(
        &[
            "no ib device with active|not in active state|link is not ready|link not ready|no active port|\
             no active ports",
            "ib |ib0|ib1|ib2|ibp|mlx|port|hca",
        ],
        ErrorClass::PortDown,
        "a port is not active",
        "The cable or the link partner is disconnected, or no subnet manager has configured the port.",
    )
    .unless("open mpi|no-nics|mpirun|openfabrics"),
    row(
        &["falling back to tcp|fall back to tcp|falls back to tcp|falling back to socket|fallback to tcp|fallback to socket"],
        ErrorClass::Fallback,
        "a program uses TCP instead of RDMA",
        "The lines before have the reason.",
    )
    .unless("dns|udp|http"),
    row(
        &["failed to register|unable to register|could not register|cannot register", "user buffer|buffer|memory|region|datatype"],
        ErrorClass::Registration,
        "memory could not be registered",
        "The limit of locked memory is too low, or the memory cannot be pinned.",
    )
    .unless("gpu|cuda|bad address|nccl|ucx|libfabric|rdma|ibv_|nixl|mooncake|transfer|mr |mlx"),
];

/// The last rows: what is known from the words of a failure alone.
pub(super) const ANY_PROGRAM: &[Phrase] = &[
    row(
        &["cuda error:|cuda driver initialization|hip error:|acceleratorerror"],
        ErrorClass::Gpu,
        "a call to CUDA failed",
        "The GPU or its driver refused a call; the line has CUDA's reason.",
    )
    .unless("out of memory"),
    row(
        &[
            "connection reset by peer|broken pipe|socket closed|socket timeout|connect() timed out|connect() to|so_error|\
             client socket has timed out|unable to complete a tcp connection|failed to exchange|\
             unable to resolve hostname",
        ],
        ErrorClass::OutOfBand,
        "a TCP connection of the program failed",
        "The other process ended, does not listen yet, or listens elsewhere: look at its log first.",
    )
    .unless(NOT_A_JOB),
];

const ANY_FAILED_OR_DISABLED: &str =
    "disabled|not |could not|cannot|fail|lacks|unsupported|error|unable";
const FAILED_OR_REFUSED: &str =
    "unable|fail|refused|denied|timed out|no route|unreachable|error|not |closed|lost";
