//! Connections of any program: of queue pairs, over the connection manager, and over TCP.

use super::{ANY_FAILED, FAILED, FAILED_CALL, Phrase, RDMA, row};
use crate::explain::ErrorClass;
use crate::explain::errno::{
    EADDRINUSE, EADDRNOTAVAIL, EHOSTUNREACH, EINVAL, ENETUNREACH, ENODEV, ENOMEM, ENXIO,
    EOPNOTSUPP, EPROTONOSUPPORT, ETIMEDOUT,
};

const MODIFY: &str = "ibv_modify_qp|modify qp|modify_qp|ibv_exp_modify_qp|qp to rtr|qp to rts|\
             qp to init|to rtr|to rts|modify the qp|modify queue pair|modify_qp_to|\
             modify ib qp|qp modify";
const CM: &str = "rdma_resolve_addr|rdma_resolve_route|rdma_connect|rdma_accept|rdma_cm_event|\
             rdma_bind_addr|rdma_listen|rdma_get_cm_event|rdma_disconnect|rdma_resolve|\
             cm event|rdma address resolution|resolve address|resolve addr|resolve route|\
             rdma connection|cm_event|rdma cm|rdma_cm|rdma_establish|rdma_getaddrinfo|\
             connect rejected|rdma_client|rdma_server|rdma connect|times addr_error|connected state|\
             cm event error";

/// Queue pairs that could not be connected.
pub(super) const QUEUE_PAIRS: &[Phrase] = &[
    row(
        &[MODIFY],
        ErrorClass::NoAnswer,
        "a queue pair could not be connected",
        "Resolving the peer's address (ARP, or a query to the subnet manager) got no answer.",
    )
    .only_with(&[ETIMEDOUT, EHOSTUNREACH]),
    // NCCL and NVSHMEM print the number without a word that announces it.
    row(
        &[MODIFY, "110"],
        ErrorClass::NoAnswer,
        "a queue pair could not be connected: timed out (110)",
        "Resolving the peer's address (ARP, or a query to the subnet manager) got no answer.",
    ),
    row(
        &[MODIFY],
        ErrorClass::WrongGid,
        "a queue pair could not be connected",
        "There is no route from the address of the chosen GID to the peer's: the GID is of another \
         network, or link-local.",
    )
    .only_with(&[ENETUNREACH]),
    row(
        &[MODIFY],
        ErrorClass::WrongGid,
        "a queue pair could not be connected",
        "The chosen GID belongs to no net device here: it is empty, or of another network \
         namespace.",
    )
    .only_with(&[ENODEV, ENXIO, EADDRNOTAVAIL]),
    row(
        &[MODIFY],
        ErrorClass::WrongGid,
        "a queue pair could not be connected",
        "An attribute is not valid for the port: the GID index, the MTU, or the type of the peer's \
         address.",
    )
    .only_with(&[EINVAL, EOPNOTSUPP, EPROTONOSUPPORT]),
    row(
        &[MODIFY, FAILED],
        ErrorClass::Creation,
        "a queue pair could not be set up",
        "Memory for its state could not be allocated, or a limit of the NIC is reached.",
    )
    .only_with(&[ENOMEM]),
    row(
        &[
            "ibv_modify_qp|modify qp|modify_qp|qp to rtr|qp to rts",
            "fail|unable|could not|couldn't|cannot|error",
        ],
        ErrorClass::NoAnswer,
        "a queue pair could not be connected",
        "The peer's address could not be resolved.",
    ),
    row(
        &["unable to connect the hca|connect the hca|unable to connect (retries"],
        ErrorClass::NoAnswer,
        "perftest could not connect its queue pairs",
        "The peer's address could not be resolved, or the two ports are on different networks.",
    ),
    row(
        &["ip address", "invalid for family|for family af_"],
        ErrorClass::WrongGid,
        "the chosen GID cannot be used",
        "The address of the GID is of another family than the settings ask for, or the entry is empty.",
    ),
    row(
        &[
            RDMA,
            "gid|gids|query_gid|rocev2 gid",
            "fail|no associated|invalid|null|empty|not |no |unable|couldn't|error|could not|cannot|\
             can't|wrong|mismatch",
        ],
        ErrorClass::WrongGid,
        "the chosen GID cannot be used",
        "The GID index is not valid on this port, its entry is empty, or it belongs to another net device.",
    ),
];

