//! Peers that do not answer.

use super::{Cause, hinted_by, seen_by, told};

pub(super) const RETRY_EXCEEDED: &[Cause] = &[
    hinted_by(
        "gid",
        "the wrong GID: a link-local one, RoCE v1, or one of another network",
        "Set no fixed GID index; `wirelane env` says what to set, `wirelane devices` shows the \
         table.",
    ),
    seen_by(
        "ports",
        "the port or the path to the peer is down",
        "Look at cables, switches and routes; `wirelane doctor --peer HOST` compares both ends.",
    ),
    hinted_by(
        "mtu",
        "packets larger than the path's MTU",
        "Give both ends and every switch between one MTU.",
    ),
    hinted_by(
        "losses",
        "packets are dropped between the hosts",
        "Look at the switches' drops, at PFC and ECN.",
    ),
    hinted_by(
        "flow-control",
        "the network is not lossless",
        "PFC on RoCE's priority at every hop, and NCCL_IB_TC or UCX_IB_TRAFFIC_CLASS to match.",
    ),
    seen_by(
        "firewall",
        "a packet filter or an ACL of a switch drops UDP port 4791",
        "Let it in, at both ends and between.",
    ),
    hinted_by("link-errors", "a bad cable", "Reseat, then replace it."),
    told(
        "the peer's process ended or hangs",
        "Look at the peer's log first: this may only be the echo.",
    ),
    told(
        "the two ports are on rails that are not connected",
        "NCCL_CROSS_NIC=0 keeps to one rail.",
    ),
];

pub(super) const WRONG_GID: &[Cause] = &[
    hinted_by(
        "gid",
        "GID 0 was chosen, which is link-local RoCE v1, or an entry of another network namespace",
        "IPv6-only fabrics: NCCL_IB_ADDR_FAMILY=AF_INET6. Else set no fixed index; `wirelane env` \
         says what to set.",
    ),
    hinted_by(
        "gid-tables",
        "one GID index was set for ports whose tables differ",
        "Unset NCCL_IB_GID_INDEX.",
    ),
    seen_by(
        "netns",
        "the net device is in another network namespace",
        "Give the pod the port's net device, or the host's network.",
    ),
    hinted_by(
        "mtu",
        "packets larger than the path's MTU",
        "Give both ends and every switch between one MTU.",
    ),
];

pub(super) const FLUSHED: &[Cause] = &[
    told(
        "an earlier error, here or at the peer",
        "Look for the first line with another status, in the logs of both ends, and explain that \
         one.",
    ),
    seen_by(
        "acs",
        "ACS on a PCIe switch, if the first error was a protection error",
        "Switch ACS off in the firmware set-up.",
    ),
    hinted_by("kernel-log", "the card or the bus failed", "Look at the kernel's log of that time."),
];

pub(super) const NOT_READY: &[Cause] = &[
    told(
        "the peer's program is too slow, or hangs, and posts no receives",
        "Look at the peer: is it stopped, swapping, in a debugger, or at another point of the \
         program?",
    ),
    told(
        "retries for this are set too low",
        "Set rnr_retry to 7, which is for ever; UCX: UCX_RC_RNR_RETRY_COUNT.",
    ),
];

pub(super) const NO_ANSWER: &[Cause] = &[
    hinted_by(
        "gid",
        "the wrong GID: the card asked on the wrong network",
        "Set no fixed GID index; `wirelane env` says what to set.",
    ),
    told(
        "the peer's address is not in a network that this port reaches",
        "`wirelane doctor --peer HOST` compares subnets; on rails that are not connected \
         NCCL_CROSS_NIC=0.",
    ),
    seen_by("ports", "a port is down at one end", "Bring the link up."),
    seen_by(
        "netns",
        "the net device is in another network namespace, so nobody answers ARP",
        "Give the pod the port's net device.",
    ),
    told("on InfiniBand: the subnet manager does not answer", "`sminfo`; look at its log."),
];

pub(super) const OUT_OF_BAND: &[Cause] = &[
    told(
        "the server is not running, or has served its one client",
        "Start the server first; perftest serves one run.",
    ),
    seen_by(
        "firewall",
        "a packet filter drops TCP port 18515",
        "Let it in, or choose another port with -p at both ends.",
    ),
    told(
        "the name or address is that of another network",
        "Name the server by an address that this host reaches: `ping`, `ip route get`.",
    ),
];

pub(super) const EFA_PEER: &[Cause] = &[
    told(
        "the peer's process ended or hangs",
        "Look at the peer's log first: this may only be the echo.",
    ),
    told(
        "the instances' security group does not let all traffic of the group in and out",
        "A rule for all traffic from and to the group itself, in both directions.",
    ),
    hinted_by(
        "losses",
        "packets were lost for too long",
        "Look at retrans_timeout_events and unresponsive_remote_events.",
    ),
];

pub(super) const EFA_REACH: &[Cause] = &[
    told(
        "the instances' security group does not let all traffic of the group in and out",
        "A rule for all traffic from and to the group itself, in both directions.",
    ),
    told(
        "the two are in different subnets or availability zones",
        "EFA's traffic is not routed: put them into one subnet.",
    ),
    told("the address is stale", "A restarted peer has another address: exchange addresses anew."),
];

pub(super) const PORT: &[Cause] = &[
    seen_by("ports", "the link is down", "Check cable, transceiver and the switch's port."),
    hinted_by("link-errors", "the link comes and goes", "Reseat, then replace the cable."),
];
