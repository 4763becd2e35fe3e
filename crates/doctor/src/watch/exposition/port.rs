//! Devices and ports.

use std::collections::HashSet;

use metric::{Exposition, Row};
use node::counters::{self, Folder};

use super::{bytes_per_second, labels};
use crate::watch::{Count, Device, Frame, Port, rows};

pub(super) fn expose(frame: &Frame, rdma: &mut Exposition, own: &mut Exposition) {
    for device in &frame.devices {
        rdma.add(&rows::DEVICE_PRESENT, &[("device", &device.name)], true);
    }
    for name in &frame.gone {
        rdma.add(&rows::DEVICE_PRESENT, &[("device", name)], false);
    }
    for device in &frame.devices {
        for port in &device.ports {
            add_port(rdma, device, port);
            add_info(own, device, port);
        }
        let of = [("device", device.name.as_str())];
        add_counters(rdma, &of, &device.counters, device.metrics(), device.went_back);
        own.add(&rows::LEFT_OUT, &of, device.left_out);
    }
}

fn add_port(rdma: &mut Exposition, device: &Device, port: &Port) {
    let number = port.number.to_string();
    let of = [("device", device.name.as_str()), ("port", number.as_str())];
    let gauges = [
        (&rows::PORT_STATE, port.state.map(u64::from)),
        (&rows::PORT_PHYSICAL_STATE, port.phys_state.map(u64::from)),
        (&rows::PORT_RATE, port.rate_mbps.map(bytes_per_second)),
        (&rows::PORT_RATE_EXPECTED, port.expected_mbps.map(bytes_per_second)),
    ];
    for (row, value) in gauges {
        if let Some(value) = value {
            rdma.add(row, &of, value);
        }
    }
    add_counters(rdma, &of, &port.counters, port.metrics(), port.went_back);
}

fn add_info(own: &mut Exposition, device: &Device, port: &Port) {
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
    of: &[(&str, &str)],
    counts: &[Count],
    metrics: Vec<(Row, u64)>,
    went_back: u64,
) {
    for (row, value) in metrics {
        rdma.add(&row, of, value);
    }
    add_statistics(rdma, of, counts);
    for count in counts.iter().filter(|count| count.folder != Folder::Ethtool) {
        add_count(rdma, of, counts, count);
    }
    if !counts.is_empty() {
        rdma.add(&rows::COUNTER_WENT_BACK, of, went_back);
    }
}

/// What the driver of the port's net device counts. That no driver has two names for one series is not for us to
/// promise, and a second sample would cost the whole scrape.
fn add_statistics(rdma: &mut Exposition, of: &[(&str, &str)], counts: &[Count]) {
    let mut told = HashSet::new();
    for count in counts.iter().filter(|count| count.folder == Folder::Ethtool) {
        let Some((known, labels)) = counters::statistic(&count.name) else { continue };
        let Some(value) = count.value else { continue };
        if told.insert((known.row.name(), labels.clone())) {
            let own = labels.iter().map(|(name, value)| (*name, value.as_str()));
            let labels: Vec<(&str, &str)> = of.iter().copied().chain(own).collect();
            match known.per {
                1 => rdma.add(&known.row, &labels, value),
                _ => rdma.add(&known.row, &labels, known.scaled(value)),
            }
        }
    }
}

/// What is to be said of one file besides its metric.
fn add_count(rdma: &mut Exposition, of: &[(&str, &str)], counts: &[Count], count: &Count) {
    let with = |more: &[(&'static str, &str)], row: &Row, value: u64, rdma: &mut Exposition| {
        let labels: Vec<(&str, &str)> = of.iter().chain(more).copied().collect();
        rdma.add(row, &labels, value);
    };
    if let Some(fault) = &count.fault {
        let name = name_among(counts, count);
        with(&[("counter", &name), ("reason", fault)], &rows::COUNTER_UNREADABLE, 1, rdma);
    }
    if count.is_saturated() {
        let name = name_among(counts, count);
        with(&[("counter", &name)], &rows::COUNTER_SATURATED, 1, rdma);
    }
    let Some(value) = count.value else { return };
    if count.meaning().is_none() {
        let name = name_among(counts, count);
        with(&[("counter", &name)], &rows::UNLISTED, value, rdma);
    }
}

/// A file's name; with its folder, where another folder of the port has a file of that name.
fn name_among(counts: &[Count], count: &Count) -> String {
    let same = counts.iter().filter(|other| other.name == count.name).count();
    if same > 1 { format!("{}/{}", count.folder.name(), count.name) } else { count.name.clone() }
}
