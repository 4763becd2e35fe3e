//! `policy` and `network`: what the SR-IOV operator reads, one object for each kind of card.

use clap::Args;
use jobs::k8s::{self, Card, ManifestSet, Name, NetworkRequest, PolicyRequest, Resource, Subnet};
use node::Node;

use crate::output;
use crate::output::Failure;

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(flatten)]
    operator: OperatorArgs,

    /// Virtual functions for each card (default: 8, or as many as it can have)
    #[arg(long, value_name = "N")]
    vfs: Option<u32>,
}

#[derive(Debug, Args)]
pub(super) struct NetworkArgs {
    #[command(flatten)]
    operator: OperatorArgs,

    /// Where pods attach to it
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: Name,

    /// Where pods' addresses come from (whereabouts); RoCE needs them, InfiniBand does not
    #[arg(long, value_name = "NETWORK")]
    range: Option<Subnet>,

    /// A pod sees its own RDMA devices alone (the nodes reboot for it)
    #[arg(long)]
    exclusive: bool,
}

/// What both say.
#[derive(Debug, Args)]
struct OperatorArgs {
    /// What it is called
    #[arg(long, value_name = "NAME", default_value = "wirelane-rdma")]
    name: Name,

    /// What pods ask for
    #[arg(long, value_name = "RESOURCE", default_value = "openshift.io/wirelane_rdma")]
    resource: Resource,

    /// Where the SR-IOV operator runs
    #[arg(long, value_name = "NAME", default_value = "openshift-sriov-network-operator")]
    operator_namespace: Name,
}

impl PolicyArgs {
    pub(super) fn print(&self, node: &Node) -> Result<ManifestSet, Failure> {
        let request = PolicyRequest {
            name: &self.operator.name,
            operator_namespace: &self.operator.operator_namespace,
            resource: &self.operator.resource,
            vfs: self.vfs,
        };
        k8s::policy(&cards(node)?, &request).map_err(Failure::usage)
    }
}

impl NetworkArgs {
    pub(super) fn print(&self, node: &Node) -> Result<ManifestSet, Failure> {
        let request = NetworkRequest {
            name: &self.operator.name,
            namespace: &self.namespace,
            operator_namespace: &self.operator.operator_namespace,
            resource: &self.operator.resource,
            range: self.range.as_ref(),
            is_exclusive: self.exclusive,
        };
        k8s::network(&cards(node)?, &request).map_err(Failure::usage)
    }
}

/// The node's cards; a node that has none is not the one to ask.
fn cards(node: &Node) -> Result<Vec<Card>, Failure> {
    let (cards, left_out) = Card::find(node);
    for reason in left_out {
        output::note(&format!("note: {reason}"));
    }
    if cards.is_empty() {
        return Err(Failure::no(
            "no card here can be shared out by SR-IOV; run this on a node that has one, or give its snapshot by --root",
        ));
    }
    Ok(cards)
}
