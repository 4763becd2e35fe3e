//! From assigned devices to usable ports: which devices of this host a job may use.

use node::{Device, Node, Reading, Role, Tree};

use super::assigned::{AssignedDevice, AssignedDevices, DeviceId};
use super::plan::Request;
use super::usable;
use super::usable_port::{DeviceVerdict, PortKind, UsablePort, Verdict};

/// The usable ports to use, and the dropped devices.
#[derive(Debug)]
pub(super) struct Selection<'n> {
    pub(super) usable_ports: Vec<UsablePort<'n>>,
    pub(super) dropped: Vec<DeviceVerdict>,
    /// Whether the platform assigned RDMA to this pod: then running without it is an error.
    pub(super) is_assigned: bool,
    /// Notes on the selection.
    pub(super) notes: Vec<String>,
    /// The name and source of each assigned device.
    sources: Vec<(String, String)>,
}

/// Checks every assigned device against the host's files; if none is assigned, all usable devices are selected. A
/// contradiction is an error.
pub(super) fn resolve<'n>(
    node: &'n Node,
    tree: &Tree,
    assigned_devices: &AssignedDevices,
    request: &Request,
) -> Result<Selection<'n>, String> {
    let mut resolved = Selection {
        usable_ports: Vec::new(),
        dropped: Vec::new(),
        is_assigned: false,
        notes: Vec::new(),
        sources: Vec::new(),
    };
    let mut assigned: Vec<&Device> = Vec::new();
    for assigned_device in &assigned_devices.devices {
        check_exists(tree, assigned_device)?;
        let devices = devices_of(node, tree, assigned_device)?;
        resolved.is_assigned |=
            assigned_device.expects_rdma || devices.iter().any(|one| has_node(tree, one));
        if devices.is_empty() {
            resolved.dropped.push(without_device(assigned_device));
        }
        for device in devices.into_iter().filter(|device| node.device(&device.name).is_some()) {
            resolved.sources.push((device.name.clone(), assigned_device.source.clone()));
            assigned.push(device);
        }
    }
    // A function that was assigned without RDMA may still have an RDMA device, which was not assigned with it.
    let is_usable = |device: &&Device| !usable::evaluate(node, tree, device).0.is_empty();
    if resolved.is_assigned || assigned.iter().any(is_usable) {
        resolved.keep_assigned(node, tree, &assigned);
    } else {
        resolved.keep_usable(node, tree, request);
    }
    Ok(resolved)
}

/// Whether the device's node is in this container: then RDMA was assigned, even if nothing reports it.
fn has_node(tree: &Tree, device: &Device) -> bool {
    let node = |uverbs: &String| tree.metadata(&format!("/dev/infiniband/{uverbs}"));
    device.uverbs.as_ref().is_some_and(|uverbs| node(uverbs).value().is_some())
}

/// The function must be on its bus. Buses are the same in every pod, whatever its RDMA and network namespaces.
fn check_exists(tree: &Tree, assigned_device: &AssignedDevice) -> Result<(), String> {
    let AssignedDevice { id, source, .. } = assigned_device;
    let (folder, name) = (id.folder(), id.to_string());
    let bus = folder.rsplit_once('/').map_or("/", |(bus, _)| bus);
    match tree.names(bus) {
        Reading::Value(names) if !names.contains(&name) => Err(format!(
            "{source} claims {name}, which is not in {bus}: it was removed from this host, or {source} is of another pod"
        )),
        _ => Ok(()),
    }
}

/// The RDMA devices of a function, from its files; they must match the assigned device.
fn devices_of<'n>(
    node: &'n Node,
    tree: &Tree,
    assigned_device: &AssignedDevice,
) -> Result<Vec<&'n Device>, String> {
    let found = found(node, tree, &assigned_device.id);
    let named = match (&assigned_device.rdma_device, &assigned_device.uverbs) {
        (Some(name), _) => node.device(name),
        (None, Some(uverbs)) => node.devices.iter().find(|one| one.uverbs.as_ref() == Some(uverbs)),
        (None, None) => return Ok(found),
    };
    let Some(device) = named else {
        if found.is_empty() {
            return Ok(found);
        }
        return Err(contradiction(assigned_device, &found));
    };
    let is_found = found.iter().any(|one| one.name == device.name);
    let elsewhere = match (&assigned_device.id, device.pci) {
        (DeviceId::Pci(address), Some(pci)) => *address != pci,
        _ => false,
    };
    let other_node = assigned_device.uverbs.is_some()
        && device.uverbs.is_some()
        && assigned_device.uverbs != device.uverbs;
    if (!found.is_empty() && !is_found) || elsewhere || other_node {
        let mut devices = found;
        if !is_found {
            devices.push(device);
        }
        return Err(contradiction(assigned_device, &devices));
    }
    Ok(vec![device])
}

fn found<'n>(node: &'n Node, tree: &Tree, id: &DeviceId) -> Vec<&'n Device> {
    match (tree.names(&format!("{}/infiniband", id.folder())), id) {
        (Reading::Value(names), _) => names.iter().filter_map(|name| node.device(name)).collect(),
        (_, DeviceId::Pci(address)) => {
            node.devices.iter().filter(|device| device.pci == Some(*address)).collect()
        }
        (_, DeviceId::Auxiliary(_)) => Vec::new(),
    }
}

