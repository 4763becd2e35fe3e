//! Missing devices, drivers and libraries.

use super::{ANY_FAILED, FAILED, FAILED_CALL, Phrase, RDMA, row};
use crate::explain::ErrorClass;

/// Header files and linker options of libraries for RDMA and MPI.
const HEADERS: &str = "infiniband/verbs.h|infiniband/mad.h|infiniband/umad.h|infiniband/driver.h|infiniband/mlx5dv.h|\
             infiniband/arch.h|infiniband/cm.h|rdma/rdma_cma.h|rdma/rdma_verbs.h|rdma/rsocket.h|rdma/fabric.h|rdma/fi_|\
             verbs.h|rdma_cma.h|mlx5dv.h|nccl.h|mpi.h|ucp.h|ucp/api/ucp.h|gdrapi.h|nvshmem.h|-libverbs|-lrdmacm|-lfabric|\
             -libumad|-lnccl|-lmpi|-lucp";

/// Missing files: what the line names comes before what the program was doing.
pub(super) const LIBRARIES: &[Phrase] = &[
    row(
        &["/sys/class/infiniband", "couldn't stat|no such|cannot|fail|could not|not found|unable"],
        ErrorClass::NoDevice,
        "a device is not visible in /sys/class/infiniband",
        "It is not passed to this container, is in another network namespace, or was removed.",
    ),
    row(
        &["netlink_rdma|non-rdma device|non-rdma dev"],
        ErrorClass::NoDevice,
        "the kernel has no RDMA device here",
        "Its RDMA modules are not loaded, or the device has no RDMA driver.",
    ),
    row(
        &["couldn't read uverbs abi|couldn't read abi version|is ib_uverbs loaded|\
             are kernel drivers loaded|rdma modules loaded|unable to open /dev/infiniband|\
             umad port|ibpanic"],
        ErrorClass::NoDevice,
        "the kernel's RDMA modules are not loaded, or have no device",
        "The program needs ib_uverbs (rdma_ucm for connections by IP address, ib_umad for management), and \
         a device.",
    ),
    row(
        &["no userspace device-specific driver"],
        ErrorClass::NoLibrary,
        "libibverbs has no driver for the device",
        "The kernel has the device, but the NIC's library (provider) is not installed in this \
         system or container.",
    ),
    row(
        &["does not support the kernel abi|kernel abi version|abi version"],
        ErrorClass::NoLibrary,
        "rdma-core and the kernel's driver do not fit together",
        "The NIC's library is older or newer than the kernel's driver; often two installations \
         (the distribution's and the vendor's) are mixed.",
    ),
    row(
        &[
            "missing run-time dependency|run-time dependency on|no ofed driver|ofed driver",
            "fail|unable|cannot|error|not |no ofed|missing",
        ],
        ErrorClass::NoLibrary,
        "the RDMA stack is not installed",
        "The libraries of rdma-core, or the driver package of the NIC for this kernel, are missing.",
    ),
    row(
        &["direct firmware load", "bnx|mlx|qed|ice|i40e|cxgb|hfi1|irdma|efa|ionic|hns"],
        ErrorClass::NoLibrary,
        "the NIC's firmware file is missing",
        "The driver loads it from /lib/firmware: install the package linux-firmware.",
    ),
    row(
        &["libibverbs", "couldn't load driver|couldn't open config|config directory|load driver"],
        ErrorClass::NoLibrary,
        "libibverbs cannot load the NIC's library",
        "The library of the NIC (libmlx5, libefa, …) is not installed, or of another version than \
         libibverbs.",
    ),
    row(
        &[
            "error: implicit declaration|error: unknown type name|error: too few arguments|error: too many arguments|\
             error: 'struct|error: incompatible|has no member named|was not declared in this scope|undeclared identifier",
            "rdma|ibv_|ib_|mlx5|mlx4|ucp|ucs_|uct|fi_|mpi_|nccl|nvshmem|cuda",
        ],
        ErrorClass::NoLibrary,
        "a program does not fit the headers that it is built with",
        "rdma-core, libfabric, UCX or CUDA is older or newer than the program expects: `pkg-config --modversion` \
         shows what is found.",
    ),
    row(
        &[
            "mpi4py|nixl|mooncake|deep_ep|deepep|ucp|ucxx|nvshmem|horovod|nccl|pynvml|pyverbs|rdma-core|libibverbs|\
             libfabric",
            "is not installed|isn't installed|not been installed|cannot import name|failed to import|\
             could not import|unable to import",
        ],
        ErrorClass::NoLibrary,
        "a package is not installed",
        "The program needs it for several processes or for RDMA: install it into the environment that the \
         program runs in.",
    ),
    row(
        &[HEADERS, "no such file|not found|cannot find|can't find|could not find|missing"],
        ErrorClass::NoLibrary,
        "the development files of rdma-core or libfabric are missing",
        "A program is being built, and needs their headers: libibverbs-dev and librdmacm-dev, or \
         rdma-core-devel.",
    ),
    row(
        &[
            "unknown symbol|disagrees about version|version magic|invalid module format|duplicate symbol|\
             key was rejected|can't load lnd|can't load module|kernel which is not a part of|does not exist, skipping",
            "rdma|ib_|mlx|nvme|ko2iblnd|lnd|lnet|bnxt|irdma|efa|rxe|siw|rpcrdma|iser|srp|hns|knem|\
             xpmem|iw_|qedr|hv_network_direct|gdrdrv|ice.ko|ice:|i40e|ixgbe|qede|cxgb|ionic|mana|nvidia.ko|nvidia:",
        ],
        ErrorClass::NoLibrary,
        "a kernel module does not fit the kernel",
        "The module was built for another kernel or another version of the RDMA stack (the \
         distribution's, or the vendor's).",
    ),
    row(
        &[
            "module",
            "not found in directory|module rdma|module ib_|module mlx|module rxe",
            "not found",
        ],
        ErrorClass::NoLibrary,
        "the kernel module is not installed",
        "This kernel's package does not contain the module; it may be in an additional package.",
    ),
    row(
        &["cannot open shared object file|cannot open dynamic library"],
        ErrorClass::NoLibrary,
        "a library is missing",
        "The library that the line names is not installed, or not in a folder that is searched.",
    ),
    row(
        &[
            ".so",
            "cannot open|can't open|could not open|failed to open|failed to load|\
             could not load|cannot load|not found|unable to load|unable to open|dlopen|\
             cannot find|no such file|undefined symbol|couldn't load|fail",
            "libibverbs|librdmacm|libmlx|libefa|libfabric|libuc|libgdrapi|gdrcopy|glue|\
             nvshmem|libnvshmem|libibumad|libibmad|libpsm|libnccl|libnl|mca_|libmpi|libdoca|\
             libnixl|libhcoll|libsharp|librte|ucx|rdma|nccl|mlx",
        ],
        ErrorClass::NoLibrary,
        "a library is missing",
        "The library that the line names is not installed, or not in a folder that is searched.",
    ),
    row(
        &[
            "libibverbs|librdmacm|libgdrapi|libmlx5|libmlx4|libefa|libnvshmem",
            "failed to open|failed to load|unable to load|unable to open|could not load|\
             couldn't load|cannot load|dlopen",
        ],
        ErrorClass::NoLibrary,
        "a library is missing",
        "The library that the line names is not installed, or not in a folder that is searched.",
    ),
];

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["starting up lni|no probed ethernet devices|no available ethernet ports|\
             allocatable devices: 0|initialize ib device|init ib device"],
        ErrorClass::NoDevice,
        "no RDMA device can be used",
        "The service found no device or address that it may use.",
    ),
    row(
        &["rdma is off|rdma: off"],
        ErrorClass::NoDevice,
        "Wirelane does not use RDMA",
        "It uses shared memory or TCP instead; the line has the reason.",
    ),
    row(
        &["unable to find the ib/roce device|unable to find the infiniband/roce device"],
        ErrorClass::NoDevice,
        "no such RDMA device was found",
        "libibverbs lists no device of that name that this process can open.",
    ),
    row(
        &["couldn't get device attributes|couldn't get context for|query device attributes|\
             query device props|query device capabilities|couldn't get port info|failed to get port info|\
             trying to query port|query port info|query port_num|couldn't get local lid|\
             couldn't query device|set the link layer|check if driver is up|\
             did not detect devices|find valid ports|no valid ports|no matching rdma"],
        ErrorClass::NoDevice,
        "the device cannot be queried",
        "It was listed, but this process may not open it, or its driver does not answer.",
    ),
    row(
        &[
            RDMA,
            "no device|no devices|no rdma device|no ib device|no ib devices|no infiniband|\
             no rdma|no available|no hca|no active|no usable|no suitable|no valid|no matched|\
             no matching|not found|not available|no rnic|no such device|not enumerated|no nic|0 device|no verbs|\
             cannot find|can't find|could not find|couldn't find|unable to find|\
             failed to find|fail to find|no active ib|failed to get ib|wasn't found|is empty|no mlx|no efa|not exist|not detected",
            "device|devices|hca|hcas|nic |nics|rnic|adapter|port|ports|provider|uverbs|interface|ib_devs|devs",
        ],
        ErrorClass::NoDevice,
        "no RDMA device was found",
        "libibverbs lists no device that this process can open, or not the one that was requested.",
    ),
    row(
        &[
            RDMA,
            "get_device_list|device list|devices list|list devices|device_list|sys files",
            FAILED_CALL,
        ],
        ErrorClass::NoDevice,
        "devices cannot be listed",
        "libibverbs lists no device that this process can open.",
    ),
    row(
        &[
            "error creating new device|getting driver info|discoverhostdevices|device plugin|initservers|\
             sriov-network-device|sriovdp|device-plugin",
            "error|fail|no such|missing|not found|unable|no pci|cannot|no resource",
        ],
        ErrorClass::NoDevice,
        "the device plugin cannot use a device",
        "The PCI function has no driver or no RDMA device, or the plugin's container does not see it.",
    ),
    row(
        &["no devices in device pool|exposing \"0\"|no devices found|insufficient rdma|\
             insufficient nvidia.com|insufficient mellanox|rdma resources for|\
             unexpected: allocated"],
        ErrorClass::NoDevice,
        "the device plugin has no RDMA device to give",
        "Its selectors match no device of this node, the driver is not loaded, or all devices are \
         in use.",
    ),
    row(
        &[
            "could not insert|unknown symbol|disagrees about version",
            "mlx4_ib|mlx5_ib|ib_core|ib_uverbs|rdma_|rxe|siw|irdma|bnxt_re|efa|ib_|mlx5_core|\
             mlx",
        ],
        ErrorClass::NoDevice,
        "a kernel module of RDMA could not be loaded",
        "The module was built for another kernel or another version of the RDMA stack.",
    ),
    row(
        &[
            "transport map|rdmatransport|transfer engine init|install rdma transport|\
             rdma transport|init failed for transport|transport init|rdma backend|rdma init|\
             initialize rdma|init rdma|rdma not|rdma disabled|rdma is not|ib transport|\
             roce transport",
            FAILED,
            RDMA,
        ],
        ErrorClass::Fallback,
        "RDMA could not be started",
        "The lines before have the reason; without it the program uses TCP, or stops.",
    ),
    row(
        &["another transport will be used|switching from rdma|instead of rdma|without rdma|\
             init returned failure for component|point-to-point network instead|switch to atl|using tcp instead|use tcp instead"],
        ErrorClass::Fallback,
        "the program uses TCP instead of RDMA",
        "It found no usable RDMA device, or could not start it: the lines before have the reason.",
    ),
    row(
        &["falling back|fall back|fallback|falls back", RDMA],
        ErrorClass::Fallback,
        "the program uses TCP instead of RDMA",
        "It found no usable RDMA device, or could not start it: the lines before have the reason.",
    ),
];

