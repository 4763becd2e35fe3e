//! What causes errors, and which of the doctor's checks looks for it.

use super::Subject;

/// A cause.
#[derive(Debug)]
pub(super) struct Cause {
    pub(super) text: &'static str,
    pub(super) check: Option<&'static str>,
    pub(super) remedy: &'static str,
    /// It stands first whatever is found on this machine.
    pub(super) first: bool,
}

const fn seen_by(check: &'static str, text: &'static str, remedy: &'static str) -> Cause {
    Cause { text, check: Some(check), remedy, first: false }
}

const fn first(check: &'static str, text: &'static str, remedy: &'static str) -> Cause {
    Cause { text, check: Some(check), remedy, first: true }
}

const fn told(text: &'static str, remedy: &'static str) -> Cause {
    Cause { text, check: None, remedy, first: false }
}

impl Subject {
    /// Likeliest first.
    pub(super) fn causes(self) -> &'static [Cause] {
        match self {
            Subject::LocalProtection => LOCAL_PROTECTION,
            Subject::RetryExceeded => RETRY_EXCEEDED,
            Subject::WrongGid => WRONG_GID,
            Subject::Flushed => FLUSHED,
            Subject::NotReady => NOT_READY,
            Subject::RemoteAccess | Subject::RemoteUse => REMOTE,
            Subject::LocalUse => LOCAL_USE,
            Subject::Registration => REGISTRATION,
            Subject::GpuRegistration | Subject::NoGpuDirect => GPU_MEMORY,
            Subject::Creation => CREATION,
            Subject::NoDevice | Subject::Fallback => NO_DEVICE,
            Subject::NoLibrary => NO_LIBRARY,
            Subject::NoAnswer => NO_ANSWER,
            Subject::OutOfBand => OUT_OF_BAND,
            Subject::EfaPeer => EFA_PEER,
            Subject::EfaReach => EFA_REACH,
            Subject::CardHealth | Subject::Command => CARD,
            Subject::Restricted => RESTRICTED,
            Subject::Pcie | Subject::PcieCorrected => PCIE,
            Subject::IommuFault => IOMMU,
            Subject::Gpu => GPU,
            Subject::PortDown => PORT,
            Subject::Frequency => FREQUENCY,
            Subject::Other => &[],
        }
    }
}

const LOCAL_PROTECTION: &[Cause] = &[
    first(
        "iommu",
        "the IOMMU translates the card's accesses, also in virtual machines",
        "Add `iommu=pt` (Arm: `iommu.passthrough=1`) to the kernel's command line and restart; `wirelane k8s machineconfig` for OpenShift.",
    ),
    first(
        "acs",
        "ACS on a PCIe switch sends what card and GPU say to each other up to the root",
        "Switch ACS off in the firmware set-up, or by setpci until the next restart.",
    ),
    seen_by(
        "gpudirect",
        "the peer memory module does not fit the GPU's driver",
        "Reload nvidia-peermem after each driver update; or use DMA-BUF with the open modules.",
    ),
    told(
        "GPU memory is the matter at all",
        "To prove it: run once with NCCL_NET_GDR_LEVEL=0 (UCX: UCX_IB_GPU_DIRECT_RDMA=n). If that works, it is the way between card and GPU.",
    ),
    told(
        "the program gave a wrong key or range, or freed memory that was in flight",
        "Without GPUs in play this is the likeliest: look at the program.",
    ),
];

const RETRY_EXCEEDED: &[Cause] = &[
    seen_by(
        "gid",
        "the wrong GID: a link-local one, RoCE v1, or one of another network",
        "Set no fixed GID index; `wirelane env` says what to set, `wirelane devices` shows the table.",
    ),
    seen_by(
        "ports",
        "the port or the way to the peer is down",
        "Look at cables, switches and routes; `wirelane doctor --peer HOST` compares both ends.",
    ),
    seen_by(
        "mtu",
        "packets larger than the way allows",
        "Give both ends and every switch between one MTU.",
    ),
    seen_by(
        "losses",
        "packets are dropped on the way",
        "Look at the switches' drops, at PFC and ECN.",
    ),
    seen_by(
        "flow-control",
        "the network is not lossless",
        "PFC on RoCE's priority at every hop, and NCCL_IB_TC or UCX_IB_TRAFFIC_CLASS to match.",
    ),
    seen_by(
        "firewall",
        "a packet filter or an ACL of a switch drops UDP port 4791",
        "Let it in, at both ends and between.",
    ),
    seen_by("link-errors", "a bad cable", "Reseat, then replace it."),
    told(
        "the peer's process ended or hangs",
        "Look at the peer's log first: this may only be the echo.",
    ),
    told(
        "the two ports are on rails that are not connected",
        "NCCL_CROSS_NIC=0 keeps to one rail.",
    ),
];