fn contradiction(assigned_device: &AssignedDevice, found: &[&Device]) -> String {
    let stated = [
        assigned_device.rdma_device.as_ref().map(|device| format!("RDMA device {device}")),
        assigned_device.uverbs.as_ref().map(|uverbs| format!("node {uverbs}")),
    ];
    let stated: Vec<String> = stated.into_iter().flatten().collect();
    let describe = |device: &&Device| {
        let node = device.uverbs.as_deref().unwrap_or("no node");
        let at = device.pci.map_or_else(|| "no PCI address".to_owned(), |pci| pci.to_string());
        format!("{} ({node}, {at})", device.name)
    };
    let found: Vec<String> = found.iter().map(describe).collect();
    format!(
        "{} claims that {} has {}, but this host's files show {}",
        assigned_device.source,
        assigned_device.id,
        stated.join(" and "),
        found.join(", ")
    )
}

fn without_device(assigned_device: &AssignedDevice) -> DeviceVerdict {
    let folder = format!("{}/infiniband", assigned_device.id.folder());
    if assigned_device.is_vfio {
        let why = "assigned to a user-space driver (VFIO): the kernel has no RDMA device for it";
        return DeviceVerdict::dropped(
            &assigned_device.id.to_string(),
            why,
            &assigned_device.source,
        );
    }
    match &assigned_device.rdma_device {
        Some(name) => DeviceVerdict::dropped(
            name,
            format!(
                "{} names it, but it is not in this pod (another RDMA namespace?)",
                assigned_device.source
            ),
            format!("/sys/class/infiniband/{name}"),
        ),
        None if assigned_device.expects_rdma => {
            let why = "RDMA was assigned, but the function has no RDMA device here";
            DeviceVerdict::dropped(&assigned_device.id.to_string(), why, folder)
        }
        None => DeviceVerdict::dropped(
            &assigned_device.id.to_string(),
            "a function without an RDMA device",
            folder,
        ),
    }
}

impl<'n> Selection<'n> {
    fn keep_assigned(&mut self, node: &'n Node, tree: &Tree, assigned: &[&'n Device]) {
        for device in &node.devices {
            if assigned.iter().any(|one| one.name == device.name) {
                self.add_device(node, tree, device);
            } else {
                let why = "not assigned to this pod";
                self.dropped.push(DeviceVerdict::dropped(&device.name, why, device.folder()));
            }
        }
    }

    /// Without assigned devices: all usable devices of one fabric, and no software devices besides hardware.
    fn keep_usable(&mut self, node: &'n Node, tree: &Tree, request: &Request) {
        for device in &node.devices {
            self.add_device(node, tree, device);
        }
        let is_software = |usable: &UsablePort| usable.device.role == Role::Software;
        if !self.usable_ports.iter().all(is_software) {
            self.drop_where(is_software, |_| "a software device, and there is hardware".to_owned());
        }
        self.keep_one_fabric(node, request);
    }

    fn add_device(&mut self, node: &'n Node, tree: &Tree, device: &'n Device) {
        let (usable_ports, dropped) = usable::evaluate(node, tree, device);
        self.usable_ports.extend(usable_ports);
        self.dropped.extend(dropped);
    }

    /// Drops usable ports with a reason.
    pub(super) fn drop_where(
        &mut self,
        is_dropped: impl Fn(&UsablePort) -> bool,
        why: impl Fn(&UsablePort) -> String,
    ) {
        for usable in self.usable_ports.iter().filter(|usable| is_dropped(usable)) {
            let dropped =
                DeviceVerdict::dropped(&usable.device.name, why(usable), usable.device.folder());
            self.dropped.push(dropped.at_port(usable.port.number));
        }
        self.usable_ports.retain(|usable| !is_dropped(usable));
    }

    /// All verdicts, kept usable ports first.
    pub(super) fn verdicts(&self) -> Vec<DeviceVerdict> {
        let kept = self.usable_ports.iter().map(|usable| DeviceVerdict {
            device: usable.device.name.clone(),
            port: Some(usable.port.number),
            verdict: Verdict::Kept,
            why: self.why_kept(usable),
            read: format!("{}/ports/{}", usable.device.folder(), usable.port.number),
        });
        kept.chain(self.dropped.iter().cloned()).collect()
    }

    fn why_kept(&self, usable: &UsablePort) -> String {
        let rate = usable.port.rate.value().map(|rate| format!(", {} Gb/s", rate.gbps()));
        let what = match usable.kind {
            PortKind::Efa => "EFA, its node exists".to_owned(),
            kind => format!("{}, ACTIVE{}", kind.name(), rate.unwrap_or_default()),
        };
        let source = self.sources.iter().find(|(device, _)| *device == usable.device.name);
        match source {
            Some((_, source)) => format!("{what}; assigned by {source}"),
            None => what,
        }
    }
}
