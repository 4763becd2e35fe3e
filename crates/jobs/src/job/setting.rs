//! Variables that libraries read, and why they have their values.

use std::collections::BTreeMap;

use node::Node;
use serde::Serialize;

use super::gid::Policy;
use super::rail::{Rail, RailKind};

/// One variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// `NCCL_IB_HCA`; Open MPI's begin with `OMPI_MCA_`.
    pub name: String,
    /// What it is set to, or what the user had set it to.
    pub value: String,
    /// Why.
    pub why: String,
    /// The user's own, which stays; then the value is theirs.
    pub is_users: bool,
}

/// Settings in the order they are written; what is in the environment stays as it is.
#[derive(Debug)]
pub(super) struct Settings<'e> {
    environment: &'e BTreeMap<String, String>,
    pub(super) list: Vec<Setting>,
    /// What a value of the user's would have been.
    pub(super) notes: Vec<String>,
}

impl<'e> Settings<'e> {
    pub(super) fn new(environment: &'e BTreeMap<String, String>) -> Self {
        Settings { environment, list: Vec::new(), notes: Vec::new() }
    }

    fn set(&mut self, name: &str, value: impl Into<String>, why: &str) {
        let ours = value.into();
        let theirs = self.environment.get(name);
        if let Some(theirs) = theirs.filter(|theirs| **theirs != ours) {
            self.notes.push(format!(
                "{name} is set to {theirs:?} already and stays; this host would have {ours:?}"
            ));
        }
        self.list.push(Setting {
            name: name.to_owned(),
            value: theirs.cloned().unwrap_or(ours),
            why: if theirs.is_some() { "set by you".to_owned() } else { why.to_owned() },
            is_users: theirs.is_some(),
        });
    }

    /// Says what a setting of the user's does to the plan, if they made it.
    fn mind(&mut self, name: &str, is_meant: impl Fn(&str) -> bool, effect: &str) {
        if self.environment.get(name).is_some_and(|value| is_meant(value)) {
            self.notes.push(format!("{name} is set: {effect}"));
        }
    }

    /// InfiniBand and RoCE: NCCL's own transport, UCX and Open MPI by UCX.
    pub(super) fn verbs(&mut self, rails: &[Rail], gids: Option<&Policy>) {
        let names: Vec<String> = rails.iter().map(Rail::name).collect();
        let names = names.join(",");
        self.set(
            "NCCL_IB_HCA",
            format!("={names}"),
            "these ports and no others: `=` is an exact match",
        );
        if let Some(policy) = gids {
            self.gids(policy);
        }
        let off = |value: &str| value.trim().parse() != Ok(0u32);
        self.mind("NCCL_IB_DISABLE", off, "NCCL will not use RDMA");
        self.mind(
            "NCCL_IB_HCA",
            is_prefix,
            "without `=` in front, mlx5_1 is mlx5_10 to mlx5_19 too",
        );
        if rails.iter().any(Rail::is_omni_path) {
            self.notes.push(OMNI_PATH.to_owned());
        } else {
            self.ucx(rails, names);
        }
    }

    /// UCX, and Open MPI by it.
    fn ucx(&mut self, rails: &[Rail], names: String) {
        self.set("UCX_NET_DEVICES", names, "these ports and no others");
        self.set("OMPI_MCA_pml", "ucx", "Open MPI takes TCP in silence unless it is told");
        self.set("OMPI_MCA_osc", "ucx", "one-sided operations over the same transport");
        self.set("OMPI_MCA_btl", "^openib", "Open MPI 4 would warn of it; Open MPI 5 has none");
        if !rails.iter().all(|rail| rail.device.name.starts_with("mlx")) {
            self.set(
                "OMPI_MCA_opal_common_ucx_devices",
                "any",
                "Open MPI knows devices called mlx* alone",
            );
        }
    }

    fn gids(&mut self, policy: &Policy) {
        match policy {
            Policy::Index(index, _) => {
                self.set("NCCL_IB_GID_INDEX", index.to_string(), "the same on all these ports");
            }
            Policy::Sort(sort, range) => {
                self.set(
                    "NCCL_IB_ADDR_FAMILY",
                    sort.family(),
                    "the family of the ports' addresses",
                );
                self.set("NCCL_IB_ROCE_VERSION_NUM", sort.version.to_string(), "RoCE's version");
                if let Some(range) = range {
                    self.set(
                        "NCCL_IB_ADDR_RANGE",
                        range.to_string(),
                        "of several addresses, the one to use",
                    );
                }
                let pins = |value: &str| value.trim() != "-1";
                let effect = "it pins a place in the GID table, which differs from host to host";
                self.mind("NCCL_IB_GID_INDEX", pins, effect);
            }
        }
    }

    /// EFA: libfabric, which NCCL reaches by its plugin (`libnccl-net`).
    pub(super) fn efa(&mut self) {
        self.set("FI_PROVIDER", "efa", "EFA is reached by libfabric");
        self.mind("NCCL_IB_HCA", |_| true, "EFA is no HCA; it is not read");
    }

    /// No RDMA: said to each library, so that none of them tries.
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

    /// What NCCL begins by, whatever moves the data.
    pub(super) fn socket(&mut self, interface: Option<&str>) {
        if let Some(interface) = interface {
            self.set("NCCL_SOCKET_IFNAME", format!("={interface}"), "it leads to the peers");
        }
    }
}

/// Whether a user's list is matched by its beginnings.
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

/// Why nothing is said to UCX and Open MPI there.
const OMNI_PATH: &str = "Omni-Path: UCX and Open MPI are left as they are; Open MPI's way is its own \
                         (`OMPI_MCA_pml=cm` with the MTL psm2), which it takes by itself";

impl RailKind {
    /// Whether it is reached by verbs.
    pub(super) fn is_verbs(self) -> bool {
        self != RailKind::Efa
    }
}
