//! SriovNetwork and SriovIBNetwork: what pods attach to.

use serde_json::{Value, json};

use super::policy::suffix;
use super::{Card, LinkType, Manifest, Name, Printed, Resource, Subnet};

/// What is wanted.
#[derive(Debug)]
pub struct NetworkRequest<'r> {
    /// The networks' name, or its beginning where there are several.
    pub name: &'r Name,
    /// Where pods attach to it.
    pub namespace: &'r Name,
    /// Where the SR-IOV operator is.
    pub operator_namespace: &'r Name,
    /// The policies' resource.
    pub resource: &'r Resource,
    /// Where pods' addresses come from; RoCE needs addresses, InfiniBand does not.
    pub range: Option<&'r Subnet>,
    /// Whether a pod shall see its own RDMA devices alone.
    pub is_exclusive: bool,
}

/// A network for each model and link of the node.
pub fn network(cards: &[Card], request: &NetworkRequest) -> Result<Printed, String> {
    let mut printed = Printed::default();
    if request.is_exclusive {
        printed.manifests.push(pool(request));
        printed.notes.push(
            "exclusive RDMA namespaces are set by a kernel argument: the nodes reboot".to_owned(),
        );
    }
    for (at, card) in cards.iter().enumerate() {
        let suffix = suffix(cards, at);
        let resource = request.resource.for_operator(&suffix.replace('-', "_"))?;
        let spec = spec(card.link, request, &resource)?;
        let kind = match card.link {
            LinkType::Ethernet => "SriovNetwork",
            LinkType::InfiniBand => "SriovIBNetwork",
        };
        printed.manifests.push(Manifest::new(json!({
            "apiVersion": "sriovnetwork.openshift.io/v1",
            "kind": kind,
            "metadata": {
                "name": format!("{}{suffix}", request.name),
                "namespace": request.operator_namespace.to_string(),
            },
            "spec": spec,
        })));
    }
    Ok(printed)
}

fn spec(link: LinkType, request: &NetworkRequest, resource: &str) -> Result<Value, String> {
    let ipam = match (request.range, link) {
        (Some(range), _) => json!({ "type": "whereabouts", "range": range.to_string() }),
        (None, LinkType::InfiniBand) => json!({}),
        (None, LinkType::Ethernet) => {
            return Err(
                "RoCE needs addresses: give a range of them, as 192.168.100.0/24".to_owned()
            );
        }
    };
    let mut spec = json!({
        "ipam": ipam.to_string(),
        "networkNamespace": request.namespace.to_string(),
        "resourceName": resource,
    });
    match link {
        // A function without a GUID cannot register memory; its state follows nobody's by default.
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

/// Nodes whose RDMA devices belong to one network namespace each.
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
        .saying("Sets ib_core.netns_mode=0 and reboots the nodes, one after the other.")
}