/// What a program looked for, in its own words.
pub(super) const ACTIONS: &[Phrase] = &[
    row(
        &[
            RDMA,
            "library|libraries|symbol|shared object|dlopen|dlsym|.so |.so.|module not|modules|modprobe|\
             load module|load the module|insert module|loading module|unload|kernel abi",
            ANY_FAILED,
        ],
        ErrorClass::NoLibrary,
        "a library is missing, or of another version",
        "The library that the line names is not installed, not in a folder that is searched, or lacks a \
         function that the program needs.",
    ),
    row(
        &[
            RDMA,
            "plugin|component|transport|transports|backend|netmod|nvshmem api|nvshmem init|nvshmem detect|\
             nvshmem common|nvshmem setup|nvshmemi_init|topology|topo|protocol",
            ANY_FAILED,
        ],
        ErrorClass::Fallback,
        "RDMA could not be started",
        "The lines before have the reason; without it the program uses TCP, or stops.",
    ),
    row(
        &[
            RDMA,
            "device|devices|hca|nic|nics|rnic|adapter|interface|netdev|uverbs|port|ports|driver|card|\
             provider|providers",
            ANY_FAILED,
        ],
        ErrorClass::NoDevice,
        "an RDMA device or its port cannot be used",
        "It does not exist for this process, is not active, or its driver does not answer.",
    )
    .unless(
        "does not support|doesn't support|not supported|exceed|copying",
    ),
];
