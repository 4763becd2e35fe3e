//! What counters that moved say about a path.

use node::counters::{Meaning, TABLE};
use report::Point;

/// What both ends sent again, by their counters; none where they have none.
pub fn retransmissions(point: &Point) -> Option<u64> {
    let both = || point.counters.iter().chain(&point.peer_counters);
    both().next()?;
    Some(both().filter(|(name, _)| is_one_of(name, AGAIN)).map(|(_, count)| count).sum())
}

/// Counters that moved and should not have, with what they mean.
pub(super) fn bad(point: &Point) -> Vec<(String, u64, &'static Meaning)> {
    let ends = [("here", &point.counters), ("there", &point.peer_counters)];
    let moved = ends
        .into_iter()
        .flat_map(|(end, counters)| counters.iter().map(move |(name, count)| (end, name, *count)));
    let bad = moved.filter(|(_, name, _)| is_one_of(name, AGAIN) || is_one_of(name, LOST));
    bad.filter_map(|(end, name, count)| Some((format!("{name} {end}"), count, meaning(name)?)))
        .collect()
}

fn meaning(name: &str) -> Option<&'static Meaning> {
    TABLE.iter().find(|row| Some(row.row.name()) == metric(name))
}

/// Of `mlx5_0 port 1 out_of_sequence_packets_total`.
fn metric(name: &str) -> Option<&str> {
    name.rsplit(' ').next()
}

fn is_one_of(name: &str, metrics: &[&str]) -> bool {
    metric(name).is_some_and(|metric| metrics.contains(&metric))
}

/// Something was sent again.
const AGAIN: &[&str] = &[
    "completer_retries_total",
    "local_ack_timeout_errors_total",
    "packet_sequence_errors_total",
    "retransmit_packets_total",
    "retransmit_segments_total",
    "roce_adaptive_retransmits_total",
    "timeout_retransmits_total",
];

/// Something was lost, dropped, or held up.
const LOST: &[&str] = &[
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
    fn every_name_is_one_of_the_table() {
        for name in AGAIN.iter().chain(LOST) {
            assert!(TABLE.iter().any(|row| row.row.name() == *name), "{name}");
        }
    }
}
