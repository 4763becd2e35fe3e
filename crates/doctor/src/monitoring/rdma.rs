//! Periodic samples of RDMA devices.
//!
//! Counters, states and rates are read with every sample. Constant facts (firmware, which port belongs to which net device,
//! the expected rate) are read at the start, then every minute, and when devices or their links change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use node::counters::{CounterSource, known_counter};
use node::sampling::{DeviceSample, NicSampler, Select};
use node::{Counter, Node, PhysState, PortStatus, Reading, Role, Tree};

use super::{List, SampledDevice, SampledPort};
use crate::{CheckInput, rates};

/// What is sampled.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Devices, by name.
    pub devices: List,
    /// Counters, by file name, or by metric name with or without `rdma_`.
    pub counters: List,
    /// The maximum number of counters of one device without a row in the table; hfi1 has hundreds.
    pub max_unlisted: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { devices: List::default(), counters: List::default(), max_unlisted: 128 }
    }
}

/// Samples the RDMA devices of a machine.
#[derive(Debug)]
pub struct RdmaSampler {
    tree: Tree,
    settings: Settings,
    facts: BTreeMap<String, Facts>,
    facts_read_at: Option<Instant>,
    /// Devices, ports, states and rates: when they change, the facts are read again.
    shape: Vec<Shape>,
    before: Vec<SampledDevice>,
    known: BTreeSet<String>,
    nics: NicSampler,
}

/// One sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RdmaSample {
    /// In the order of their names.
    pub devices: Vec<SampledDevice>,
    /// Names of devices that were present since the watch started, and are not now.
    pub gone: Vec<String>,
}

/// Constant facts of a device.
#[derive(Debug, Default)]
struct Facts {
    /// Without counters, states and rates.
    device: SampledDevice,
    /// By port: its rate, if its own file is imprecise.
    rates: BTreeMap<u32, Option<u64>>,
}

type Shape = (String, Vec<(u32, Option<u32>, Option<u64>)>);

impl RdmaSampler {
    /// A watch of this machine.
    pub fn new(tree: Tree, settings: Settings) -> RdmaSampler {
        RdmaSampler {
            tree,
            settings,
            facts: BTreeMap::new(),
            facts_read_at: None,
            shape: Vec::new(),
            before: Vec::new(),
            known: BTreeSet::new(),
            nics: NicSampler::new(),
        }
    }

    /// Takes a sample.
    pub fn sample(&mut self, now: Instant) -> RdmaSample {
        self.retry_returned_devices();
        let mut selection = Selection { settings: &self.settings, unlisted: BTreeMap::new() };
        let samples = node::sampling::sample(&self.tree, &mut selection);
        let unlisted = selection.unlisted;
        self.read_facts(&samples, now);
        let mut devices: Vec<SampledDevice> =
            samples.iter().map(|sample| self.device(sample)).collect();
        for device in &mut devices {
            let seen = unlisted.get(&device.name).copied().unwrap_or(0);
            device.left_out = seen.saturating_sub(self.settings.max_unlisted) as u64;
        }
        self.add_statistics(&mut devices, now);
        self.count_decreases(&mut devices);
        let here: BTreeSet<String> = devices.iter().map(|device| device.name.clone()).collect();
        let gone = self.known.difference(&here).cloned().collect();
        self.known.extend(here);
        self.before.clone_from(&devices);
        RdmaSample { devices, gone }
    }

    /// Retries refused files of missing devices: after they return, another driver may provide them.
    fn retry_returned_devices(&mut self) {
        let here: BTreeSet<&str> = self.before.iter().map(|device| device.name.as_str()).collect();
        for name in self.known.iter().filter(|name| !here.contains(name.as_str())) {
            self.tree.retry_refused(&format!("/sys/class/infiniband/{name}"));
        }
    }

    fn read_facts(&mut self, samples: &[DeviceSample], now: Instant) {
        let shape: Vec<Shape> = samples.iter().map(shape).collect();
        let old = self
            .facts_read_at
            .is_none_or(|read| now.saturating_duration_since(read) >= FACTS_INTERVAL);
        if !old && shape == self.shape {
            return;
        }
        let node = Node::read(&self.tree);
        self.facts = facts(&node, &self.tree);
        // Drops thousands of cached files that are not read again.
        self.tree.clear_cache();
        self.facts_read_at = Some(now);
        self.shape = shape;
    }

    fn device(&self, sample: &DeviceSample) -> SampledDevice {
        let unknown = Facts::default();
        let facts = self.facts.get(&sample.name).unwrap_or(&unknown);
        SampledDevice {
            name: sample.name.clone(),
            counters: sample.counters.clone(),
            ports: sample.ports.iter().map(|port| self.port(facts, port)).collect(),
            ..facts.device.clone()
        }
    }

