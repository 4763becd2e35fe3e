//! Lines of UCX.

use super::{FAILED, Phrase, row};
use crate::explain::ErrorClass;
use crate::explain::errno::{EADDRNOTAVAIL, ENODEV};

const UCX: &str =
    "ucx|ucp_|uct_|ucp|uct|jucx|ud_ep|ud_iface|rc_ep|rc_verbs|dc_mlx5|transport error";

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["handle vm_unmap|vm_unmap event|memory hooks|rkey unpack|unpack rkey|unpack remote key"],
        ErrorClass::Other,
        "UCX cannot use memory as the program asks",
        "The program's libraries do not fit together: another library replaced the functions that UCX \
         watches, or the two ends use different transports.",
    ),
    row(
        &["dct|dci", "modify|modifying", FAILED],
        ErrorClass::Creation,
        "a queue pair could not be set up",
        "The NIC, its firmware or its driver does not support dynamically connected queue pairs as UCX \
         uses them; `UCX_TLS=rc` avoids them.",
    ),
    row(
        &[
            "ucx  error|ucx  warn|ucx error|ucx warn|ucx  diag",
            "config|statistic|stats|async|callback|memtrack|profil|vfs|hash|timer|signal|pthread|mutex|spinlock|\
             environment variable|parse|parsing|log file|regex|active message|rendezvous|remote key|rkey|\
             datatype|field_mask|flags|lru|rcache|pgtable|sysctl|fcntl|munmap|madvise|inotify",
        ],
        ErrorClass::Other,
        "UCX reports a failure of its own",
        "A setting, a request of the program or a part of UCX within this host is wrong; this is not about \
         the network.",
    )
    .unless(
        "ibv_|rdma_|mlx5dv|register|regist|connect|device|timed out|timeout|cuda|rocm|shared memory|modify|\
         cannot allocate memory|ib_mlx5|transport|reach|resolve",
    ),
    row(
        &["ib_mlx5_log", "wqe["],
        ErrorClass::Other,
        "UCX prints the request that failed",
        "The line before it has the status.",
    ),
    row(
        &["ucx", "version", "incompatible"],
        ErrorClass::NoLibrary,
        "UCX's library has another version than the program needs",
        "Another copy of UCX is found first: `ucx_info -v`, LD_LIBRARY_PATH.",
    ),
    row(
        &["transports 'cuda|transport 'cuda|transports 'rocm|transport 'rocm", "not available"],
        ErrorClass::Fallback,
        "UCX has no transport for GPU memory",
        "UCX was built without CUDA or ROCm, or could not load their libraries.",
    ),
    row(
        &["transport", "cuda|gdr_copy|gdrcopy|rocm", "not available"],
        ErrorClass::NoGpuDirect,
        "UCX has no transport for GPU memory",
        "UCX was built without CUDA, its CUDA libraries could not be loaded, or gdrdrv is not loaded.",
    ),
    row(
        &["network device|device", "not available", "please use one or more of|ucx"],
        ErrorClass::NoDevice,
        "UCX is configured with a device that is not available",
        "UCX_NET_DEVICES names a device and port that this process does not have; the line lists \
         those that it has.",
    ),
    row(
        &["transport", "not available", "please use one or more of|ucx"],
        ErrorClass::NoDevice,
        "UCX is configured with a transport that is not available",
        "UCX_TLS names a transport that no device here offers, or that this build of UCX does not \
         have (`ucx_info -d` lists them).",
    ),
    row(
        &["no usable transports|no usable transport|no usable devices"],
        ErrorClass::NoDevice,
        "UCX found no transport",
        "None of the devices and transports in its settings is available.",
    ),
    row(
        &["ucx|ucp", "none of the available|none of the provided", "transport|component|topology"],
        ErrorClass::NoDevice,
        "UCX found no transport for this",
        "No device here offers what the program asks for, or its settings exclude it (UCX_TLS, \
         UCX_NET_DEVICES).",
    ),
    row(
        &["no supported sockaddr|auxiliary transport"],
        ErrorClass::Fallback,
        "UCX has no transport for a connection by address",
        "The device offers no transport that can connect by IP address with the settings in use \
         (UCX_TLS, UCX_SOCKADDR_TLS_PRIORITY).",
    ),
    row(
        &["ucx", "error no |no ", " transport to|transport for"],
        ErrorClass::NoDevice,
        "no common transport between the two ends",
        "One end has no usable RDMA device, or UCX_TLS and UCX_NET_DEVICES exclude it at one end.",
    ),
    row(
        &["error handling callback|error handler|err_handler", "destination is unreachable"],
        ErrorClass::NoAnswer,
        "UCX lost the connection to a peer",
        "The peer ended, or packets to it or from it are lost.",
    ),
    row(
        &["ud_ep.c", "timeout of"],
        ErrorClass::RetryExceeded,
        "a peer did not answer (retries exceeded)",
        "UCX sends datagrams again until this time is over: packets are lost on the path, or the peer's \
         process ended or hangs.",
    ),
    row(
        &["rqpn|rlid|rkey", "wqe[", "rdma_write|rdma_read|send|cswap|fadd"],
        ErrorClass::Other,
        "UCX prints the request that failed",
        "The line before has its status.",
    ),
    row(
        &["no remote registered memory access|no active messages|no am bcopy|no tag", "transport to|transport for"],
        ErrorClass::NoDevice,
        "no common transport between the two ends",
        "One end has no usable RDMA device, or UCX_TLS and UCX_NET_DEVICES exclude it at one end.",
    ),
    row(
        &[UCX, "destination is unreachable"],
        ErrorClass::Fallback,
        "UCX has no transport to the peer",
        "The two ends have no usable transport in common, or the peer's address is of another network.",
    ),
    row(
        &[
            "support level is none|pml_ucx|pml ucx|osc_ucx|common_ucx",
            "support level|cannot be selected|disabl|not selected|disqualif",
        ],
        ErrorClass::Fallback,
        "Open MPI does not use UCX",
        "UCX found none of the devices and transports for which Open MPI selects it.",
    ),
    row(
        &["rdma_bind_addr|rdma_resolve_addr|rdma_listen|rdma_cm_event_addr_error|\
             rdma_create_id|rdma_create_event_channel|rdma_getaddrinfo"],
        ErrorClass::NoDevice,
        "the address belongs to no RDMA device",
        "The connection manager finds no RDMA device for this IP address, or there is none.",
    )
    .only_with(&[ENODEV, EADDRNOTAVAIL]),
    row(
        &[
            "ucp worker|ucp context|ucp endpoint|ucp listener|ucp_worker_create|\
             ucp_ep_create|ucp_init|uct_iface_open|uct_md_open|uct_ep_create|\
             ucp_context_create",
            FAILED,
        ],
        ErrorClass::Creation,
        "UCX could not create its objects",
        "The UCX ERROR lines before have the call that failed and its error number.",
    ),
    row(
        &["ucx worker address|remote worker address|ucp address", FAILED],
        ErrorClass::OutOfBand,
        "UCX did not receive the peer's address",
        "The launcher passes addresses between ranks; a rank does not use UCX, or ended.",
    ),
    row(
        &[
            UCX,
            "endpoint timeout|keepalive failed|keepalive error|unhandled timeout|keepalive timeout",
        ],
        ErrorClass::RetryExceeded,
        "the peer no longer answers",
        "Retries or keepalive messages to the peer were exhausted: it ended, hangs, or packets are lost.",
    ),
    row(
        &[
            UCX,
            "connection reset by remote peer|connection reset|rejected|connection refused|\
             endpoint is not connected|socket closed",
        ],
        ErrorClass::OutOfBand,
        "the peer closed or refused a connection",
        "The peer's process ended, or does not listen: look at its log first.",
    ),
    row(
        &[
            "gpudirect rdma|gpu direct",
            "disabled|not detected|not available|not supported|not loaded",
        ],
        ErrorClass::NoGpuDirect,
        "UCX does not use GPUDirect",
        "GPU memory is copied through host memory first.",
    ),
    row(
        &["comp_mask", "ibv_|mlx5|mlx4", "invalid"],
        ErrorClass::Other,
        "the device cannot be queried",
        "The program or library calls something that the driver does not support: their versions \
         do not fit together.",
    ),
    row(
        &["query_device|query_port", "ibv_|ucx", FAILED],
        ErrorClass::NoDevice,
        "the device cannot be queried",
        "It was listed, but is gone, or this process may not use it.",
    )
    .only_with(&[ENODEV]),
    row(
        &["ibv_exp_query_device|ibv_query_device|ibv_query_port", "return|fail"],
        ErrorClass::Other,
        "the device cannot be queried",
        "The program or library calls something that the driver does not support: their versions \
         do not fit together.",
    ),
];
