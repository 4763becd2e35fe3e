//! SriovNetworkNodePolicy: which NICs of which nodes get virtual functions.

use serde_json::{Value, json};

use super::{LinkType, Manifest, ManifestSet, Name, NicGroup, Resource};

/// The policies to write.
#[derive(Debug)]
pub struct PolicyRequest<'r> {
    /// The name of the policy; its prefix if there are several.
    pub name: &'r Name,
    /// The namespace of the SR-IOV operator, which reads policies only there.
    pub operator_namespace: &'r Name,
    /// The resource that pods request.
    pub resource: &'r Resource,
    /// Virtual functions per NIC; `None`: 8, or the maximum if that is lower.
    pub vfs: Option<u32>,
}

/// A policy for each model and link type of the node.
pub fn policy(nics: &[NicGroup], request: &PolicyRequest) -> Result<ManifestSet, String> {
    let mut set = ManifestSet::default();
    for (at, nic) in nics.iter().enumerate() {
        let suffix = suffix(nics, at);
        let resource = request.resource.for_operator(&suffix.replace('-', "_"))?;
        let vfs = request.vfs.unwrap_or_else(|| nic.vfs_max.min(DEFAULT_VFS));
        if vfs > nic.vfs_max {
            return Err(format!(
                "{vfs} virtual functions: {} supports at most {}",
                nic.addresses.join(", "),
                nic.vfs_max
            ));
        }
        let object = object(nic, request, &format!("{}{suffix}", request.name), &resource, vfs);
        let manifest = Manifest::new(object)
            .with_comment(format!(
                "Found on one node: {} × {}:{}.",
                nic.addresses.len(),
                nic.vendor,
                nic.device
            ))
            .with_comment(
                "Creating virtual functions drains the selected nodes, one after the other.",
            );
        set.manifests.push(manifest);
    }
    set.notes.push("applying a policy drains the selected nodes".to_owned());
    Ok(set)
}

/// The suffix of a NIC's policy and resource; none for the first, most numerous one.
pub(super) fn suffix(nics: &[NicGroup], at: usize) -> String {
    let nic = &nics[at];
    let same_link = nics.iter().filter(|other| other.link == nic.link).count();
    match (at, same_link) {
        (0, _) => String::new(),
        (_, 1) => format!("-{}", nic.link.name()),
        _ => format!("-{}-{}", nic.link.name(), nic.device),
    }
}

fn object(nic: &NicGroup, request: &PolicyRequest, name: &str, resource: &str, vfs: u32) -> Value {
    let mut selector = json!({ "vendor": nic.vendor, "deviceID": nic.device });
    if nic.pf_names.is_empty() {
        selector["rootDevices"] = json!(nic.addresses);
    } else {
        selector["pfNames"] = json!(nic.pf_names);
    }
    let mut spec = json!({
        "deviceType": "netdevice",
        "isRdma": true,
        "linkType": nic.link.name(),
        "nicSelector": selector,
        "nodeSelector": { "feature.node.kubernetes.io/network-sriov.capable": "true" },
        "numVfs": vfs,
        "priority": 50,
        "resourceName": resource,
    });
    if let (LinkType::Ethernet, Some(mtu)) = (nic.link, nic.mtu) {
        spec["mtu"] = json!(mtu);
    }
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": "SriovNetworkNodePolicy",
        "metadata": { "name": name, "namespace": request.operator_namespace.to_string() },
        "spec": spec,
    })
}

/// Enough for a pod per GPU, and supported by every NIC.
const DEFAULT_VFS: u32 = 8;
