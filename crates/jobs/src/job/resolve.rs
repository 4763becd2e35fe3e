//! From claims to rails: which devices of this host a job may use.

use std::net::IpAddr;

use node::{Device, Node, Role, Seen, Tree};

use super::claim::{Claim, Claims, DeviceId};
use super::rail::{Judged, Rail, RailKind, Verdict};
use super::usable;

/// What is left, and what became of the others.
#[derive(Debug)]
pub(super) struct Resolved<'n> {
    pub(super) rails: Vec<Rail<'n>>,
    pub(super) dropped: Vec<Judged>,
    /// Whether the platform gave RDMA to this pod: then going without is no fall-back but a fault.
    pub(super) is_promised: bool,
    /// What else to know of the choice.
    pub(super) notes: Vec<String>,
    /// Where each rail's device was named; nowhere on a host that tells nothing.
    sources: Vec<(String, String)>,
}

/// Every claim checked against the host's files; without any, whatever works. A contradiction is an error.
pub(super) fn resolve<'n>(
    node: &'n Node,
    tree: &Tree,
    claims: &Claims,
    peers: &[IpAddr],
) -> Result<Resolved<'n>, String> {
    let mut resolved = Resolved {
        rails: Vec::new(),
        dropped: Vec::new(),
        is_promised: false,
        notes: Vec::new(),
        sources: Vec::new(),
    };
    let mut given: Vec<&Device> = Vec::new();
    for claim in &claims.claims {
        let devices = devices_of(node, tree, claim)?;
        resolved.is_promised |=
            claim.promises_rdma || devices.iter().any(|one| has_node(tree, one));
        if devices.is_empty() {
            resolved.dropped.push(without_device(claim));
        }
        for device in devices.into_iter().filter(|device| node.device(&device.name).is_some()) {
            resolved.sources.push((device.name.clone(), claim.source.clone()));
            given.push(device);
        }
    }
    // A function for plain packets may have an RDMA device too, which then was not given with it.
    let is_usable = |device: &&Device| !usable::judge(node, tree, device).0.is_empty();
    if resolved.is_promised || given.iter().any(is_usable) {
        resolved.keep_given(node, tree, &given);
    } else {
        resolved.keep_what_works(node, tree, peers);
    }
    Ok(resolved)
}

/// Whether the device's node is in this container: then RDMA was given, said or not.
fn has_node(tree: &Tree, device: &Device) -> bool {
    let node = |uverbs: &String| tree.node(&format!("/dev/infiniband/{uverbs}"));
    device.uverbs.as_ref().is_some_and(|uverbs| node(uverbs).value().is_some())
}

/// The RDMA devices of a function, by its own files; what the claim says of them must agree.
fn devices_of<'n>(node: &'n Node, tree: &Tree, claim: &Claim) -> Result<Vec<&'n Device>, String> {
    let found = found(node, tree, &claim.id);
    let named = match (&claim.rdma_device, &claim.uverbs) {
        (Some(name), _) => node.device(name),
        (None, Some(uverbs)) => node.devices.iter().find(|one| one.uverbs.as_ref() == Some(uverbs)),
        (None, None) => return Ok(found),
    };
    let Some(device) = named else {
        if found.is_empty() {
            return Ok(found);
        }
        return Err(contradiction(claim, &found));
    };
    let is_found = found.iter().any(|one| one.name == device.name);
    let elsewhere = match (&claim.id, device.pci) {
        (DeviceId::Pci(address), Some(pci)) => *address != pci,
        _ => false,
    };
    let other_node =
        claim.uverbs.is_some() && device.uverbs.is_some() && claim.uverbs != device.uverbs;
    if (!found.is_empty() && !is_found) || elsewhere || other_node {
        let mut shown = found;
        if !is_found {
            shown.push(device);
        }
        return Err(contradiction(claim, &shown));
    }
    Ok(vec![device])
}

fn found<'n>(node: &'n Node, tree: &Tree, id: &DeviceId) -> Vec<&'n Device> {
    match (tree.names(&format!("{}/infiniband", id.folder())), id) {
        (Seen::Value(names), _) => names.iter().filter_map(|name| node.device(name)).collect(),
        (_, DeviceId::Pci(address)) => {
            node.devices.iter().filter(|device| device.pci == Some(*address)).collect()
        }
        (_, DeviceId::Auxiliary(_)) => Vec::new(),
    }
}

