//! Devices and ports.

use metric::{Exposition, Row};
use node::counters::{Counter, CounterSource, Sample};

use super::{bytes_per_second, labels};
use crate::monitoring::{MachineSample, SampledDevice, SampledPort, rows};

pub(super) fn expose(sample: &MachineSample, rdma: &mut Exposition, own: &mut Exposition) {
    for device in &sample.devices {
        rdma.add(&rows::DEVICE_PRESENT, &[("device", &device.name)], true);
    }
    for name in &sample.gone {
        rdma.add(&rows::DEVICE_PRESENT, &[("device", name)], false);
    }
    for device in &sample.devices {
        for port in &device.ports {
            add_port(rdma, device, port);
            add_info(own, device, port);
        }
        let labels = [("device", device.name.as_str())];
        add_counters(rdma, &labels, &device.counters, device.decreases);
        own.add(&rows::LEFT_OUT, &labels, device.left_out);
    }
}

fn add_port(rdma: &mut Exposition, device: &SampledDevice, port: &SampledPort) {
    let number = port.number.to_string();
    let labels = [("device", device.name.as_str()), ("port", number.as_str())];
    let gauges = [
        (&rows::PORT_STATE, port.state.map(u64::from)),
        (&rows::PORT_PHYSICAL_STATE, port.phys_state.map(u64::from)),
        (&rows::PORT_RATE, port.rate_mbps.map(bytes_per_second)),
        (&rows::PORT_RATE_EXPECTED, port.expected_mbps.map(bytes_per_second)),
    ];
    for (row, value) in gauges {
        if let Some(value) = value {
            rdma.add(row, &labels, value);
        }
    }
    add_counters(rdma, &labels, &port.counters, port.decreases);
}

fn add_info(own: &mut Exposition, device: &SampledDevice, port: &SampledPort) {
    let number = port.number.to_string();
    let numa_node = device.numa_node.map(|node| node.to_string());
    let labels = labels([
        ("device", Some(&device.name)),
        ("port", Some(&number)),
        ("netdev", port.netdev.as_deref()),
        ("link_layer", port.link_layer.as_deref()),
        ("driver", device.driver.as_deref()),
        ("firmware", device.firmware.as_deref()),
        ("board_id", device.board_id.as_deref()),
        ("hca_type", device.hca_type.as_deref()),
        ("pci", device.pci.as_deref()),
        ("numa_node", numa_node.as_deref()),
        ("function", device.function.as_deref()),
        ("physical_function", device.physical_function.as_deref()),
    ]);
    own.add(&rows::PORT_INFO, &labels, true);
}

/// Counters of a port, or of a device as a whole.
fn add_counters(
    rdma: &mut Exposition,
    owner: &[(&str, &str)],
    counters: &[Counter],
    decreases: u64,
) {
    for Sample { row, labels, value } in node::counters::samples(counters) {
        let own = labels.iter().map(|(name, value)| (*name, value.as_str()));
        let labels: Vec<(&str, &str)> = owner.iter().copied().chain(own).collect();
        rdma.add(&row, &labels, value);
    }
    for counter in counters.iter().filter(|counter| counter.source != CounterSource::Ethtool) {
        add_counter(rdma, owner, counters, counter);
    }
    if !counters.is_empty() {
        rdma.add(&rows::COUNTERS_RESET, owner, decreases);
    }
}

/// The metrics about one counter file: unreadable, saturated, unlisted.
fn add_counter(
    rdma: &mut Exposition,
    owner: &[(&str, &str)],
    counters: &[Counter],
    counter: &Counter,
) {
    let with = |more: &[(&'static str, &str)], row: &Row, value: u64, rdma: &mut Exposition| {
        let labels: Vec<(&str, &str)> = owner.iter().chain(more).copied().collect();
        rdma.add(row, &labels, value);
    };
    if let Some(fault) = &counter.value.fault() {
        let name = name_among(counters, counter);
        with(&[("counter", &name), ("reason", fault)], &rows::COUNTER_UNREADABLE, 1, rdma);
    }
    if counter.is_saturated() {
        let name = name_among(counters, counter);
        with(&[("counter", &name)], &rows::COUNTER_SATURATED, 1, rdma);
    }
    let Some(value) = counter.number() else { return };
    if counter.known().is_none() {
        let name = name_among(counters, counter);
        with(&[("counter", &name)], &rows::UNLISTED, value, rdma);
    }
}

/// The file's name; with its folder if another folder of the port has a file of that name.
fn name_among(counters: &[Counter], counter: &Counter) -> String {
    let same = counters.iter().filter(|other| other.name == counter.name).count();
    if same > 1 {
        format!("{}/{}", counter.source.name(), counter.name)
    } else {
        counter.name.clone()
    }
}
