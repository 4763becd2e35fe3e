//! RDMA, links and their listener.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use fabric::link::{LinkStatus, Transport};
use fabric::session::Reason;
use fabric::{OpKind, Stats};
use metric::{Exposition, Total, Value};

use super::{Server, rows};

pub(super) fn add(exposition: &mut Exposition, server: &Server<'_>) {
    let endpoint = server.endpoint;
    rdma(exposition, &endpoint.transferred_by_rdma());
    exposition.add(&rows::RDMA_UNRELEASED, &[], fabric::unreleased());
    let links = endpoint.links();
    rails_up(exposition, server, &links);
    for transport in Transport::ALL {
        let up = links
            .iter()
            .filter(|link| link.state == "up" && link.transport == Some(transport.name()));
        exposition.add(&rows::LINKS, &[("transport", transport.name())], up.count() as u64);
        let below = links.iter().filter(|link| is_below_best(link, transport)).count();
        exposition.add(&rows::LINKS_BELOW_BEST, &[("transport", transport.name())], below as u64);
    }
    for (what, count) in server.events.counts() {
        exposition.add(&rows::LINK_EVENTS, &[("event", what.name())], count);
    }
    if let Some(listener) = server.listener {
        let counts = listener.counts();
        exposition.add(&rows::LISTENER_ACCEPTED, &[], counts.accepted());
        for reason in Reason::ALL {
            exposition.add(
                &rows::LISTENER_REJECTED,
                &[("reason", reason.name())],
                counts.refused(reason),
            );
        }
        exposition.add(&rows::LISTENER_OTHER_PROTOCOL, &[], counts.others());
        exposition.add(&rows::LISTENER_FD_EXHAUSTED, &[], counts.starved());
        exposition.add(&rows::LISTENER_HALF_OPEN, &[], counts.half_open() as u64);
    }
}

/// Whether a link uses this transport, and a rail of a better one is planned for it.
fn is_below_best(link: &LinkStatus, transport: Transport) -> bool {
    let better = Transport::ALL.iter().take_while(|other| **other != transport);
    link.state == "up"
        && link.transport == Some(transport.name())
        && better
            .into_iter()
            .any(|better| link.rails.iter().any(|rail| rail.transport == better.name()))
}

/// The counters of all RDMA lanes, including closed ones.
fn rdma(exposition: &mut Exposition, stats: &Stats) {
    let latency = stats.latency();
    let quantiles: Vec<(f64, Value)> = QUANTILES
        .into_iter()
        .filter_map(|share| Some((share, Value::Whole(latency.quantile(share)?.as_nanos() as u64))))
        .collect();
    exposition.summary(
        &rows::SEND_LATENCY,
        &[],
        &quantiles,
        Total { count: latency.count(), sum: None },
    );
    super::durations(exposition, &rows::SEND_LATENCY_SECONDS, latency, LATENCIES);
    let bytes = |kinds: [OpKind; 2]| kinds.map(|kind| stats.bytes(kind)).iter().sum::<u64>();
    exposition.add(&rows::RDMA_TRANSMIT_PAYLOAD, &[], bytes([OpKind::Send, OpKind::Write]));
    exposition.add(&rows::RDMA_RECEIVE_PAYLOAD, &[], bytes([OpKind::Receive, OpKind::Read]));
    for (operations, bytes, kind) in [
        (&rows::RDMA_SENDS, &rows::RDMA_SEND_BYTES, OpKind::Send),
        (&rows::RDMA_RECEIVES, &rows::RDMA_RECEIVE_BYTES, OpKind::Receive),
        (&rows::RDMA_WRITES, &rows::RDMA_WRITE_BYTES, OpKind::Write),
        (&rows::RDMA_READS, &rows::RDMA_READ_BYTES, OpKind::Read),
    ] {
        exposition.add(operations, &[], stats.operations(kind));
        exposition.add(bytes, &[], stats.bytes(kind));
    }
    let sending = [OpKind::Send, OpKind::Write, OpKind::Read, OpKind::Atomic];
    let failed: u64 = sending.iter().map(|kind| stats.failed(*kind)).sum();
    exposition.add(&rows::RDMA_SEND_ERRORS, &[], failed);
    exposition.add(&rows::RDMA_RECV_ERRORS, &[], stats.failed(OpKind::Receive));
}

/// Rails that are up, for every known device.
fn rails_up(exposition: &mut Exposition, server: &Server<'_>, links: &[LinkStatus]) {
    let mut up: BTreeMap<&str, u64> =
        server.devices.iter().map(|name| (name.as_str(), 0)).collect();
    let rails = links.iter().flat_map(|link| &link.rails);
    for rail in rails.filter(|rail| rail.transport == Transport::Verbs.name() && rail.state == "up")
    {
        if let Some(port) = &rail.ours {
            *up.entry(&port.device).or_default() += 1;
        }
    }
    for (device, rails) in up {
        exposition.add(&rows::RDMA_RAILS_UP, &[("device", device)], rails);
    }
}

/// Bounds in doublings of a nanosecond: 255 ns to 1 s.
const LATENCIES: RangeInclusive<u32> = 8..=30;

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

#[cfg(test)]
mod tests {
    use fabric::link::RailReport;

    use super::*;

    fn rail(transport: &'static str) -> RailReport {
        RailReport {
            name: transport.to_owned(),
            transport,
            state: "down",
            in_use: false,
            why: String::new(),
            weight: 1,
            attempts: 1,
            ours: None,
            theirs: None,
            bytes: 0,
            operations: 0,
        }
    }

    /// A link that has rails of these kinds and uses one of them.
    fn link(rails: &[&'static str], transport: &'static str) -> LinkStatus {
        LinkStatus {
            peer: ([10, 0, 0, 1], 50051).into(),
            host: String::new(),
            identity: String::new(),
            encrypted: false,
            initiator: true,
            policy: "prefer",
            state: "up",
            transport: Some(transport),
            why: String::new(),
            rails: rails.iter().map(|transport| rail(transport)).collect(),
            left_out: Vec::new(),
            counts: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    #[test]
    fn a_link_that_fell_back_to_tcp_is_below_its_best() {
        let below = |rails: &[&'static str], transport| {
            is_below_best(&link(rails, transport), Transport::Tcp)
        };
        assert!(below(&["verbs", "verbs", "tcp"], "tcp"));
        assert!(!below(&["verbs", "tcp"], "verbs"), "it uses RDMA");
        assert!(!below(&["tcp"], "tcp"), "nothing better was planned");
        assert!(is_below_best(&link(&["shm", "verbs", "tcp"], "verbs"), Transport::Verbs));
        let ended = LinkStatus { state: "ended", ..link(&["verbs", "tcp"], "tcp") };
        assert!(!is_below_best(&ended, Transport::Tcp));
    }
}
