//! Queues and other objects that cannot be created, and work requests that are refused.

use super::{FAILED, FAILED_CALL, Phrase, RDMA, row};
use crate::explain::ErrorClass;
use crate::explain::errno::{
    EACCES, ECONNRESET, EINVAL, ENODEV, ENOENT, ENOMEM, ENOTCONN, EPERM, ETIMEDOUT,
};

/// Objects that could not be destroyed.
pub(super) const DESTROY: &[Phrase] = &[row(
    &[
        RDMA,
        "ibv_destroy|ibv_dealloc|ibv_dereg|destroy|dealloc|dereg|deregister|unregister|unregistering|\
         deregistering|fi_close|ibv_close|munmap|unmap|close device|close ep|close cq|to free|not free |\
         to release|not release ",
        "fail|unable|couldn't|could not|cannot|error",
    ],
    ErrorClass::Other,
    "an object could not be destroyed",
    "Something still uses it: memory before its queue pairs, or a protection domain before its \
     memory. Mostly a consequence of an earlier error while the program ends.",
)];

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["post_send|post send|posting|post_recv|post recv|ibv_post", RDMA],
        ErrorClass::NoAnswer,
        "the connection to the peer is gone",
        "A work request was refused, since the peer closed the connection or no longer answers.",
    )
    .only_with(&[ECONNRESET, ENOTCONN, ETIMEDOUT]),
    row(
        &["ibv_post_send|ibv_post_recv|ibv_post_srq_recv|ibv_post"],
        ErrorClass::LocalUse,
        "a work request was refused",
        "The queue is full (ENOMEM), or the request is invalid for this queue pair (EINVAL).",
    )
    .only_with(&[ENOMEM, EINVAL]),
    row(
        &[
            "post_send|post send|posting send|post_recv|post recv|posting recv|post a send|\
             post a recv|posting receive|post receive|post_srq_recv|ibv_post|\
             post work request|post wr|posting",
            "fail|error|unable|couldn't|could not|cannot|errno",
        ],
        ErrorClass::LocalUse,
        "a work request was refused",
        "The queue is full (ENOMEM), or the request is invalid for this queue pair (EINVAL).",
    ),
    row(
        &[
            RDMA,
            "open",
            "device|uverbs|/dev/infiniband|context|rdma_cm|umad",
            "fail|unable|couldn't|could not|cannot|can't|error",
        ],
        ErrorClass::Restricted,
        "this process may not open the device",
        "The device exists, but its node under /dev/infiniband may not be opened.",
    )
    .only_with(&[EACCES, EPERM]),
    row(
        &[
            RDMA,
            "permission denied|operation not permitted|eacces|eperm|not permitted|\
             access denied|cap_net_raw|not privileged",
        ],
        ErrorClass::Restricted,
        "this process lacks a permission",
        "The kernel refuses the file, device or call to this user or container.",
    ),
    row(
        &["hfi_userinit|assign_context|hfi unit", FAILED],
        ErrorClass::Creation,
        "an Omni-Path device gave no context",
        "All contexts of the device are in use, or its node may not be opened.",
    )
    .unless("<info>|<debug>"),
    row(
        &["fail to open rdma device|failed to open rdma device|failed to open device "],
        ErrorClass::Restricted,
        "the device cannot be opened",
        "It was found, but could not be opened: mostly this process may not use its node under \
         /dev/infiniband, or the NIC's library is missing.",
    )
    .unless("/dev/|usb|audio|video|sound|tun|disk|block|camera|serial"),
    row(
        &[
            RDMA,
            "ibv_open_device|open device|open_device|open ib device|import ib device|\
             open the device|open umad|opening device",
            FAILED,
        ],
        ErrorClass::NoDevice,
        "the device is gone",
        "It was listed, but no longer exists for this process.",
    )
    .only_with(&[ENODEV, ENOENT]),
    row(
        &[
            RDMA,
            "ibv_open_device|open device|open_device|open ib device|import ib device|\
             open the device|open hca",
            FAILED,
        ],
        ErrorClass::Creation,
        "the device could not be opened",
        "It exists, but the driver or its library refused: too many users, a missing right, or \
         versions that do not fit together.",
    ),
    row(
        &["qpair|rqpair|nvmf|nvme_fabric", "connect", "unable to connect|connect command|connect the|fail"],
        ErrorClass::NoAnswer,
        "the target of NVMe over RDMA does not answer",
        "The connection to the target was not accepted, or its answer did not come.",
    )
    .unless("create admin|create_qp failed|rdma_create_qp|initialize"),
    row(
        &["keep alive timeout|keep-alive timeout|keepalive timeout"],
        ErrorClass::NoAnswer,
        "the peer no longer answers",
        "Keep-alive messages did not come in time: the peer ended, hangs, or packets are lost.",
    ),
    row(
        &[RDMA, "assertion|assert"],
        ErrorClass::Other,
        "a program stopped at an assertion",
        "A check within the program failed: mostly an error of the program, or a consequence of an \
         earlier one.",
    ),
    row(
        &[
            "create|creat|alloc|allocate|resize|init|initialize|setup|set up|open|obj_create|\
             import",
            "qp|cq|srq|ah|pd|dct|dci|ibv_create|queue pair|completion queue|\
             completion channel|comp_channel|comp channel|event channel|event_channel|\
             protection domain|address handle|devx|queue_pair|flow|xrc|mkey|uar|td|rq|tir|sq|\
             ib resources|createcompchannel|createqp|createcq|ctx|ibv_alloc|cm id|cm_id|\
             qpair|endpoint|ib_mad|rdma resources|rdma endpoint",
            "rdma|ibv_|mlx|verbs|infiniband|alloc pd|alloc_pd|allocate pd|hfi|qp|cq|srq|dct|\
             dci|devx|event_channel|hca|ib |openib|ib_|efa|perftest|couldn't create|\
             unable to create",
            "fail|unable|couldn't|could not|cannot|can't|error|err",
        ],
        ErrorClass::Creation,
        "a queue pair or another object could not be created",
        "A limit of the NIC or of the cgroup is reached, memory could not be pinned, or the requested \
         kind or size is not supported.",
    )
    .unless("not find|not found|can't find|cannot find|unable to find|failed to find"),
];

