//! Counters that increased during a measurement.

use node::counters::{KnownCounter, TABLE};
use report::Point;

/// Retransmissions of both ends; `None` if they have no such counters.
pub fn retransmissions(point: &Point) -> Option<u64> {
    let both = || point.counters.iter().chain(&point.peer_counters);
    both().next()?;
    Some(both().filter(|(name, _)| is_one_of(name, RETRANSMISSIONS)).map(|(_, count)| count).sum())
}

/// Error counters that increased, with their meaning.
pub(super) fn bad(point: &Point) -> Vec<(String, u64, &'static KnownCounter)> {
    let ends = [("here", &point.counters), ("there", &point.peer_counters)];
    let increased = ends
        .into_iter()
        .flat_map(|(end, counters)| counters.iter().map(move |(name, count)| (end, name, *count)));
    let bad = increased
        .filter(|(_, name, _)| is_one_of(name, RETRANSMISSIONS) || is_one_of(name, LOSSES));
    bad.filter_map(|(end, name, count)| {
        Some((format!("{name} {end}"), count, known_counter(name)?))
    })
    .collect()
}

fn known_counter(name: &str) -> Option<&'static KnownCounter> {
    TABLE.iter().find(|row| Some(row.row.name()) == metric(name))
}

/// The metric in `mlx5_0 port 1 out_of_sequence_packets_total`.
fn metric(name: &str) -> Option<&str> {
    name.rsplit(' ').next()
}

fn is_one_of(name: &str, metrics: &[&str]) -> bool {
    metric(name).is_some_and(|metric| metrics.contains(&metric))
}

/// Retransmissions.
const RETRANSMISSIONS: &[&str] = &[
    "completer_retries_total",
    "local_ack_timeout_errors_total",
    "packet_sequence_errors_total",
    "retransmit_packets_total",
    "retransmit_segments_total",
    "roce_adaptive_retransmits_total",
    "timeout_retransmits_total",
];

/// Lost, dropped or delayed packets.
const LOSSES: &[&str] = &[
    "out_of_buffer_drops_total",
    "out_of_sequence_packets_total",
    "out_of_sequence_drops_total",
    "receive_drops_total",
    "port_transmit_discards_total",
    "port_receive_errors_total",
    "symbol_errors_total",
    "rnr_nak_retry_errors_total",
    "cnps_handled_total",
    "reaction_point_cnps_handled_total",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_in_the_table() {
        for name in RETRANSMISSIONS.iter().chain(LOSSES) {
            assert!(TABLE.iter().any(|row| row.row.name() == *name), "{name}");
        }
    }
}
