//! Groups of metrics: which ones make up each displayed value.

/// The value is the first of these metrics that a port has.
pub(super) type FirstOf = &'static [&'static str];

/// The value is the sum of these metrics.
pub(super) type SumOf = &'static [&'static str];

pub(super) const RECEIVE_BYTES: FirstOf =
    &["port_receive_bytes_total", "optional_receive_bytes_total"];

pub(super) const TRANSMIT_BYTES: FirstOf =
    &["port_transmit_bytes_total", "optional_transmit_bytes_total"];

pub(super) const RECEIVE_PACKETS: FirstOf =
    &["port_receive_packets_total", "optional_receive_packets_total"];

pub(super) const TRANSMIT_PACKETS: FirstOf =
    &["port_transmit_packets_total", "optional_transmit_packets_total"];

/// Errors, discards and exceeded retries.
pub(super) const ERRORS: SumOf = &[
    "port_receive_errors_total",
    "port_receive_remote_physical_errors_total",
    "port_receive_switch_relay_errors_total",
    "port_receive_constraint_errors_total",
    "port_transmit_constraint_errors_total",
    "port_transmit_discards_total",
    "symbol_errors_total",
    "link_error_recoveries_total",
    "link_downed_total",
    "software_link_downed_total",
    "local_link_integrity_errors_total",
    "excessive_buffer_overrun_errors_total",
    "vl15_dropped_total",
    "receive_icrc_errors_total",
    "responder_local_length_errors_total",
    "responder_completion_errors_total",
    "requester_completion_errors_total",
    "requester_remote_invalid_requests_total",
    "requester_remote_access_errors_total",
    "responder_remote_access_errors_total",
    "requester_transport_retries_exceeded_total",
    "requester_rnr_retries_exceeded_total",
    "send_queue_transport_retries_exceeded_total",
    "send_queue_rnr_retries_exceeded_total",
    "send_queue_local_protection_errors_total",
    "send_queue_remote_access_errors_total",
    "send_queue_remote_operation_errors_total",
    "receive_roce_errors_total",
    "receive_roce_discards_total",
    "transmit_roce_errors_total",
    "transmit_roce_discards_total",
    "max_retries_exceeded_total",
    "unrecoverable_errors_total",
    "receive_drops_total",
    "read_work_request_errors_total",
    "write_work_request_errors_total",
    "unresponsive_remote_events_total",
    "ip4_receive_discards_total",
    "ip6_receive_discards_total",
    "receive_protocol_errors_total",
    "retries_exceeded_total",
    "rnr_retries_exceeded_total",
    "send_errors_total",
    "port_wire_errors_total",
    "port_wire_crc_errors_total",
    "port_wire_link_downs_total",
    "port_wire_discards_total",
    "port_pcie_signal_errors_total",
];

/// Signs of congestion: ECN-marked packets, CNPs, pause frames.
pub(super) const CONGESTION: SumOf = &[
    "reaction_point_cnps_ignored_total",
    "reaction_point_cnps_handled_total",
    "notification_point_ecn_packets_total",
    "notification_point_cnps_sent_total",
    "transmit_cnps_total",
    "receive_cnps_total",
    "receive_ecn_packets_total",
    "cnps_handled_total",
    "cnps_ignored_total",
    "cnps_sent_total",
    "receive_ecn_marked_packets_total",
    "port_priority_pause_frames_total",
    "port_global_pause_frames_total",
    "port_pause_storms_total",
    "port_priority_congestion_discards_total",
    "port_priority_marked_packets_total",
];

/// Ignored CNPs.
pub(super) const IGNORED_CNPS: SumOf = &["reaction_point_cnps_ignored_total", "cnps_ignored_total"];

/// Ticks with data to send and no credit: InfiniBand's only counter of congestion.
pub(super) const TRANSMIT_WAIT: FirstOf = &["port_transmit_wait_ticks_total"];

/// Lost or late packets, and retransmissions.
pub(super) const RETRIES: SumOf = &[
    "out_of_buffer_drops_total",
    "out_of_sequence_packets_total",
    "duplicate_requests_total",
    "rnr_nak_retry_errors_total",
    "packet_sequence_errors_total",
    "implied_nak_sequence_errors_total",
    "local_ack_timeout_errors_total",
    "roce_adaptive_retransmits_total",
    "receive_queue_out_of_sequence_total",
    "receive_queue_duplicates_total",
    "send_queue_out_of_sequence_total",
    "send_queue_rnr_naks_total",
    "send_queue_timeouts_total",
    "timeout_retransmits_total",
    "sequence_error_naks_received_total",
    "rnr_naks_received_total",
    "duplicate_requests_received_total",
    "out_of_sequence_drops_total",
    "retransmit_packets_total",
    "retransmit_timeouts_total",
    "retransmit_segments_total",
    "out_of_sequence_requests_total",
    "received_rnr_errors_total",
    "received_sequence_errors_total",
    "completer_retries_total",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use node::counters::{STATISTICS, TABLE};

    use super::*;

    #[test]
    fn every_metric_is_in_a_table_and_in_one_group() {
        let of_files = TABLE.iter().map(|known| known.row.name());
        let of_net_devices = STATISTICS.iter().map(|statistic| statistic.row.name());
        let known: BTreeSet<&str> = of_files.chain(of_net_devices).collect();
        let all = [RECEIVE_BYTES, TRANSMIT_BYTES, RECEIVE_PACKETS, TRANSMIT_PACKETS];
        let all = all.into_iter().chain([ERRORS, CONGESTION, TRANSMIT_WAIT, RETRIES]);
        let mut seen = BTreeSet::new();
        for name in all.flatten() {
            assert!(known.contains(name), "{name} is in no table");
            assert!(seen.insert(name), "{name} counts twice");
        }
        assert!(IGNORED_CNPS.iter().all(|name| seen.contains(name)));
    }
}
