//! Calls that failed, by the names of functions. Wrappers keep these names: `wrap_ibv_create_qp`, `ibv_cmd_create_qp`,
//! `ibvCreateQp`.

use super::{FAILED_CALL, Phrase, row};
use crate::explain::ErrorClass;
use crate::explain::errno::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH,
    ENETUNREACH, ENODEV, ENOENT, ENOSYS, ENOTTY, ENXIO, EOPNOTSUPP, EPERM, ETIMEDOUT,
};

const CREATE: &str = "ibv_create|ibv_cmd_create|ibv_exp_create|ibv_alloc|ibv_cmd_alloc|ibv_resize|\
             ibv_open_xrcd|ibv_open_qp|ibv_attach|ibv_bind_mw|ibv_init_ah|ibvcreate|ibvalloc|\
             mlx5dv_create|mlx5dv_devx|mlx5dv_alloc|mlx5dv_init|mlx5dv_dr_|mlx5dv_open|mlx5dv_query|\
             mlx5dv_map|mlx5dv error|mlx4dv_|efadv_|hnsdv_|manadv_|ib_create|ib_alloc|rdma_create_qp|\
             rdma_create_srq|rdma_create_ep|rdma_create_xrcd|rdma_init_qp";
const OPEN: &str = "ibv_open_device|ibv_exp_open_device|ibvopendevice|ibv_import_device|umad_open|\
             umad_init|mad_rpc_open|ibv_cmd_get_context";
const LIST: &str = "ibv_get_device|ibvgetdevice|rdma_get_devices|umad_get_ca";
const QUERY: &str = "ibv_query_device|ibv_query_port|ibv_exp_query|ibv_query_pkey|ibvquerydevice|\
             ibvqueryport|ibv_cmd_query|ib_query_port|ib_query_device";
const CHANNEL: &str = "rdma_create_event_channel|rdma_create_id|event channel creation";
const LOCAL_ADDRESS: &str = "rdma_bind_addr|rdma_listen|rdma_getaddrinfo|rdma_resolve_addr";
const CONNECT: &str = "rdma_connect|rdma_accept|rdma_resolve|rdma_establish|rdma_get_cm_event|\
             rdma_get_request|rdma_disconnect|rdma_reject|rdma_migrate|rdma_join_multicast|\
             rdma_ack_cm_event|ib_cm_|iw_cm_|fi_connect|fi_accept|fi_listen|fi_passive_ep|\
             fi_reject|ib_send_cm";

