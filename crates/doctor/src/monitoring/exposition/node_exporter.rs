//! The names of node_exporter's infiniband collector, for existing dashboards and rules.
//!
//! Units are the same: data in bytes, rates in bytes per second. Its `lifespan_seconds` is omitted: it is a setting, and
//! always 0. On one machine only one of the two may be scraped under one job.

use metric::{Exposition, Row};
use node::Counter;
use node::counters::CounterSource::{self, Counters, CountersExt, HwCounters};

use super::{bytes_per_second, labels, prefix};
use crate::monitoring::{MachineSample, SampledDevice, SampledPort};

/// The sample's ports with these names.
pub fn expose(sample: &MachineSample) -> Exposition {
    let mut exposition = Exposition::new(&prefix("node_infiniband"));
    for device in &sample.devices {
        add_info(&mut exposition, device);
        device.ports.iter().for_each(|port| add_port(&mut exposition, device, port));
    }
    exposition
}

fn add_info(exposition: &mut Exposition, device: &SampledDevice) {
    let labels = labels([
        ("device", Some(&device.name)),
        ("board_id", device.board_id.as_deref()),
        ("firmware_version", device.firmware.as_deref()),
        ("hca_type", device.hca_type.as_deref()),
    ]);
    exposition.add(&INFO, &labels, true);
}

fn add_port(exposition: &mut Exposition, device: &SampledDevice, port: &SampledPort) {
    let number = port.number.to_string();
    let labels = [("device", device.name.as_str()), ("port", number.as_str())];
    let gauges = [
        (&STATE, port.state.map(u64::from)),
        (&PHYSICAL_STATE, port.phys_state.map(u64::from)),
        (&RATE, port.rate_mbps.map(bytes_per_second)),
    ];
    for (row, value) in gauges {
        if let Some(value) = value {
            exposition.add(row, &labels, value);
        }
    }
    for counter in &port.counters {
        if let Some((row, value)) = row_of(counter).zip(counter.scaled()) {
            exposition.add(row, &labels, value);
        }
    }
}

fn row_of(counter: &Counter) -> Option<&'static Row> {
    let same = |(source, file, _): &&(CounterSource, &str, Row)| {
        *source == counter.source && *file == counter.name
    };
    NAMES.iter().find(same).map(|(_, _, row)| row)
}

const fn counter(name: &'static str) -> Row {
    Row::counter(name, Row::unit_in(name), "Same as in node_exporter")
}

const INFO: Row = Row::gauge("info", "", "1, with properties of the device as labels");
const STATE: Row =
    Row::gauge("state_id", "", "State of the port: 1 down, 2 init, 3 armed, 4 active");
const PHYSICAL_STATE: Row = Row::gauge(
    "physical_state_id",
    "",
    "Physical state of the port: 2 polling, 3 disabled, 5 up, 6 recovering",
);
const RATE: Row = Row::gauge("rate_bytes_per_second", "bytes", "Rate of the port");