const WRONG_GID: &[Cause] = &[
    seen_by(
        "gid",
        "GID 0 was chosen, which is link-local RoCE v1, or an entry of another network namespace",
        "IPv6-only fabrics: NCCL_IB_ADDR_FAMILY=AF_INET6. Else set no fixed index; `wirelane env` says what to set.",
    ),
    seen_by(
        "gid-tables",
        "one GID index was set for ports whose tables differ",
        "Unset NCCL_IB_GID_INDEX.",
    ),
    seen_by(
        "netns",
        "the net device is in another network namespace",
        "Give the pod the port's net device, or the host's network.",
    ),
    seen_by(
        "mtu",
        "packets larger than the way allows",
        "Give both ends and every switch between one MTU.",
    ),
];

const FLUSHED: &[Cause] = &[
    told(
        "an earlier error, here or at the peer",
        "Look for the first line with another status, in the logs of both ends, and explain that one.",
    ),
    seen_by(
        "acs",
        "ACS on a PCIe switch, if the first error was a protection error",
        "Switch ACS off in the firmware set-up.",
    ),
    seen_by("kernel-log", "the card or the bus failed", "Look at the kernel's log of that time."),
];

const NOT_READY: &[Cause] = &[
    told(
        "the peer's program is too slow, or hangs, and posts no receives",
        "Look at the peer: is it stopped, swapping, in a debugger, or at another point of the program?",
    ),
    told(
        "retries for this are set too low",
        "Set rnr_retry to 7, which is for ever; UCX: UCX_RC_RNR_RETRY_COUNT.",
    ),
];

const REMOTE: &[Cause] = &[
    told(
        "key, address or length of the peer's memory is wrong, or its registration is gone",
        "Look at the program, at the end that handed out the key; a restarted peer has other keys.",
    ),
    told(
        "the memory was registered without the right that is asked for",
        "Register with remote write, read or atomic rights as needed.",
    ),
    seen_by(
        "iommu",
        "the peer's card could not reach its own memory (IOMMU, ACS): run this at the peer",
        "`iommu=pt` at the peer.",
    ),
];

const LOCAL_USE: &[Cause] = &[
    told(
        "the work request does not fit: too long, too many pieces, a wrong opcode for this queue pair, an inline send beyond the limit",
        "Look at the program; compare with the device's limits (`ibv_devinfo -v`).",
    ),
    told(
        "the receive is shorter than the message",
        "Post receives as long as the longest message.",
    ),
];

const REGISTRATION: &[Cause] = &[
    seen_by(
        "memlock",
        "the limit on locked memory",
        "`ulimit -l unlimited`, limits.d, LimitMEMLOCK=infinity; in pods IPC_LOCK and root. `wirelane exec -- COMMAND` raises what it may.",
    ),
    seen_by(
        "gpudirect",
        "GPU memory, and nothing that gives it to the card",
        "modprobe nvidia-peermem, or NVIDIA's open modules.",
    ),
    seen_by(
        "guid",
        "a virtual function without a GUID",
        "Give it one: ib-kubernetes, or `ip link set PF vf N node_guid …`.",
    ),
    seen_by("cgroup", "the control group's limit on RDMA objects", "Raise rdma.max."),
    told(
        "the machine is out of memory",
        "Look at `free` and the control group's memory limit: pinned memory counts.",
    ),
];

const GPU_MEMORY: &[Cause] = &[
    seen_by(
        "gpudirect",
        "no peer memory module, and no DMA-BUF",
        "modprobe nvidia-peermem, or NVIDIA's open modules with Linux 5.12 and later.",
    ),
    seen_by("iommu", "the IOMMU translates", "`iommu=pt` on the kernel's command line."),
    seen_by(
        "numa",
        "card and GPU are too far apart for NCCL's liking",
        "`wirelane topo` shows distances; NCCL_NET_GDR_LEVEL=SYS allows the farthest.",
    ),
];

const CREATION: &[Cause] = &[
    seen_by(
        "memlock",
        "the limit on locked memory: queues are pinned too",
        "`ulimit -l unlimited`.",
    ),
    seen_by("cgroup", "the control group's limit on RDMA objects", "Raise rdma.max."),
    seen_by("guid", "a virtual function without a GUID", "Give it one."),
    told(
        "queues deeper than the device allows",
        "Ask for fewer entries; `ibv_devinfo -v` shows max_qp_wr and max_cqe.",
    ),
    told("other processes hold all queue pairs", "`rdma resource show` counts them."),
];

const NO_DEVICE: &[Cause] = &[
    seen_by("ports", "no port is active", "Bring the link up."),
    seen_by(
        "rights",
        "this process may not open the device, or was not given it",
        "Request the device plugin's resource; check /dev/infiniband.",
    ),
    seen_by(
        "modules",
        "a kernel module is not loaded",
        "modprobe ib_uverbs, and the card's RDMA driver.",
    ),
    seen_by(
        "memlock",
        "memory could not be locked, so the device was given up",
        "`ulimit -l unlimited`.",
    ),
    seen_by("gid", "no port has an address that can be used", "Address the net device."),
    told(
        "the settings rule it out",
        "Look at NCCL_IB_DISABLE, NCCL_IB_HCA (names match by prefix; `=` makes them exact), NCCL_NET, UCX_NET_DEVICES, UCX_TLS.",
    ),
    told(
        "libibverbs or the card's library is not in the container",
        "Install rdma-core's libibverbs1 and ibverbs-providers.",
    ),
    told(
        "it is EFA, which NCCL reaches by its plugin alone",
        "Install aws-ofi-nccl (libnccl-net.so); NCCL_IB_HCA is not for it.",
    ),
];

