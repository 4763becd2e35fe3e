//! RDMA, links and the door they come in by.

use std::collections::BTreeMap;

use fabric::link::{Class, Explanation};
use fabric::session::Reason;
use fabric::{OpKind, Stats};
use metric::{Exposition, Total, Value};

use super::rows;
use crate::serve::status::Status;

pub(super) fn add(answer: &mut Exposition, status: &Status) {
    let endpoint = &status.parts.endpoint;
    rdma(answer, &endpoint.carried(Class::Verbs));
    let links = endpoint.links();
    connected(answer, status, &links);
    for class in Class::ALL {
        let up = links.iter().filter(|link| link.state == "up" && link.lane == Some(class.name()));
        answer.add(&rows::LINKS, &[("lane", class.name())], up.count() as u64);
    }
    for (what, count) in status.parts.events.counts() {
        answer.add(&rows::LINK_EVENTS, &[("event", what.name())], count);
    }
    if let Some(door) = status.door() {
        let counts = door.counts();
        answer.add(&rows::DOOR_ACCEPTED, &[], counts.accepted());
        for reason in Reason::ALL {
            answer.add(&rows::DOOR_REFUSED, &[("reason", reason.name())], counts.refused(reason));
        }
        answer.add(&rows::DOOR_OTHERS, &[], counts.others());
        answer.add(&rows::DOOR_STARVED, &[], counts.starved());
        answer.add(&rows::DOOR_HALF_OPEN, &[], counts.half_open() as u64);
    }
}

/// What all lanes over verbs did, those included that are gone.
fn rdma(answer: &mut Exposition, stats: &Stats) {
    let latency = stats.latency();
    let quantiles: Vec<(f64, Value)> = QUANTILES
        .into_iter()
        .filter_map(|share| Some((share, Value::Whole(latency.quantile(share)?.as_nanos() as u64))))
        .collect();
    answer.summary(
        &rows::SEND_LATENCY,
        &[],
        &quantiles,
        Total { count: latency.count(), sum: None },
    );
    let bytes = |kinds: [OpKind; 2]| kinds.map(|kind| stats.bytes(kind)).iter().sum::<u64>();
    answer.add(&rows::RDMA_SENT, &[], bytes([OpKind::Send, OpKind::Write]));
    answer.add(&rows::RDMA_RECEIVED, &[], bytes([OpKind::Receive, OpKind::Read]));
    for (row, kind) in [
        (&rows::RDMA_SENDS, OpKind::Send),
        (&rows::RDMA_RECEIVES, OpKind::Receive),
        (&rows::RDMA_WRITES, OpKind::Write),
        (&rows::RDMA_READS, OpKind::Read),
    ] {
        answer.add(row, &[], stats.operations(kind));
    }
    let sending = [OpKind::Send, OpKind::Write, OpKind::Read, OpKind::Atomic];
    let failed: u64 = sending.iter().map(|kind| stats.failed(*kind)).sum();
    answer.add(&rows::RDMA_SEND_ERRORS, &[], failed);
    answer.add(&rows::RDMA_RECV_ERRORS, &[], stats.failed(OpKind::Receive));
}

/// Rails that are up, of every device that was seen to be there.
fn connected(answer: &mut Exposition, status: &Status, links: &[Explanation]) {
    let seen = status.parts.offers.seen();
    let names = seen.iter().flat_map(|rdma| rdma.devices.iter().map(|device| device.name.as_str()));
    let mut up: BTreeMap<&str, u64> = names.map(|name| (name, 0)).collect();
    let rails = links.iter().flat_map(|link| &link.rails);
    for rail in rails.filter(|rail| rail.lane == Class::Verbs.name() && rail.state == "up") {
        if let Some(port) = &rail.ours {
            *up.entry(&port.device).or_default() += 1;
        }
    }
    for (device, rails) in up {
        answer.add(&rows::RDMA_CONNECTED, &[("device", device)], rails);
    }
}

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