/// What a program did with an object, in its own words.
pub(super) const ACTIONS: &[Phrase] = &[
    row(
        &[RDMA, "pin|pinning|pinned|unpin", "memory|page|pages|buffer|region|user pages", FAILED_CALL],
        ErrorClass::Registration,
        "memory could not be pinned",
        "The kernel refused to pin the memory, or the NIC refused to register it.",
    ),
    row(&[RDMA, ACTION, OBJECT, FAILED_CALL], ErrorClass::NoDevice, NO_DEVICE.0, NO_DEVICE.1)
        .only_with(&[ENODEV]),
    row(
        &[RDMA, ACTION, OBJECT, FAILED_CALL],
        ErrorClass::Creation,
        "a queue pair or another object could not be created",
        "A limit of the NIC or of the cgroup is reached, memory could not be pinned, or the requested \
         kind or size is not supported.",
    )
    .unless("not find|not found|can't find|cannot find|unable to find|failed to find"),
];

const ACTION: &str = "create|creat|alloc|allocat|init|initial|open |open(|opening|setup|set up|setting up|\
             construct|enable|enabling|bind|attach|prepare|import|resize|new |setup_|add |reserve";
const OBJECT: &str = "qp|cq|srq|pd|ah|av|eq|wq|rq|sq|ep|md|uar|dct|dci|endpoint|queue|worker|context|ctx|\
             domain|\
             fabric|listener|channel|resource|object|pool|mpool|iface|handle|stream|event|engine|\
             address vector|address handle|protection domain|comm |communicator|session|thread|tx|rx|\
             buffer|buffers|memory|flow|table|counter|group";
const NO_DEVICE: (&str, &str) = (
    "the device does not exist",
    "The device that the program uses does not exist, or not any more.",
);
