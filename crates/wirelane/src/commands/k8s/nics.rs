//! `policy` and `network`: objects for the SR-IOV operator, one for each kind of NIC.

use clap::Args;
use jobs::k8s::{
    self, ManifestSet, Name, NetworkRequest, NicGroup, PolicyRequest, Resource, Subnet,
};
use node::Node;

use crate::output;
use crate::output::Failure;

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(flatten)]
    operator: OperatorArgs,

    /// Virtual functions of each NIC (default: 8, or the maximum of the NIC if lower)
    #[arg(long, value_name = "N")]
    vfs: Option<u32>,
}

#[derive(Debug, Args)]
pub(super) struct NetworkArgs {
    #[command(flatten)]
    operator: OperatorArgs,

    /// Namespace of the pods that attach to it
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: Name,

    /// IP range for pods (whereabouts); RoCE needs addresses, InfiniBand does not
    #[arg(long, value_name = "NETWORK")]
    range: Option<Subnet>,

    /// Each pod sees only its own RDMA devices (reboots the nodes)
    #[arg(long)]
    exclusive: bool,
}

/// Arguments of both.
#[derive(Debug, Args)]
struct OperatorArgs {
    /// Name of the objects
    #[arg(long, value_name = "NAME", default_value = "wirelane-rdma")]
    name: Name,

    /// Resource name that pods request
    #[arg(long, value_name = "RESOURCE", default_value = "openshift.io/wirelane_rdma")]
    resource: Resource,

    /// Also NICs that a job does not use, such as those of storage (default: as `wirelane env`)
    #[arg(long)]
    all_nics: bool,

    /// Namespace of the SR-IOV operator
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
        k8s::policy(&self.operator.nics(node)?, &request).map_err(Failure::usage)
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
        k8s::network(&self.operator.nics(node)?, &request).map_err(Failure::usage)
    }
}

impl OperatorArgs {
    /// The NICs of the node that jobs use, or all; having none is an error.
    fn nics(&self, node: &Node) -> Result<Vec<NicGroup>, Failure> {
        let (mut nics, mut notes) = NicGroup::find(node);
        if !self.all_nics {
            let (used, left_out) = NicGroup::of_jobs(nics);
            notes.extend(left_out.into_iter().map(|why| format!("{why}; --all-nics includes it")));
            nics = used;
        }
        for note in notes {
            output::note(&format!("note: {note}"));
        }
        if nics.is_empty() {
            return Err(Failure::no(
                "no NIC of this node supports SR-IOV; run this on a node that has one, or pass a snapshot of it with --root",
            ));
        }
        Ok(nics)
    }
}
