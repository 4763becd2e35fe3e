//! RDMA devices, read again and again.
//!
//! Numbers are read with every look. What stays (firmware, which port belongs to which net device, what it should run at)
//! is read with the rest of the machine, at first, then every minute, and when devices or their links change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use node::counters::{Folder, meaning};
use node::watch::{Choice, DeviceLook, NicWatch};
use node::{Counter, Node, PhysState, PortStatus, Role, Seen, Tree};

use super::{Device, List, Port};
use crate::{Case, rates};

/// What is watched of them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Devices, by name.
    pub devices: List,
    /// Counters, by their file's name, or their metric's with or without `rdma_`.
    pub counters: List,
    /// How many counters of one device may have no row in the table; hfi1 has hundreds.
    pub max_unlisted: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { devices: List::default(), counters: List::default(), max_unlisted: 128 }
    }
}

/// Watches the RDMA devices of a machine.
#[derive(Debug)]
pub struct RdmaWatch {
    tree: Tree,
    settings: Settings,
    facts: BTreeMap<String, Facts>,
    read: Option<Instant>,
    /// Devices, ports, states and rates: when they change, facts may have.
    shape: Vec<Shape>,
    before: Vec<Device>,
    known: BTreeSet<String>,
    nics: NicWatch,
}

/// What was seen in one look.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RdmaLook {
    /// In the order of their names.
    pub devices: Vec<Device>,
    /// Names of devices that were there since the watch began, and are not there now.
    pub gone: Vec<String>,
}

/// What stays of a device.
#[derive(Debug, Default)]
struct Facts {
    /// Without counters, states and rates.
    device: Device,
    /// By port: what it runs at, where its own file does not tell.
    rates: BTreeMap<u32, Option<u64>>,
}

type Shape = (String, Vec<(u32, Option<u32>, Option<u64>)>);

impl RdmaWatch {
    /// Of this machine.
    pub fn new(tree: Tree, settings: Settings) -> RdmaWatch {
        RdmaWatch {
            tree,
            settings,
            facts: BTreeMap::new(),
            read: None,
            shape: Vec::new(),
            before: Vec::new(),
            known: BTreeSet::new(),
            nics: NicWatch::new(),
        }
    }

    /// Looks anew.
    pub fn look(&mut self, now: Instant) -> RdmaLook {
        self.forgive_who_came_back();
        let mut chooser = Chooser { settings: &self.settings, unlisted: BTreeMap::new() };
        let looks = node::watch::look(&self.tree, &mut chooser);
        let unlisted = chooser.unlisted;
        self.read_facts(&looks, now);
        let mut devices: Vec<Device> = looks.iter().map(|look| self.device(look)).collect();
        for device in &mut devices {
            let seen = unlisted.get(&device.name).copied().unwrap_or(0);
            device.left_out = seen.saturating_sub(self.settings.max_unlisted) as u64;
        }
        self.add_statistics(&mut devices, now);
        self.count_what_went_back(&mut devices);
        let here: BTreeSet<String> = devices.iter().map(|device| device.name.clone()).collect();
        let gone = self.known.difference(&here).cloned().collect();
        self.known.extend(here);
        self.before.clone_from(&devices);
        RdmaLook { devices, gone }
    }

    /// A device that was gone has a new driver behind its files, which may have what the old one refused.
    fn forgive_who_came_back(&mut self) {
        let here: BTreeSet<&str> = self.before.iter().map(|device| device.name.as_str()).collect();
        for name in self.known.iter().filter(|name| !here.contains(name.as_str())) {
            self.tree.forgive(&format!("/sys/class/infiniband/{name}"));
        }
    }

    fn read_facts(&mut self, looks: &[DeviceLook], now: Instant) {
        let shape: Vec<Shape> = looks.iter().map(shape).collect();
        let old = self.read.is_none_or(|read| now.saturating_duration_since(read) >= FACTS_LAST);
        if !old && shape == self.shape {
            return;
        }
        let node = Node::read(&self.tree);
        self.facts = facts(&node, &self.tree);
        // Thousands of looks that nobody will ask for again.
        self.tree.renew();
        self.read = Some(now);
        self.shape = shape;
    }

    fn device(&self, look: &DeviceLook) -> Device {
        let unknown = Facts::default();
        let facts = self.facts.get(&look.name).unwrap_or(&unknown);
        Device {
            name: look.name.clone(),
            counters: look.counters.clone(),
            ports: look.ports.iter().map(|port| self.port(facts, port)).collect(),
            ..facts.device.clone()
        }
    }

    fn port(&self, facts: &Facts, look: &PortStatus) -> Port {
        let known = facts.device.ports.iter().find(|port| port.number == look.number);
        let rate = look.rate.value().map(|rate| rate.mbps);
        Port {
            number: look.number,
            state: look.state.value().map(|state| *state as u32),
            phys_state: phys_state(&look.phys_state),
            rate_mbps: facts.rates.get(&look.number).copied().unwrap_or(rate),
            counters: look.counters.clone(),
            ..known.cloned().unwrap_or_default()
        }
    }