/// A counter file, and its metric in node_exporter.
#[rustfmt::skip]
const NAMES: &[(CounterSource, &str, Row)] = &[
    (Counters, "port_rcv_data", counter("port_data_received_bytes_total")),
    (Counters, "port_xmit_data", counter("port_data_transmitted_bytes_total")),
    (Counters, "port_rcv_packets", counter("port_packets_received_total")),
    (Counters, "port_xmit_packets", counter("port_packets_transmitted_total")),
    (Counters, "unicast_rcv_packets", counter("unicast_packets_received_total")),
    (Counters, "unicast_xmit_packets", counter("unicast_packets_transmitted_total")),
    (Counters, "multicast_rcv_packets", counter("multicast_packets_received_total")),
    (Counters, "multicast_xmit_packets", counter("multicast_packets_transmitted_total")),
    (Counters, "port_rcv_errors", counter("port_errors_received_total")),
    (Counters, "port_rcv_discards", counter("port_discards_received_total")),
    (Counters, "port_xmit_discards", counter("port_discards_transmitted_total")),
    (Counters, "port_rcv_constraint_errors", counter("port_constraint_errors_received_total")),
    (Counters, "port_xmit_constraint_errors", counter("port_constraint_errors_transmitted_total")),
    (Counters, "port_xmit_wait", counter("port_transmit_wait_total")),
    (Counters, "port_rcv_remote_physical_errors", counter("port_receive_remote_physical_errors_total")),
    (Counters, "port_rcv_switch_relay_errors", counter("port_receive_switch_relay_errors_total")),
    (Counters, "symbol_error", counter("symbol_error_total")),
    (Counters, "link_downed", counter("link_downed_total")),
    (Counters, "link_error_recovery", counter("link_error_recovery_total")),
    (Counters, "local_link_integrity_errors", counter("local_link_integrity_errors_total")),
    (Counters, "excessive_buffer_overrun_errors", counter("excessive_buffer_overrun_errors_total")),
    (Counters, "VL15_dropped", counter("vl15_dropped_total")),
    (CountersExt, "port_rcv_data_64", counter("legacy_data_received_bytes_total")),
    (CountersExt, "port_xmit_data_64", counter("legacy_data_transmitted_bytes_total")),
    (CountersExt, "port_rcv_packets_64", counter("legacy_packets_received_total")),
    (CountersExt, "port_xmit_packets_64", counter("legacy_packets_transmitted_total")),
    (CountersExt, "port_unicast_rcv_packets", counter("legacy_unicast_packets_received_total")),
    (CountersExt, "port_unicast_xmit_packets", counter("legacy_unicast_packets_transmitted_total")),
    (CountersExt, "port_multicast_rcv_packets", counter("legacy_multicast_packets_received_total")),
    (CountersExt, "port_multicast_xmit_packets", counter("legacy_multicast_packets_transmitted_total")),
    (HwCounters, "duplicate_request", counter("duplicate_requests_packets_total")),
    (HwCounters, "implied_nak_seq_err", counter("implied_nak_seq_errors_total")),
    (HwCounters, "local_ack_timeout_err", counter("local_ack_timeout_errors_total")),
    (HwCounters, "np_cnp_sent", counter("np_cnp_packets_sent_total")),
    (HwCounters, "np_ecn_marked_roce_packets", counter("np_ecn_marked_roce_packets_received_total")),
    (HwCounters, "out_of_buffer", counter("out_of_buffer_drops_total")),
    (HwCounters, "out_of_sequence", counter("out_of_sequence_packets_received_total")),
    (HwCounters, "packet_seq_err", counter("packet_sequence_errors_total")),
    (HwCounters, "req_cqe_error", counter("req_cqes_errors_total")),
    (HwCounters, "req_cqe_flush_error", counter("req_cqes_flush_errors_total")),
    (HwCounters, "req_remote_access_errors", counter("req_remote_access_errors_total")),
    (HwCounters, "req_remote_invalid_request", counter("req_remote_invalid_request_errors_total")),
    (HwCounters, "resp_cqe_error", counter("resp_cqes_errors_total")),
    (HwCounters, "resp_cqe_flush_error", counter("resp_cqes_flush_errors_total")),
    (HwCounters, "resp_local_length_error", counter("resp_local_length_errors_total")),
    (HwCounters, "resp_remote_access_errors", counter("resp_remote_access_errors_total")),
    (HwCounters, "rnr_nak_retry_err", counter("rnr_nak_retry_packets_received_total")),
    (HwCounters, "roce_adp_retrans", counter("roce_adp_retransmits_total")),
    (HwCounters, "roce_adp_retrans_to", counter("roce_adp_retransmits_timeout_total")),
    (HwCounters, "roce_slow_restart", counter("roce_slow_restart_used_total")),
    (HwCounters, "roce_slow_restart_cnps", counter("roce_slow_restart_cnps_total")),
    (HwCounters, "roce_slow_restart_trans", counter("roce_slow_restart_total")),
    (HwCounters, "rp_cnp_handled", counter("rp_cnp_packets_handled_total")),
    (HwCounters, "rp_cnp_ignored", counter("rp_cnp_ignored_packets_received_total")),
    (HwCounters, "rx_atomic_requests", counter("rx_atomic_requests_total")),
    (HwCounters, "rx_dct_connect", counter("rx_dct_connect_requests_total")),
    (HwCounters, "rx_read_requests", counter("rx_read_requests_total")),
    (HwCounters, "rx_write_requests", counter("rx_write_requests_total")),
    (HwCounters, "rx_icrc_encapsulated", counter("rx_icrc_encapsulated_errors_total")),
];
