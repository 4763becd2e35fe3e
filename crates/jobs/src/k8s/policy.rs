//! SriovNetworkNodePolicy: which cards of which nodes get virtual functions.

use serde_json::{Value, json};

use super::{Card, LinkType, Manifest, Name, Printed, Resource};

/// What is wanted.
#[derive(Debug)]
pub struct PolicyRequest<'r> {
    /// The policies' name, or its beginning where there are several.
    pub name: &'r Name,
    /// Where the SR-IOV operator is, which reads policies of its own namespace alone.
    pub operator_namespace: &'r Name,
    /// What pods will ask for.
    pub resource: &'r Resource,
    /// Virtual functions for each card; else 8, or as many as there can be.
    pub vfs: Option<u32>,
}

/// A policy for each model and link of the node.
pub fn policy(cards: &[Card], request: &PolicyRequest) -> Result<Printed, String> {
    let mut printed = Printed::default();
    for (at, card) in cards.iter().enumerate() {
        let suffix = suffix(cards, at);
        let resource = request.resource.for_operator(&suffix.replace('-', "_"))?;
        let vfs = request.vfs.unwrap_or_else(|| card.vfs_max.min(USUAL_VFS));
        if vfs > card.vfs_max {
            return Err(format!(
                "{vfs} virtual functions: {} can have {} at most",
                card.addresses.join(", "),
                card.vfs_max
            ));
        }
        let object = object(card, request, &format!("{}{suffix}", request.name), &resource, vfs);
        let made = Manifest::new(object)
            .saying(format!(
                "Found on one node: {} × {}:{}.",
                card.addresses.len(),
                card.vendor,
                card.device
            ))
            .saying(
                "Making virtual functions drains the nodes that are selected, one after the other.",
            );
        printed.manifests.push(made);
    }
    printed.notes.push("applying a policy drains the nodes that it selects".to_owned());
    Ok(printed)
}

/// What tells several cards' policies and resources apart; the first, of which there are most, has the plain name.
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

/// Enough for a pod per GPU, and few enough for every card to have.
const USUAL_VFS: u32 = 8;
