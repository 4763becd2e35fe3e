//! Peers that do not answer.

use super::{Cause, on_note, on_warning, unchecked};
use crate::explain::errno::{
    EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH,
    EINVAL, ENETUNREACH, ENODEV, ENOTCONN, EPIPE, ETIMEDOUT,
};

pub(super) const RETRY_EXCEEDED: &[Cause] = &[
    on_note(
        "gid",
        "the wrong GID: link-local, RoCE v1, or of another network",
        "Do not set a fixed GID index; `wirelane env` prints what to set, `wirelane devices` the \
         GID table.",
    )
    // bnxt_re reports vendor error 0xa when GID 0 was chosen, which is link-local RoCE v1.
    .pointed_to_by("vendor_err=0xa|bnxt"),
    on_warning(
        "ports",
        "the port or the path to the peer is down",
        "Check cables, switches and routes; `wirelane doctor --peer HOST` compares both ends.",
    ),
    on_note(
        "mtu",
        "packets larger than the path's MTU",
        "Set the same MTU at both ends and on every switch between.",
    ),
    on_note(
        "losses",
        "packets are dropped between the hosts",
        "Check the switches' drops, PFC and ECN.",
    ),
    on_note(
        "flow-control",
        "the network is not lossless",
        "Enable PFC on RoCE's priority at every hop, and set NCCL_IB_TC or UCX_IB_TRAFFIC_CLASS \
         to match.",
    ),
    on_warning(
        "firewall",
        "a firewall or a switch ACL drops UDP port 4791",
        "Accept it at both ends and between.",
    ),
    on_note("link-errors", "a bad cable", "Reseat it, then replace it."),
    unchecked(
        "the peer's process ended or hangs",
        "Check the peer's log first: this may be a consequence.",
    ),
    unchecked(
        "the two ports are on rails that are not connected",
        "NCCL_CROSS_NIC=0 uses one rail.",
    ),
];

pub(super) const WRONG_GID: &[Cause] = &[
    on_note(
        "gid",
        "GID 0 was chosen, which is link-local RoCE v1, or an entry of another network namespace",
        "IPv6-only fabrics: NCCL_IB_ADDR_FAMILY=AF_INET6. Otherwise do not set a fixed GID index; \
         `wirelane env` prints what to set.",
    ),
    on_note(
        "gid-tables",
        "one GID index was set for ports whose tables differ",
        "Unset NCCL_IB_GID_INDEX.",
    ),
    on_warning(
        "netns",
        "the net device is in another network namespace",
        "Give the pod the port's net device, or use the host's network.",
    )
    .with_errno(&[ENODEV, ENETUNREACH]),
    on_note(
        "mtu",
        "an MTU that the port does not support, or that differs at the two ends",
        "Set the same MTU at both ends and on every switch between.",
    )
    .with_errno(&[EINVAL]),
];

pub(super) const FLUSHED: &[Cause] = &[
    unchecked(
        "an earlier error, here or at the peer",
        "Find the first line with another status in the logs of both ends, and explain that one.",
    ),
    on_warning(
        "acs",
        "ACS on a PCIe switch, if the first error was a protection error",
        "Disable ACS in the firmware setup.",
    ),
    on_note("kernel-log", "the NIC or its PCIe link failed", "Check the kernel log of that time."),
];

pub(super) const NOT_READY: &[Cause] = &[
    unchecked(
        "the peer's program is too slow or hangs, and posts no receives",
        "Check the peer: is it stopped, swapping, in a debugger, or at another point of the \
         program?",
    ),
    unchecked(
        "rnr_retry is set too low",
        "Set rnr_retry to 7, which retries forever; UCX: UCX_RC_RNR_RETRY_COUNT.",
    ),
];