    fn port(&self, facts: &Facts, status: &PortStatus) -> SampledPort {
        let known = facts.device.ports.iter().find(|port| port.number == status.number);
        let rate = status.rate.value().map(|rate| rate.mbps);
        SampledPort {
            number: status.number,
            state: status.state.value().map(|state| *state as u32),
            phys_state: phys_state(&status.phys_state),
            rate_mbps: facts.rates.get(&status.number).copied().unwrap_or(rate),
            counters: status.counters.clone(),
            ..known.cloned().unwrap_or_default()
        }
    }

    /// Adds the ethtool statistics of the ports' net devices.
    fn add_statistics(&mut self, devices: &mut [SampledDevice], now: Instant) {
        for port in devices.iter_mut().flat_map(|device| &mut device.ports) {
            let Some(netdev) = &port.netdev else { continue };
            let mut found = self.nics.sample(&self.tree, netdev, now);
            found.retain(|counter| {
                let metric = counter.metric();
                metric.is_some_and(|row| {
                    is_wanted(&self.settings.counters, &counter.name, row.name())
                })
            });
            port.counters.extend(found);
        }
    }

    fn count_decreases(&self, devices: &mut [SampledDevice]) {
        for device in devices {
            let Some(before) = self.before.iter().find(|before| before.name == device.name) else {
                continue;
            };
            device.decreases = before.decreases + decreases(&before.counters, &device.counters);
            for port in &mut device.ports {
                let before = before.ports.iter().find(|before| before.number == port.number);
                port.decreases = before.map_or(0, |before| {
                    before.decreases + decreases(&before.counters, &port.counters)
                });
            }
        }
    }
}

/// Selects devices and counters, and counts those without a row.
struct Selection<'s> {
    settings: &'s Settings,
    unlisted: BTreeMap<String, usize>,
}

impl Select for Selection<'_> {
    fn device(&mut self, name: &str) -> bool {
        self.settings.devices.wants(&[name])
    }

    fn counter(&mut self, device: &str, source: CounterSource, name: &str) -> bool {
        if let Some(known) = known_counter(source, name) {
            return is_wanted(&self.settings.counters, name, known.row.name());
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

fn shape(device: &DeviceSample) -> Shape {
    let port = |port: &PortStatus| {
        let state = port.state.value().map(|state| *state as u32);
        (port.number, state, port.rate.value().map(|rate| rate.mbps))
    };
    (device.name.clone(), device.ports.iter().map(port).collect())
}

fn facts(node: &Node, tree: &Tree) -> BTreeMap<String, Facts> {
    let input = CheckInput::new(node, tree);
    node.devices.iter().map(|device| (device.name.clone(), facts_of(&input, device))).collect()
}

fn facts_of(input: &CheckInput<'_>, device: &node::Device) -> Facts {
    let mut rates = BTreeMap::new();
    let ports = device.ports.iter().map(|port| {
        let status = rates::status(input, device, port);
        rates.extend(status.netdev_mbps.map(|rate| (port.number, rate)));
        let (mbps, source) = status.expected.unzip();
        SampledPort {
            number: port.number,
            netdev: port.netdev.clone(),
            link_layer: port.link_layer.value().map(|layer| layer.name().to_owned()),
            expected_mbps: mbps,
            expected_by: source,
            ..SampledPort::default()
        }
    });
    let ports = ports.collect();
    let device = SampledDevice {
        name: device.name.clone(),
        driver: device.driver.clone(),
        firmware: device.firmware.value().cloned(),
        hca_type: device.hca_type.value().cloned(),
        board_id: device.board_id.value().cloned(),
        pci: device.pci.map(|pci| pci.to_string()),
        numa_node: device.numa_node,
        function: function(&device.role).map(str::to_owned),
        physical_function: physical_function(input.node, &device.role),
        ports,
        ..SampledDevice::default()
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

/// The physical function of a virtual one: its RDMA device if visible (not in a pod), else its PCI address.
fn physical_function(node: &Node, role: &Role) -> Option<String> {
    let Role::Virtual { of, .. } = role else { return None };
    let nic = node.devices.iter().find(|device| device.pci == Some(*of));
    Some(nic.map_or_else(|| of.to_string(), |nic| nic.name.clone()))
}

/// The kernel's number; `None` if it is unknown.
fn phys_state(state: &Reading<PhysState>) -> Option<u32> {
    let known = state.value().filter(|state| **state != PhysState::Unknown);
    known.map(|state| *state as u32 + 1)
}

/// The number of counters that are lower than before. Gauges and unlisted counters do not count.
fn decreases(before: &[Counter], now: &[Counter]) -> u64 {
    let counters = now.iter().enumerate().filter(|(at, counter)| {
        // Usually the same files in the same order.
        let same = |known: &&Counter| known.name == counter.name && known.source == counter.source;
        let before = before.get(*at).filter(same).or_else(|| before.iter().find(same));
        before.is_some_and(|before| counter.decreased_since(before))
    });
    counters.count() as u64
}

/// Cables and firmware may change while the machine runs.
const FACTS_INTERVAL: Duration = Duration::from_secs(60);