const NO_LIBRARY: &[Cause] = &[
    told(
        "rdma-core is not installed",
        "apt install libibverbs1 ibverbs-providers; dnf install libibverbs. Wirelane's own discovery does not need it.",
    ),
    told(
        "the library is in a place that is not searched",
        "LD_LIBRARY_PATH, or /etc/ld.so.conf.d.",
    ),
];

const NO_ANSWER: &[Cause] = &[
    seen_by(
        "gid",
        "the wrong GID: the card asked on the wrong network",
        "Set no fixed GID index; `wirelane env` says what to set.",
    ),
    told(
        "the peer's address is not in a network that this port reaches",
        "`wirelane doctor --peer HOST` compares subnets; on rails that are not connected NCCL_CROSS_NIC=0.",
    ),
    seen_by("ports", "a port is down at one end", "Bring the link up."),
    seen_by(
        "netns",
        "the net device is in another network namespace, so nobody answers ARP",
        "Give the pod the port's net device.",
    ),
    told("on InfiniBand: the subnet manager does not answer", "`sminfo`; look at its log."),
];

const OUT_OF_BAND: &[Cause] = &[
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

const EFA_PEER: &[Cause] = &[
    told(
        "the peer's process ended or hangs",
        "Look at the peer's log first: this may only be the echo.",
    ),
    told(
        "the instances' security group does not let all traffic of the group in and out",
        "A rule for all traffic from and to the group itself, both ways.",
    ),
    seen_by(
        "losses",
        "packets were lost for too long",
        "Look at retrans_timeout_events and unresponsive_remote_events.",
    ),
];

const EFA_REACH: &[Cause] = &[
    told(
        "the instances' security group does not let all traffic of the group in and out",
        "A rule for all traffic from and to the group itself, both ways.",
    ),
    told(
        "the two are in different subnets or availability zones",
        "EFA's traffic is not routed: put them into one subnet.",
    ),
    told("the address is stale", "A restarted peer has another address: exchange addresses anew."),
];

const CARD: &[Cause] = &[
    seen_by(
        "kernel-log",
        "the card's firmware failed",
        "Update the firmware; restart with power off; then replace the card.",
    ),
    seen_by("aer", "the PCIe link to the card has errors", "Reseat the card and its riser."),
    seen_by("pcie", "the PCIe link came up badly", "Reseat the card; try another slot."),
    seen_by(
        "versions",
        "driver and firmware do not fit",
        "Bring both to versions that belong together.",
    ),
];

const RESTRICTED: &[Cause] = &[seen_by(
    "restricted",
    "a monitoring program reads counters of a function that another manager has",
    "Leave these functions out: node_exporter has `--collector.infiniband.device-exclude`. Wirelane asks once and remembers.",
)];

const PCIE: &[Cause] = &[
    seen_by(
        "aer",
        "a bad contact, riser or cable",
        "Reseat the card and its riser; then try another slot.",
    ),
    seen_by(
        "pcie",
        "the link came up narrower or slower",
        "Reseat the card; look at the slot's settings.",
    ),
    told(
        "power management of the link",
        "pcie_aspm=off on the kernel's command line shows whether it is that.",
    ),
];

const IOMMU: &[Cause] = &[
    first(
        "iommu",
        "the IOMMU translates, and something reaches past what was mapped: GPUDirect does",
        "`iommu=pt` on the kernel's command line.",
    ),
    told(
        "the card was reset or its driver went while work was in flight",
        "Look at the lines before.",
    ),
    seen_by(
        "gpudirect",
        "the peer memory module does not fit the GPU's driver",
        "Reload nvidia-peermem after each driver update.",
    ),
];

const GPU: &[Cause] = &[
    seen_by(
        "kernel-log",
        "the GPU or its link failed",
        "Look at the lines before; a lost GPU needs a restart, one that does it again a replacement.",
    ),
    seen_by("pcie", "the GPU's PCIe link came up badly", "Reseat it."),
    seen_by("aer", "its PCIe link has errors", "Reseat it; update firmware."),
];

const PORT: &[Cause] = &[
    seen_by("ports", "the link is down", "Check cable, transceiver and the switch's port."),
    seen_by("link-errors", "the link comes and goes", "Reseat, then replace the cable."),
];

const FREQUENCY: &[Cause] = &[
    seen_by("governor", "a governor that saves power", "cpupower frequency-set -g performance."),
    seen_by("idle", "deep idle states", "`wirelane tune plan --profile latency`."),
];