/// Connections over the connection manager and over TCP.
pub(super) const TABLE: &[Phrase] = &[
    row(
        &["rdma_disconnect", FAILED],
        ErrorClass::Flushed,
        "a connection could not be closed, since it is closed already",
        "It ended because of an earlier error: look for the first one.",
    ),
    row(
        &["routing resolution failure|route resolution failure"],
        ErrorClass::NoAnswer,
        "the route to the peer could not be resolved",
        "The peer's address is of another network, or it does not answer.",
    ),
    row(
        &[
            "to socket/rdma_cm|sockethandshake|gpi2_sn|exchange data|read_keys|write_keys|pp_exch|exch_dest|\
             exchange qp|exchange qpn|between server and client|between server and clients|\
             ethernet_read|ethernet_write|ethernet_client|ethernet_server|send local address|\
             negotiate parameters|set up socket|listen to port|termination ack",
            FAILED_CALL,
        ],
        ErrorClass::OutOfBand,
        "the two ends could not exchange addresses over TCP",
        "Before RDMA both ends exchange addresses over TCP; the other end ended, is not started, or \
         runs another version or with other options.",
    ),
    row(
        &[RDMA, "listen|bind|listener"],
        ErrorClass::NoDevice,
        "the address belongs to no RDMA device",
        "The connection manager finds no RDMA device for this IP address.",
    )
    .only_with(&[ENODEV, EADDRNOTAVAIL]),
    row(
        &[
            "rdma_bind_addr|rdma_resolve_addr|rdma_cm_event_addr_error|rdma_listen|\
             rdma_resolve",
            FAILED,
        ],
        ErrorClass::NoDevice,
        "the address belongs to no RDMA device",
        "The connection manager finds no RDMA device for this IP address.",
    )
    .only_with(&[ENODEV, EADDRNOTAVAIL]),
    row(
        &["rdma_bind_addr|rdma_listen|bind|listen", RDMA],
        ErrorClass::OutOfBand,
        "the port is in use",
        "Another program listens on it: mostly an earlier run that has not ended.",
    )
    .only_with(&[EADDRINUSE]),
    row(
        &["invalid service id"],
        ErrorClass::NoAnswer,
        "the peer rejected the connection: nothing listens there",
        "No program at the peer listens on that RDMA port, or it listens on another address or device.",
    ),
    row(
        &[CM, "reject"],
        ErrorClass::NoAnswer,
        "the peer rejected the connection",
        "The peer's connection manager answered, but no program listens on that port (reason 8), or it \
         refused the parameters.",
    ),
    row(
        &[
            CM,
            "fail|error|err|unreachable|timed out|timeout|unexpected|unable|could not|\
             couldn't|cannot|can't|received|wait for",
        ],
        ErrorClass::NoAnswer,
        "a connection over the RDMA connection manager failed",
        "The peer's address or the route to it was not resolved, or the peer did not answer or refused.",
    ),
    row(
        &["lnet configure|starting up lni|configure lnet|lnet: configure|libcfs_get_ni", FAILED],
        ErrorClass::NoDevice,
        "LNet could not be started",
        "Its network interface does not exist or is down, or its module for RDMA is not loaded.",
    ),
    row(
        &[
            "nvme|iser|isert|srp|rpcrdma|xprtrdma|nfs|o2iblnd|kiblnd|lnet|ib0|ipoib|\
             smb_direct|smbdirect|smbd_|ceph|drbd",
            "rdma|rpcrdma|xprtrdma|o2ib|kiblnd|iser|srp|smbd_|multicast join",
            "fail|reject|rej received|timed out|timeout|error|lost|unreachable|closed|disconnected",
        ],
        ErrorClass::NoAnswer,
        "the peer of a storage or network service does not answer",
        "The kernel's connection over RDMA to this address was not accepted, or its requests got no answer.",
    ),
    row(
        &["mount.nfs", "protocol error|protocol not supported|no such device"],
        ErrorClass::NoAnswer,
        "an NFS server does not answer",
        "With the option `rdma` the server must listen on port 20049 for RDMA, and xprtrdma must be \
         loaded on both hosts.",
    ),
    row(
        &[
            "iscsi|iscsid|iscsiadm|iscsistart|iser|isert",
            "connection|connect|conn |portal|login|session|not connected|endpoint",
            "fail|error|timed out|timeout|refused|reset|lost|cannot|can't|could not|not connected|reject",
        ],
        ErrorClass::NoAnswer,
        "an iSCSI target does not answer",
        "The connection to the target (over TCP, or over RDMA with iSER) was not accepted, or got lost.",
    ),
    row(
        &["ptlrpc|lustre:|lustreerror", "network error|timed out|lost|in progress operations|has failed"],
        ErrorClass::NoAnswer,
        "a server of Lustre does not answer",
        "Requests to this address got no answer: the server is down, or the path to it.",
    ),
    row(
        &["o2ib|kiblnd|lnet", "timed out|timeout|no route|down|fail|error"],
        ErrorClass::NoAnswer,
        "LNet cannot reach a peer",
        "Requests to this address got no answer: the peer is down, or the path to it.",
    ),
    row(
        &[
            "madrpc|mad_rpc|sa_get_handle|sa query|path record|path_record|sminfo|smp_query|smp query|saquery|\
             perfquery",
            "fail|timed out|timeout|error|no sm|not found",
        ],
        ErrorClass::NoAnswer,
        "a management query got no answer",
        "The subnet manager or the queried port did not answer.",
    ),
    // TCP.
    row(
        &[RDMA, "make connection|exchange|handshake|out-of-band|oob|rendezvous|bootstrap", FAILED],
        ErrorClass::OutOfBand,
        "the two ends could not exchange addresses over TCP",
        "Before RDMA both ends exchange addresses over TCP; the other end ended, is not started, or \
         runs another version or with other options.",
    )
    .unless("remote key|rndv|rkey"),
    row(
        &[
            "segment descriptor|transfer_metadata|segment desc|open segment|publish segment|remote segment|\
             peer segment|local segment|metadata storage|metadata server|metadata store|storage plugin",
            "fail|error|unable|cannot|not found|could not",
        ],
        ErrorClass::OutOfBand,
        "the peer's description could not be fetched",
        "The transfer engine asks the peer or a metadata server over TCP; neither has the peer's \
         description, or none answers.",
    ),
    row(
        &[
            "unable to init the socket connection|couldn't connect to|couldn't read remote|\
             couldn't write local|couldn't write remote|\
             unable to open file descriptor for socket",
            ":0|:1|:2|:3|:4|:5|:6|:7|:8|:9|socket|remote address|local address",
        ],
        ErrorClass::OutOfBand,
        "perftest could not reach its peer over TCP",
        "Before RDMA both ends exchange addresses over TCP, port 18515 by default.",
    ),
    row(
        &[RDMA, "no route to host|network is unreachable|host is down"],
        ErrorClass::NoAnswer,
        "the peer's address does not answer",
        "There is no route to the address, or nothing answers there.",
    ),
    row(
        &[
            RDMA,
            "connection refused|connection reset|broken pipe|connection closed|closed by|\
             disconnect|hello|socket|failed to connect|\
             failed to accept|bind to address|cannot bind|could not bind|bind failed|bind()|bind address|failed to bind|listen",
            "fail|refused|reset|broken|closed|error|unable|couldn't|could not|cannot|\
             disconnect",
        ],
        ErrorClass::OutOfBand,
        "a TCP connection to the peer failed",
        "The peer's process ended, does not listen yet, or listens elsewhere: look at its log first.",
    ),
    row(
        &[
            RDMA,
            "peer|remote|worker|rank|request|transfer|heartbeat|connection|recv|dispatch|\
             combine",
            "timed out|timeout|no response|not responding|unreachable|did not answer",
        ],
        ErrorClass::NoAnswer,
        "the peer does not answer",
        "The peer hangs or ended, or packets to it or from it are lost.",
    ),
];

