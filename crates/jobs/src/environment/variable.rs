//! Variables that libraries read, with the reasons for their values.

use std::collections::BTreeMap;

use node::Node;
use serde::Serialize;

use super::fabric::has_several_subnets;
use super::gid::GidPolicy;
use super::usable_port::{PortKind, UsablePort};

/// One variable of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// `NCCL_IB_HCA`; Open MPI's begin with `OMPI_MCA_`.
    pub name: String,
    /// The value, ours or the user's.
    pub value: String,
    /// The reason.
    pub why: String,
    /// Whether it is the user's own, which is kept.
    pub is_users: bool,
}

/// Variables in the order in which they are written; those in the environment keep their value.
#[derive(Debug)]
pub(super) struct Variables<'e> {
    environment: &'e BTreeMap<String, String>,
    pub(super) list: Vec<Variable>,
    /// Notes on the user's values that differ from ours.
    pub(super) notes: Vec<String>,
}

impl<'e> Variables<'e> {
    pub(super) fn new(environment: &'e BTreeMap<String, String>) -> Self {
        Variables { environment, list: Vec::new(), notes: Vec::new() }
    }

    fn set(&mut self, name: &str, value: impl Into<String>, why: &str) {
        let ours = value.into();
        let theirs = self.environment.get(name);
        if let Some(theirs) = theirs.filter(|theirs| **theirs != ours) {
            self.notes.push(format!(
                "{name} is already set to {theirs:?} and is kept; for this host it would be {ours:?}"
            ));
        }
        self.list.push(Variable {
            name: name.to_owned(),
            value: theirs.cloned().unwrap_or(ours),
            why: if theirs.is_some() { "set by you".to_owned() } else { why.to_owned() },
            is_users: theirs.is_some(),
        });
    }

    /// Notes the effect of a variable of the user on the plan.
    fn note_if_set(&mut self, name: &str, applies: impl Fn(&str) -> bool, effect: &str) {
        if self.environment.get(name).is_some_and(|value| applies(value)) {
            self.notes.push(format!("{name} is set: {effect}"));
        }
    }

    /// InfiniBand and RoCE: NCCL's own transport, UCX, and Open MPI over UCX.
    pub(super) fn verbs(&mut self, usable_ports: &[UsablePort], gids: Option<&GidPolicy>) {
        let names: Vec<String> = usable_ports.iter().map(UsablePort::name).collect();
        let names = names.join(",");
        self.set("NCCL_IB_HCA", format!("={names}"), "only these ports: `=` is an exact match");
        if let Some(policy) = gids {
            self.gids(policy);
        }
        if has_several_subnets(usable_ports) {
            self.set(
                "NCCL_CROSS_NIC",
                "0",
                "ports of different InfiniBand subnets cannot reach each other",
            );
        }
        let off = |value: &str| value.trim().parse() != Ok(0u32);
        self.note_if_set("NCCL_IB_DISABLE", off, "NCCL will not use RDMA");
        self.note_if_set(
            "NCCL_IB_HCA",
            is_prefix,
            "without a leading `=`, mlx5_1 also matches mlx5_10 to mlx5_19",
        );
        if usable_ports.iter().any(UsablePort::is_omni_path) {
            self.notes.push(OMNI_PATH.to_owned());
        } else {
            self.ucx(usable_ports, names);
        }
    }

    /// UCX, and Open MPI over it.
    fn ucx(&mut self, usable_ports: &[UsablePort], names: String) {
        self.set("UCX_NET_DEVICES", names, "only these ports");
        self.set("OMPI_MCA_pml", "ucx", "otherwise Open MPI silently falls back to TCP");
        self.set("OMPI_MCA_osc", "ucx", "one-sided operations over the same transport");
        self.set("OMPI_MCA_btl", "^openib", "Open MPI 4 would warn about it; Open MPI 5 has none");
        if !usable_ports.iter().all(|usable| usable.device.name.starts_with("mlx")) {
            self.set(
                "OMPI_MCA_opal_common_ucx_devices",
                "any",
                "by default Open MPI uses only devices named mlx*",
            );
        }
    }

    fn gids(&mut self, policy: &GidPolicy) {
        match policy {
            GidPolicy::Index(index, _) => {
                self.set(
                    "NCCL_IB_GID_INDEX",
                    index.to_string(),
                    "it is the same on all these ports",
                );
            }
            GidPolicy::ByAddress(kind, range) => {
                self.set(
                    "NCCL_IB_ADDR_FAMILY",
                    kind.family(),
                    "the family of the ports' addresses",
                );
                self.set("NCCL_IB_ROCE_VERSION_NUM", kind.version.to_string(), "RoCE's version");
                if let Some(range) = range {
                    self.set(
                        "NCCL_IB_ADDR_RANGE",
                        range.to_string(),
                        "which of several addresses to use",
                    );
                }
                let is_fixed = |value: &str| value.trim() != "-1";
                let effect = "it fixes an index of the GID table, which differs between hosts";
                self.note_if_set("NCCL_IB_GID_INDEX", is_fixed, effect);
            }
        }
    }

    /// EFA: libfabric, which NCCL uses through a plugin (`libnccl-net`).
    pub(super) fn efa(&mut self) {
        self.set("FI_PROVIDER", "efa", "EFA is used through libfabric");
        self.note_if_set("NCCL_IB_HCA", |_| true, "it has no effect on EFA, which is no HCA");
    }

    /// No RDMA: set for each library, so that none of them tries it.
    pub(super) fn tcp(&mut self, node: &Node, interface: Option<&str>) {
        self.set("NCCL_IB_DISABLE", "1", "no RDMA");
        self.set("UCX_TLS", ucx_without_rdma(node), "no RDMA, but shared memory and GPUs");
        self.set("OMPI_MCA_pml", "ob1", "Open MPI's own transport over TCP");
        self.set("OMPI_MCA_btl", "^openib,uct", "all but RDMA: `^` excludes each of the list");
        if let Some(interface) = interface {
            self.set("UCX_NET_DEVICES", interface, "it leads to the peers");
            self.set("OMPI_MCA_btl_tcp_if_include", interface, "it leads to the peers");
        }
    }

    /// NCCL's bootstrap connection, whatever transfers the data.
    pub(super) fn socket(&mut self, interface: Option<&str>) {
        if let Some(interface) = interface {
            self.set("NCCL_SOCKET_IFNAME", format!("={interface}"), "it leads to the peers");
        }
    }
}

/// Whether a user's list matches by prefix.
fn is_prefix(list: &str) -> bool {
    !list.trim_start_matches('^').starts_with('=')
}

fn ucx_without_rdma(node: &Node) -> String {
    let has = |vendor: &str| node.gpus.iter().any(|gpu| gpu.vendor.as_deref() == Some(vendor));
    let mut transports = vec!["tcp", "sm", "self"];
    transports.extend(has("NVIDIA").then_some("cuda"));
    transports.extend(has("AMD").then_some("rocm"));
    transports.join(",")
}

/// Why UCX and Open MPI are not configured there.
const OMNI_PATH: &str = "Omni-Path: UCX and Open MPI are not configured; Open MPI uses its own transport by default \
                         (`OMPI_MCA_pml=cm` with the MTL psm2)";

impl PortKind {
    /// Whether it uses verbs.
    pub(super) fn is_verbs(self) -> bool {
        self != PortKind::Efa
    }
}