pub(super) const NO_ANSWER: &[Cause] = &[
    unchecked(
        "nothing listens at the peer on that RDMA port or address",
        "Start the service there; check its address, port and device.",
    )
    .proven_by("invalid service id")
    .pointed_to_by("reject"),
    unchecked(
        "a rank hangs, ended, or waits in another collective",
        "Compare the last operation of all ranks, and look for the first error in all logs; raise the \
         timeout only if a step is known to take that long.",
    )
    .pointed_to_by("watchdog|worknccl|processgroupnccl|collective|waiting for clients|deepep"),
    unchecked(
        "the address is of a network that this host does not reach, or a firewall drops the packets",
        "`ip route get ADDRESS`, `ping`; choose the interface with NCCL_SOCKET_IFNAME or \
         GLOO_SOCKET_IFNAME, and accept its ports.",
    )
    .pointed_to_by("socket|c10d|tcpstore|gloo|no route to host|host is down"),
    on_note(
        "gid",
        "the wrong GID: the address was resolved on the wrong network",
        "Do not set a fixed GID index; `wirelane env` prints what to set.",
    )
    .pointed_to_by("modify_qp|modify qp|to rtr"),
    unchecked(
        "the peer's address is not in a network that this port reaches",
        "`wirelane doctor --peer HOST` compares subnets; for rails that are not connected set \
         NCCL_CROSS_NIC=0.",
    )
    .pointed_to_by("modify_qp|modify qp|to rtr|unreachable"),
    on_warning("ports", "a port is down at one end", "Bring the link up."),
    on_warning(
        "netns",
        "the net device is in another network namespace, so that ARP is not answered",
        "Give the pod the port's net device.",
    ),
    unchecked("on InfiniBand: the subnet manager does not answer", "Run `sminfo`; check its log."),
];

pub(super) const OUT_OF_BAND: &[Cause] = &[
    unchecked(
        "the other process ended, or closed the connection",
        "Look for the first error in its log: this line is a consequence.",
    )
    .proven_by(
        "closed by remote|closed by peer|connection closed|connection reset|broken pipe|\
             closed by local",
    )
    .pointed_to_by("failed to read|proxy service|service thread|call to recv")
    .with_errno(&[ECONNRESET, EPIPE, ECONNABORTED, ENOTCONN]),
    unchecked(
        "the server is not running, or has already served its one client",
        "Start the server first; a perftest server serves one run.",
    )
    .pointed_to_by("couldn't connect|unable to init the socket|exchange data|segment descriptor")
    .with_errno(&[ECONNREFUSED]),
    unchecked(
        "another program, job or version connected to the port",
        "Use the same version at both ends, and other ports for jobs on the same hosts.",
    )
    .proven_by("wrong type|wrong magic|already in use")
    .with_errno(&[EADDRINUSE]),
    unchecked(
        "the name or address belongs to another network, or the wrong interface is used",
        "Use an address that this host can reach: `ping`, `ip route get`; NCCL_SOCKET_IFNAME and \
         GLOO_SOCKET_IFNAME select the interface, NCCL_SOCKET_FAMILY the kind of address.",
    )
    .proven_by("no socket interface|address family not supported")
    .with_errno(&[EAFNOSUPPORT, EADDRNOTAVAIL, ENETUNREACH, EHOSTUNREACH, ETIMEDOUT]),
    on_warning(
        "firewall",
        "a firewall drops the TCP port (perftest: 18515)",
        "Accept it, or choose another port (perftest: -p at both ends).",
    )
    .with_errno(&[ETIMEDOUT, EHOSTUNREACH, ECONNREFUSED]),
];

pub(super) const EFA_PEER: &[Cause] = &[
    unchecked(
        "the peer's process ended or hangs",
        "Check the peer's log first: this may be a consequence.",
    ),
    unchecked(
        "the instances' security group does not allow all traffic within the group",
        "Add a rule for all traffic from and to the group itself, in both directions.",
    ),
    on_note(
        "losses",
        "packets were lost for too long",
        "Check the counters retrans_timeout_events and unresponsive_remote_events.",
    ),
];

pub(super) const EFA_REACH: &[Cause] = &[
    unchecked(
        "the instances' security group does not allow all traffic within the group",
        "Add a rule for all traffic from and to the group itself, in both directions.",
    ),
    unchecked(
        "the instances are in different subnets or availability zones",
        "EFA traffic is not routed: put them into one subnet.",
    ),
    unchecked(
        "the address is stale",
        "A restarted peer has another address: exchange addresses again.",
    ),
];

pub(super) const PORT: &[Cause] = &[
    on_warning("ports", "the link is down", "Check cable, transceiver and switch port."),
    on_note("link-errors", "the link is flapping", "Reseat the cable, then replace it."),
];
