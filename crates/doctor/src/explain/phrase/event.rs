//! Asynchronous events of a device (`enum ibv_event_type`), by their C names and as `ibv_event_type_str` prints them. They
//! are read before completions, whose words are similar.

use super::{Phrase, row};
use crate::explain::ErrorClass;

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["async|event", "ibv_event_device_fatal|local catastrophic error"],
        ErrorClass::DeviceFatal,
        "the NIC failed: it must be reset",
        "The driver reported a fatal error of the device to the program; all operations on it fail \
         from now on.",
    ),
    row(
        &["rdma_cm_event_device_removal"],
        ErrorClass::DeviceFatal,
        "the NIC was removed",
        "The device was reset or its driver unloaded while the program used it.",
    ),
    row(
        &["async|event", "ibv_event_qp_req_err|invalid request local work queue error"],
        ErrorClass::RemoteUse,
        "a queue pair received an invalid request",
        "The peer sent a request that this queue pair does not support or not allow; the queue \
         pair is in the error state.",
    ),
    row(
        &["async|event", "ibv_event_qp_access_err|local access violation|dct access"],
        ErrorClass::RemoteAccess,
        "a queue pair received a request that its memory does not allow",
        "The peer accessed memory here with a wrong key, range or right; the queue pair is in the \
         error state.",
    ),
    row(
        &["async|event", "ibv_event_cq_err|cq error|cq overrun"],
        ErrorClass::LocalUse,
        "a completion queue overflowed",
        "More completions arrived than the queue has entries; all queue pairs that use it fail.",
    ),
    row(
        &["async|event", "ibv_event_port_err|port error|port down"],
        ErrorClass::PortDown,
        "a port went down",
        "The link was lost while the program ran.",
    ),
    row(
        &[
            "async|event",
            "ibv_event_qp_fatal|ibv_event_srq_err|local work queue catastrophic|qp fatal|\
             srq catastrophic|ibv_event_qp_last_wqe|last wqe reached|was flushed",
        ],
        ErrorClass::Flushed,
        "a queue pair failed",
        "The NIC reported a queue pair in the error state to the program; look for the first error \
         in other lines.",
    ),
    row(
        &[
            "async|ibv_event",
            "gid table change|ibv_event_gid_change|lid change|p_key change|pkey change|\
             sm change|client reregistration|port active|ibv_event_port_active|\
             ibv_event_sm_change|ibv_event_lid_change|ibv_event_pkey_change|\
             ibv_event_client_reregister",
        ],
        ErrorClass::Other,
        "the NIC reports a change of its port or addresses",
        "Not an error in itself: an address was added or removed, the port came up, or the subnet \
         manager changed something. Connections that use a removed address fail.",
    ),
    row(
        &["got async event", "fatal"],
        ErrorClass::NicHealth,
        "the NIC failed",
        "The driver reported a fatal error of the device to the program.",
    ),
    row(
        &["async fatal event"],
        ErrorClass::Flushed,
        "a queue pair failed",
        "The NIC reported a queue pair in the error state to the program; look for the first error \
         in other lines.",
    ),
];