fn contradiction(claim: &Claim, found: &[&Device]) -> String {
    let said = [
        claim.rdma_device.as_ref().map(|device| format!("RDMA device {device}")),
        claim.uverbs.as_ref().map(|uverbs| format!("node {uverbs}")),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    let have = |device: &&Device| {
        let node = device.uverbs.as_deref().unwrap_or("no node");
        let at = device.pci.map_or_else(|| "no PCI address".to_owned(), |pci| pci.to_string());
        format!("{} ({node}, {at})", device.name)
    };
    let have: Vec<String> = found.iter().map(have).collect();
    format!(
        "{} says that {} has {}, and this host's files show {}",
        claim.source,
        claim.id,
        said.join(" and "),
        have.join(", ")
    )
}

fn without_device(claim: &Claim) -> Judged {
    let folder = format!("{}/infiniband", claim.id.folder());
    if claim.is_vfio {
        let why = "given to a driver in user space (VFIO): the kernel has no RDMA device of it";
        return Judged::dropped(&claim.id.to_string(), why, &claim.source);
    }
    match &claim.rdma_device {
        Some(name) => Judged::dropped(
            name,
            format!(
                "{} names it, and it is not in this pod (another RDMA namespace?)",
                claim.source
            ),
            format!("/sys/class/infiniband/{name}"),
        ),
        None if claim.promises_rdma => {
            let why = "RDMA was promised, and the function has no RDMA device here";
            Judged::dropped(&claim.id.to_string(), why, folder)
        }
        None => Judged::dropped(&claim.id.to_string(), "a function without an RDMA device", folder),
    }
}

impl<'n> Resolved<'n> {
    fn keep_given(&mut self, node: &'n Node, tree: &Tree, given: &[&'n Device]) {
        for device in &node.devices {
            if given.iter().any(|one| one.name == device.name) {
                self.judge(node, tree, device);
            } else {
                let why = "not among the devices that were given to this pod";
                self.dropped.push(Judged::dropped(&device.name, why, device.folder()));
            }
        }
    }

    /// Nobody says which: all that works, of one fabric, and no software beside hardware.
    fn keep_what_works(&mut self, node: &'n Node, tree: &Tree, peers: &[IpAddr]) {
        for device in &node.devices {
            self.judge(node, tree, device);
        }
        let is_software = |rail: &Rail| rail.device.role == Role::Software;
        if !self.rails.iter().all(is_software) {
            self.drop_where(is_software, |_| "software, and there is hardware".to_owned());
        }
        self.keep_one_fabric(node, peers);
    }

    fn judge(&mut self, node: &'n Node, tree: &Tree, device: &'n Device) {
        let (rails, dropped) = usable::judge(node, tree, device);
        self.rails.extend(rails);
        self.dropped.extend(dropped);
    }

    /// Drops rails, and says why.
    pub(super) fn drop_where(
        &mut self,
        is_dropped: impl Fn(&Rail) -> bool,
        why: impl Fn(&Rail) -> String,
    ) {
        for rail in self.rails.iter().filter(|rail| is_dropped(rail)) {
            let dropped = Judged::dropped(&rail.device.name, why(rail), rail.device.folder());
            self.dropped.push(dropped.at(rail.port.number));
        }
        self.rails.retain(|rail| !is_dropped(rail));
    }

    /// Rows for people: what is kept first.
    pub(super) fn judged(&self) -> Vec<Judged> {
        let kept = self.rails.iter().map(|rail| Judged {
            device: rail.device.name.clone(),
            port: Some(rail.port.number),
            verdict: Verdict::Kept,
            why: self.why_kept(rail),
            read: format!("{}/ports/{}", rail.device.folder(), rail.port.number),
        });
        kept.chain(self.dropped.iter().cloned()).collect()
    }

    fn why_kept(&self, rail: &Rail) -> String {
        let rate = rail.port.rate.value().map(|rate| format!(", {} Gb/s", rate.gbps()));
        let what = match rail.kind {
            RailKind::Efa => "EFA, its node is here".to_owned(),
            kind => format!("{}, ACTIVE{}", kind.name(), rate.unwrap_or_default()),
        };
        let source = self.sources.iter().find(|(device, _)| *device == rail.device.name);
        match source {
            Some((_, source)) => format!("{what}; given by {source}"),
            None => what,
        }
    }
}