    /// What the drivers of the ports' net devices count.
    fn add_statistics(&mut self, devices: &mut [Device], now: Instant) {
        for port in devices.iter_mut().flat_map(|device| &mut device.ports) {
            let Some(netdev) = &port.netdev else { continue };
            let mut found = self.nics.look(&self.tree, netdev, now);
            found.retain(|counter| {
                let row = counter.row();
                row.is_some_and(|row| is_wanted(&self.settings.counters, &counter.name, row.name()))
            });
            port.counters.extend(found);
        }
    }

    fn count_what_went_back(&self, devices: &mut [Device]) {
        for device in devices {
            let Some(before) = self.before.iter().find(|before| before.name == device.name) else {
                continue;
            };
            device.went_back = before.went_back + went_back(&before.counters, &device.counters);
            for port in &mut device.ports {
                let before = before.ports.iter().find(|before| before.number == port.number);
                port.went_back = before.map_or(0, |before| {
                    before.went_back + went_back(&before.counters, &port.counters)
                });
            }
        }
    }
}

/// What is wanted, and how many counters of each device have no row.
struct Chooser<'s> {
    settings: &'s Settings,
    unlisted: BTreeMap<String, usize>,
}

impl Choice for Chooser<'_> {
    fn device(&mut self, name: &str) -> bool {
        self.settings.devices.wants(&[name])
    }

    fn counter(&mut self, device: &str, folder: Folder, name: &str) -> bool {
        if let Some(meaning) = meaning(folder, name) {
            return is_wanted(&self.settings.counters, name, meaning.row.name());
        }
        if !self.settings.counters.wants(&[name]) {
            return false;
        }
        let unlisted = self.unlisted.entry(device.to_owned()).or_default();
        *unlisted += 1;
        *unlisted <= self.settings.max_unlisted
    }
}

fn is_wanted(list: &List, file: &str, metric: &str) -> bool {
    *list == List::default() || list.wants(&[file, metric, &format!("rdma_{metric}")])
}

fn shape(device: &DeviceLook) -> Shape {
    let port = |port: &PortStatus| {
        let state = port.state.value().map(|state| *state as u32);
        (port.number, state, port.rate.value().map(|rate| rate.mbps))
    };
    (device.name.clone(), device.ports.iter().map(port).collect())
}

fn facts(node: &Node, tree: &Tree) -> BTreeMap<String, Facts> {
    let case = Case::of(node, tree);
    node.devices.iter().map(|device| (device.name.clone(), facts_of(&case, device))).collect()
}

fn facts_of(case: &Case<'_>, device: &node::Device) -> Facts {
    let mut rates = BTreeMap::new();
    let ports = device.ports.iter().map(|port| {
        let standing = rates::standing(case, device, port);
        rates.extend(standing.instead.map(|rate| (port.number, rate)));
        let (mbps, by) = standing.expected.unzip();
        Port {
            number: port.number,
            netdev: port.netdev.clone(),
            link_layer: port.link_layer.value().map(|layer| layer.name().to_owned()),
            expected_mbps: mbps,
            expected_by: by,
            ..Port::default()
        }
    });
    let ports = ports.collect();
    let device = Device {
        name: device.name.clone(),
        driver: device.driver.clone(),
        firmware: device.firmware.value().cloned(),
        hca_type: device.hca_type.value().cloned(),
        board_id: device.board_id.value().cloned(),
        pci: device.pci.map(|pci| pci.to_string()),
        numa_node: device.numa_node,
        function: function(&device.role).map(str::to_owned),
        physical_function: physical_function(case.node, &device.role),
        ports,
        ..Device::default()
    };
    Facts { device, rates }
}

fn function(role: &Role) -> Option<&'static str> {
    match role {
        Role::Physical { .. } => Some("physical"),
        Role::Virtual { .. } => Some("virtual"),
        Role::Software => Some("software"),
        Role::Unknown => None,
    }
}

/// The card of a virtual function: by its RDMA device, if that is here, which a pod does not see.
fn physical_function(node: &Node, role: &Role) -> Option<String> {
    let Role::Virtual { of, .. } = role else { return None };
    let card = node.devices.iter().find(|device| device.pci == Some(*of));
    Some(card.map_or_else(|| of.to_string(), |card| card.name.clone()))
}

/// The kernel's number; of one that it does not name, nothing.
fn phys_state(state: &Seen<PhysState>) -> Option<u32> {
    let known = state.value().filter(|state| **state != PhysState::Unknown);
    known.map(|state| *state as u32 + 1)
}

/// How many counters are lower than before. Numbers that may go down, or of which that is not known, do not count.
fn went_back(before: &[Counter], now: &[Counter]) -> u64 {
    let counters = now.iter().enumerate().filter(|(at, counter)| {
        // Mostly the same files, in the same order.
        let same = |known: &&Counter| known.name == counter.name && known.folder == counter.folder;
        let before = before.get(*at).filter(same).or_else(|| before.iter().find(same));
        before.is_some_and(|before| counter.went_back(before))
    });
    counters.count() as u64
}

/// Cables are changed and firmware is burnt while the machine runs, though seldom.
const FACTS_LAST: Duration = Duration::from_secs(60);