/// What a program did with its peer, in its own words.
pub(super) const ACTIONS: &[Phrase] = &[
    row(
        &[
            RDMA,
            "timed out|timeout|timed-out|unreachable|no route|not respond|not answer|no response|\
             not alive|retrying|waiting",
            "connect|connection|peer|remote|rank|worker|server|client|request|operation|message|\
             transfer|host|node|store|key|address|path|query|handshake|collective|barrier|recv|send|\
             wait|join",
        ],
        ErrorClass::NoAnswer,
        "the peer does not answer",
        "The peer hangs or ended, or packets to it or from it are lost.",
    ),
    row(
        &[
            RDMA,
            "socket|tcp|rpc call|rpc head|rpc failed|http|etcd|zmq|metadata|rendezvous|bootstrap|\
             handshake|oob|out-of-band|out of band|side channel|exchange|accept|listen|hostname|\
             sock_ifname|magic|eof|end of file|closed|proxy|disconnect|grpc|publish segment",
            ANY_FAILED,
        ],
        ErrorClass::OutOfBand,
        "the two ends could not exchange data over TCP",
        "Before RDMA both ends exchange addresses over TCP; the other end ended, is not started, or \
         runs another version or with other options.",
    )
    .unless("remote key|rkey|rndv"),
    row(
        &[
            RDMA,
            "connect|connection|connecting|reconnect|peer|peers|route|resolve|resolution|multicast|\
             path record|reach |reachable|remote host|remote node|remote side|cm_id|cm id|service id",
            ANY_FAILED,
        ],
        ErrorClass::NoAnswer,
        "a connection to the peer failed",
        "The peer's address or the route to it was not resolved, or the peer did not answer or refused.",
    ),
];
