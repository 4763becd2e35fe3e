//! SriovNetwork and SriovIBNetwork: the networks that pods attach to.

use serde_json::{Value, json};

use super::policy::suffix;
use super::{LinkType, Manifest, ManifestSet, Name, NicGroup, Resource, Subnet};

/// The networks to write.
#[derive(Debug)]
pub struct NetworkRequest<'r> {
    /// The name of the network; its prefix if there are several.
    pub name: &'r Name,
    /// The namespace of the pods.
    pub namespace: &'r Name,
    /// The namespace of the SR-IOV operator.
    pub operator_namespace: &'r Name,
    /// The policies' resource.
    pub resource: &'r Resource,
    /// The address range of the pods; RoCE needs addresses, InfiniBand does not.
    pub range: Option<&'r Subnet>,
    /// Whether a pod sees only its own RDMA devices.
    pub is_exclusive: bool,
}

/// A network for each model and link type of the node.
pub fn network(nics: &[NicGroup], request: &NetworkRequest) -> Result<ManifestSet, String> {
    let mut set = ManifestSet::default();
    if request.is_exclusive {
        set.manifests.push(pool(request));
        set.notes.push(
            "exclusive RDMA namespaces are set by a kernel argument: the nodes reboot".to_owned(),
        );
    }
    for (at, nic) in nics.iter().enumerate() {
        let suffix = suffix(nics, at);
        let resource = request.resource.for_operator(&suffix.replace('-', "_"))?;
        let spec = spec(nic, request, &resource)?;
        let kind = match nic.link {
            LinkType::Ethernet => "SriovNetwork",
            LinkType::InfiniBand => "SriovIBNetwork",
        };
        set.manifests.push(Manifest::new(json!({
            "apiVersion": "sriovnetwork.openshift.io/v1",
            "kind": kind,
            "metadata": {
                "name": format!("{}{suffix}", request.name),
                "namespace": request.operator_namespace.to_string(),
            },
            "spec": spec,
        })));
    }
    Ok(set)
}

fn spec(nic: &NicGroup, request: &NetworkRequest, resource: &str) -> Result<Value, String> {
    let link = nic.link;
    let ipam = match (request.range, link) {
        (Some(range), _) => json!({ "type": "whereabouts", "range": range.to_string() }),
        (None, LinkType::InfiniBand) => json!({}),
        (None, LinkType::Ethernet) => {
            return Err(format!(
                "{} is RoCE, which needs addresses: pass an address range, such as --range 192.168.100.0/24",
                nic.rdma_devices.join(", ")
            ));
        }
    };
    let mut spec = json!({
        "ipam": ipam.to_string(),
        "networkNamespace": request.namespace.to_string(),
        "resourceName": resource,
    });
    match link {
        // A function without a GUID cannot register memory; its link state is not set by default.
        LinkType::InfiniBand => {
            spec["capabilities"] = json!(json!({ "infinibandGUID": true }).to_string());
            spec["linkState"] = json!("enable");
        }
        LinkType::Ethernet => spec["linkState"] = json!("auto"),
    }
    if request.is_exclusive {
        spec["metaPlugins"] = json!(json!({ "type": "rdma" }).to_string());
    }
    Ok(spec)
}

/// Nodes with RDMA devices in exclusive network namespaces.
fn pool(request: &NetworkRequest) -> Manifest {
    let object = json!({
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": "SriovNetworkPoolConfig",
        "metadata": {
            "name": request.name.to_string(),
            "namespace": request.operator_namespace.to_string(),
        },
        "spec": {
            "maxUnavailable": 1,
            "nodeSelector": {
                "matchLabels": { "feature.node.kubernetes.io/network-sriov.capable": "true" },
            },
            "rdmaMode": "exclusive",
        },
    });
    Manifest::new(object)
        .with_comment("Sets ib_core.netns_mode=0 and reboots the nodes, one after the other.")
}