pub(super) const TABLE: &[Phrase] = &[
    row(
        &[OPEN, FAILED_CALL],
        ErrorClass::Restricted,
        "this process may not open the device",
        "The device exists, but its node under /dev/infiniband may not be opened.",
    )
    .only_with(&[EACCES, EPERM]),
    row(
        &[OPEN, FAILED_CALL],
        ErrorClass::NoDevice,
        "the device is gone",
        "It was listed, but no longer exists for this process.",
    )
    .only_with(&[ENODEV, ENOENT, ENXIO]),
    row(
        &[LIST, FAILED_CALL],
        ErrorClass::NoDevice,
        "devices cannot be listed",
        "libibverbs lists no device that this process can open.",
    ),
    row(
        &["ibv_query_gid|ibvquerygid|ibv_find_gid|rdma_query_gid|ib_query_gid", FAILED_CALL],
        ErrorClass::WrongGid,
        "a GID cannot be read",
        "The GID index is not valid on this port, or its entry is empty.",
    ),
    row(
        &[QUERY, FAILED_CALL],
        ErrorClass::Other,
        "the device cannot be queried",
        "The program or library calls something that the driver does not support: their versions \
         do not fit together.",
    )
    .only_with(&[ENOSYS, ENOTTY, EOPNOTSUPP]),
    row(
        &[QUERY, FAILED_CALL],
        ErrorClass::NoDevice,
        "the device cannot be queried",
        "It was listed, but is gone, or this process may not use it.",
    ),
    row(
        &["devx_general_cmd|devx_obj_modify|devx_obj_query", FAILED_CALL],
        ErrorClass::Command,
        "the NIC's firmware refused a command",
        "The program requested something that this function may not use, or that is invalid; the \
         syndrome is for the vendor's support.",
    ),
    row(
        &[CREATE, FAILED_CALL],
        ErrorClass::Restricted,
        "this process may not create a queue pair or another object",
        "The kernel refuses it to this user or container; raw packets need CAP_NET_RAW.",
    )
    .only_with(&[EACCES, EPERM]),
    row(
        &["ibv_create_ah|ibv_cmd_create_ah", FAILED_CALL],
        ErrorClass::NoAnswer,
        "the peer's address could not be resolved",
        "Resolving the peer's address (ARP, or a query to the subnet manager) got no answer.",
    )
    .only_with(&[ETIMEDOUT, EHOSTUNREACH, ENETUNREACH]),
    row(
        &["rdma_create_ep", FAILED_CALL],
        ErrorClass::NoDevice,
        "the address belongs to no RDMA device",
        "The connection manager finds no RDMA device for this IP address.",
    )
    .only_with(&[ENODEV, ENOENT, EADDRNOTAVAIL]),
    row(
        &[CREATE, FAILED_CALL],
        ErrorClass::Creation,
        "a queue pair or another object could not be created",
        "A limit of the NIC or of the cgroup is reached, memory could not be pinned, or the requested \
         kind or size is not supported.",
    ),
    row(
        &[CHANNEL, FAILED_CALL],
        ErrorClass::NoDevice,
        "the connection manager cannot be used",
        "The module rdma_ucm is not loaded, or there is no RDMA device.",
    )
    .only_with(&[ENODEV, ENOENT, ENXIO]),
    row(
        &[CHANNEL, FAILED_CALL],
        ErrorClass::Creation,
        "the connection manager could not be opened",
        "/dev/infiniband/rdma_cm cannot be opened: the module rdma_ucm is not loaded, or this process \
         may not use it.",
    ),
    row(
        &["rdma_bind_addr|rdma_listen", FAILED_CALL],
        ErrorClass::OutOfBand,
        "the port is in use",
        "Another program listens on it: mostly an earlier run that has not ended.",
    )
    .only_with(&[EADDRINUSE]),
    row(
        &[LOCAL_ADDRESS, FAILED_CALL],
        ErrorClass::NoDevice,
        "the address belongs to no RDMA device",
        "The connection manager finds no RDMA device for this IP address, or there is none.",
    )
    .only_with(&[ENODEV, ENOENT, ENXIO, EADDRNOTAVAIL]),
    row(
        &["rdma_getaddrinfo|rdma_bind_addr", FAILED_CALL],
        ErrorClass::NoDevice,
        "the address belongs to no RDMA device",
        "The name cannot be resolved, or no RDMA device has this IP address.",
    ),
    row(
        &[CONNECT, FAILED_CALL],
        ErrorClass::NoAnswer,
        "a connection over the RDMA connection manager failed",
        "The peer's address or the route to it was not resolved, or the peer did not answer or refused.",
    ),
    row(
        &["fi_eq_read|fi_cq_read|fi_eq_sread|fi_cq_sread", FAILED_CALL],
        ErrorClass::NoAnswer,
        "a connection to the peer failed",
        "The event queue reports that the peer refused the connection, ended it, or did not answer.",
    )
    .only_with(&[ECONNREFUSED, ECONNRESET, ECONNABORTED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH]),
    row(
        &[
            "ibv_poll_cq|ibvpollcq|ib_poll_cq|ibv_get_cq_event|ibv_req_notify|ibv_start_poll|\
             ibv_ack|ibv_get_async_event|fi_cq_read|fi_cq_sread|fi_eq_read|fi_cq_strerror",
            FAILED_CALL,
        ],
        ErrorClass::Other,
        "the completion queue could not be read",
        "The device or its driver failed, or the queue was destroyed; lines before it have the reason.",
    ),
    row(
        &["ibv_fork_init|fork()", "ibv_|ucx|libibverbs|rdma|openib|nccl", FAILED_CALL],
        ErrorClass::Other,
        "the program uses fork, which is not safe with RDMA here",
        "After fork the parent's registered memory may be copied to other pages. Kernels since 5.12 \
         handle this; otherwise set RDMAV_FORK_SAFE=1, or do not fork.",
    ),
    row(
        &[
            "fi_send|fi_tsend|fi_inject|fi_tinject|fi_recv|fi_trecv|fi_write|fi_read|fi_senddata|\
             fi_atomic|fi_fetch_atomic",
            FAILED_CALL,
        ],
        ErrorClass::NoAnswer,
        "a peer cannot be reached",
        "There is no connection to the peer, or nothing answers there.",
    )
    .only_with(&[ETIMEDOUT, EHOSTUNREACH, ENETUNREACH]),
    row(
        &[
            "cudahostregister|cumemhostregister|cumemgethandleforaddressrange|hiphostregister|\
             cudahostgetdevicepointer|cumemhostgetdevicepointer",
            FAILED_CALL,
        ],
        ErrorClass::GpuRegistration,
        "memory could not be shared between NIC and GPU",
        "The GPU driver refused to map host memory or registers of the NIC, or to export GPU memory.",
    ),
    row(
        &[
            "cuda[|cudamalloc|cudafree|cudamemcpy|cudasetdevice|cudagetdevice|cudastream|\
             cudaevent|cudadevice|cudaipc|cudahostalloc|cudalaunch|cudapointer|cudadriver|cudaget|\
             cumemalloc|cumemcreate|cumemmap|cumemunmap|cumemset|cumemaddress|cumemimport|\
             cumemexport|cumemrelease|cumemretain|cumemfree|cumemgetaddress|cumulticast|cuinit|\
             cuctx|cudevice|cuipc|culaunch|custream|cuevent|cupointer|cumodule|cugeterror|cumem|\
             hipmalloc|hipmemcpy|hipset|hipget|hipipc|hipstream|hipmem|hipdevice|nvmlinit|\
             nvmldevice|nvmlsystem|hsa_|cuda_error|cudaerror|hiperror",
            FAILED_CALL,
        ],
        ErrorClass::Gpu,
        "a call to CUDA failed",
        "The GPU or its driver refused a call; the line has CUDA's reason.",
    )
    .unless("outofmemory|out of memory. tried to allocate|cuda out of memory"),
];
