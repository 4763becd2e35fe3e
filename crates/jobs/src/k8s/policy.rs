//! SriovNetworkNodePolicy: which cards of which nodes get virtual functions.

use serde_json::{Value, json};

use super::{Card, LinkType, Manifest, ManifestSet, Name, Resource};

/// The policies to write.
#[derive(Debug)]
pub struct PolicyRequest<'r> {
    /// The name of the policy; its prefix if there are several.
    pub name: &'r Name,
    /// The namespace of the SR-IOV operator, which reads policies only there.
    pub operator_namespace: &'r Name,
    /// The resource that pods request.
    pub resource: &'r Resource,
    /// Virtual functions per card; `None`: 8, or the maximum if that is lower.
    pub vfs: Option<u32>,
}

/// A policy for each model and link type of the node.
pub fn policy(cards: &[Card], request: &PolicyRequest) -> Result<ManifestSet, String> {
    let mut set = ManifestSet::default();
    for (at, card) in cards.iter().enumerate() {
        let suffix = suffix(cards, at);
        let resource = request.resource.for_operator(&suffix.replace('-', "_"))?;
        let vfs = request.vfs.unwrap_or_else(|| card.vfs_max.min(DEFAULT_VFS));
        if vfs > card.vfs_max {
            return Err(format!(
                "{vfs} virtual functions: {} supports at most {}",
                card.addresses.join(", "),
                card.vfs_max
            ));
        }
        let object = object(card, request, &format!("{}{suffix}", request.name), &resource, vfs);
        let manifest = Manifest::new(object)
            .with_comment(format!(
                "Found on one node: {} × {}:{}.",
                card.addresses.len(),
                card.vendor,
                card.device
            ))
            .with_comment(
                "Creating virtual functions drains the selected nodes, one after the other.",
            );
        set.manifests.push(manifest);
    }
    set.notes.push("applying a policy drains the selected nodes".to_owned());
    Ok(set)
}

/// The suffix of a card's policy and resource; none for the first, most numerous one.
pub(super) fn suffix(cards: &[Card], at: usize) -> String {
    let card = &cards[at];
    let same_link = cards.iter().filter(|other| other.link == card.link).count();
    match (at, same_link) {
        (0, _) => String::new(),
        (_, 1) => format!("-{}", card.link.name()),
        _ => format!("-{}-{}", card.link.name(), card.device),
    }
}

fn object(card: &Card, request: &PolicyRequest, name: &str, resource: &str, vfs: u32) -> Value {
    let mut selector = json!({ "vendor": card.vendor, "deviceID": card.device });
    if card.pf_names.is_empty() {
        selector["rootDevices"] = json!(card.addresses);
    } else {
        selector["pfNames"] = json!(card.pf_names);
    }
    let mut spec = json!({
        "deviceType": "netdevice",
        "isRdma": true,
        "linkType": card.link.name(),
        "nicSelector": selector,
        "nodeSelector": { "feature.node.kubernetes.io/network-sriov.capable": "true" },
        "numVfs": vfs,
        "priority": 50,
        "resourceName": resource,
    });
    if let (LinkType::Ethernet, Some(mtu)) = (card.link, card.mtu) {
        spec["mtu"] = json!(mtu);
    }
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": "SriovNetworkNodePolicy",
        "metadata": { "name": name, "namespace": request.operator_namespace.to_string() },
        "spec": spec,
    })
}

/// Enough for a pod per GPU, and supported by every card.
const DEFAULT_VFS: u32 = 8;
