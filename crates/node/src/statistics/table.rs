//! The table of known statistics of net devices, by ethtool's names.
//!
//! Names of metrics: `port_wire_…` for counters of the physical layer, `port_priority_…` for counters per
//! priority, `port_pcie_…` for the path from the NIC to the host. The direction is a label.
//!
//! A name has the same meaning in every driver, and no driver has two names for one metric: so
//! mlx5's `rx_global_pause` is missing (it is `rx_pause_ctrl_phy`), and bnxt's `rx_bytes` (mlx5's differs).

use metric::Row;

use super::Statistic;

/// All known statistics.
#[rustfmt::skip]
pub const STATISTICS: &[Statistic] = &[
    // mlx5 (drivers/net/ethernet/mellanox/mlx5/core/en_stats.c). Pause is counted only where it is enabled.
    count("rx_prio#_pause", PRIORITY_PAUSES, RECEIVE_PRIORITY),
    count("tx_prio#_pause", PRIORITY_PAUSES, TRANSMIT_PRIORITY),
    micros("rx_prio#_pause_duration", PRIORITY_PAUSE_TIME, RECEIVE_PRIORITY),
    micros("tx_prio#_pause_duration", PRIORITY_PAUSE_TIME, TRANSMIT_PRIORITY),
    count("rx_prio#_pause_transition", PRIORITY_PAUSE_TRANSITIONS, RECEIVE_PRIORITY),
    count("rx_pause_ctrl_phy", GLOBAL_PAUSES, RECEIVE),
    count("tx_pause_ctrl_phy", GLOBAL_PAUSES, TRANSMIT),
    micros("rx_global_pause_duration", GLOBAL_PAUSE_TIME, RECEIVE),
    micros("tx_global_pause_duration", GLOBAL_PAUSE_TIME, TRANSMIT),
    count("rx_global_pause_transition", GLOBAL_PAUSE_TRANSITIONS, RECEIVE),
    count("tx_pause_storm_warning_events", PAUSE_STORMS, &[("severity", "warning")]),
    count("tx_pause_storm_error_events", PAUSE_STORMS, &[("severity", "error")]),
    count("rx_prio#_bytes", PRIORITY_BYTES, RECEIVE_PRIORITY),
    count("tx_prio#_bytes", PRIORITY_BYTES, TRANSMIT_PRIORITY),
    count("rx_prio#_packets", PRIORITY_PACKETS, RECEIVE_PRIORITY),
    count("tx_prio#_packets", PRIORITY_PACKETS, TRANSMIT_PRIORITY),
    count("rx_prio#_discards", PRIORITY_DISCARDS, RECEIVE_PRIORITY),
    count("rx_prio#_buf_discard", PRIORITY_BUFFER_DISCARDS, RECEIVE_PRIORITY),
    count("rx_prio#_cong_discard", PRIORITY_CONGESTION_DISCARDS, RECEIVE_PRIORITY),
    count("rx_prio#_marked", PRIORITY_MARKED, RECEIVE_PRIORITY),
    count("rx_discards_phy", WIRE_DISCARDS, RECEIVE),
    count("tx_discards_phy", WIRE_DISCARDS, TRANSMIT),
    count("tx_errors_phy", WIRE_ERRORS, TRANSMIT),
    count("rx_out_of_buffer", OUT_OF_BUFFER, &[]),
    count("dev_out_of_buffer", DEVICE_OUT_OF_BUFFER, &[]),
    count("dev_internal_queue_oob", DEVICE_OUT_OF_BUFFER, &[]),
    count("rx_steer_missed_packets", STEERING_MISSES, &[]),
    count("rx_buffer_passed_thres_phy", BUFFER_NEARLY_FULL, &[]),
    count("rx_bytes_phy", WIRE_BYTES, RECEIVE),
    count("tx_bytes_phy", WIRE_BYTES, TRANSMIT),
    count("rx_packets_phy", WIRE_PACKETS, RECEIVE),
    count("tx_packets_phy", WIRE_PACKETS, TRANSMIT),
    count("rx_symbol_err_phy", WIRE_SYMBOL_ERRORS, &[]),
    count("rx_pcs_symbol_err_phy", WIRE_PCS_SYMBOL_ERRORS, &[]),
    count("rx_corrected_bits_phy", WIRE_CORRECTIONS, &[]),
    count("rx_err_lane_#_phy", WIRE_LANE_CORRECTIONS, &[("lane", "#")]),
    count("rx_crc_errors_phy", WIRE_CRC_ERRORS, &[]),
    count("link_down_events_phy", WIRE_LINK_DOWNS, &[]),
    per_cent("outbound_pci_stalled_rd", PCIE_STALLED, READ),
    per_cent("outbound_pci_stalled_wr", PCIE_STALLED, WRITE),
    count("outbound_pci_stalled_rd_events", PCIE_STALLED_TIME, READ),
    count("outbound_pci_stalled_wr_events", PCIE_STALLED_TIME, WRITE),
    count("outbound_pci_buffer_overflow", PCIE_OVERFLOWS, &[]),
    count("rx_pci_signal_integrity", PCIE_SIGNAL_ERRORS, RECEIVE),
    count("tx_pci_signal_integrity", PCIE_SIGNAL_ERRORS, TRANSMIT),
    count("rx_vport_rdma_unicast_bytes", RDMA_BYTES, RECEIVE_UNICAST),
    count("tx_vport_rdma_unicast_bytes", RDMA_BYTES, TRANSMIT_UNICAST),
    count("rx_vport_rdma_multicast_bytes", RDMA_BYTES, RECEIVE_MULTICAST),
    count("tx_vport_rdma_multicast_bytes", RDMA_BYTES, TRANSMIT_MULTICAST),
    count("rx_vport_rdma_unicast_packets", RDMA_PACKETS, RECEIVE_UNICAST),
    count("tx_vport_rdma_unicast_packets", RDMA_PACKETS, TRANSMIT_UNICAST),
    count("rx_vport_rdma_multicast_packets", RDMA_PACKETS, RECEIVE_MULTICAST),
    count("tx_vport_rdma_multicast_packets", RDMA_PACKETS, TRANSMIT_MULTICAST),
    count("module_unplug", MODULE_EVENTS, &[("event", "unplugged")]),
    count("module_bus_stuck", MODULE_EVENTS, &[("event", "bus_stuck")]),
    count("module_high_temp", MODULE_EVENTS, &[("event", "high_temperature")]),
    count("module_bad_shorted", MODULE_EVENTS, &[("event", "bad_or_shorted")]),
    // mlx4 (en_ethtool.c). The unit of its durations is not documented, so they are left out.
    count("rx_pause_prio_#", PRIORITY_PAUSES, RECEIVE_PRIORITY),
    count("tx_pause_prio_#", PRIORITY_PAUSES, TRANSMIT_PRIORITY),
    count("rx_pause_transition_prio_#", PRIORITY_PAUSE_TRANSITIONS, RECEIVE_PRIORITY),
    count("tx_pause_transition_prio_#", PRIORITY_PAUSE_TRANSITIONS, TRANSMIT_PRIORITY),
    count("rx_prio_#_bytes", PRIORITY_BYTES, RECEIVE_PRIORITY),
    count("tx_prio_#_bytes", PRIORITY_BYTES, TRANSMIT_PRIORITY),
    count("rx_prio_#_packets", PRIORITY_PACKETS, RECEIVE_PRIORITY),
    count("tx_prio_#_packets", PRIORITY_PACKETS, TRANSMIT_PRIORITY),
    // bnxt (bnxt_ethtool.c).
    count("rx_pfc_ena_frames_pri#", PRIORITY_PAUSES, RECEIVE_PRIORITY),
    count("tx_pfc_ena_frames_pri#", PRIORITY_PAUSES, TRANSMIT_PRIORITY),
    micros("pfc_pri#_rx_duration_us", PRIORITY_PAUSE_TIME, RECEIVE_PRIORITY),
    micros("pfc_pri#_tx_duration_us", PRIORITY_PAUSE_TIME, TRANSMIT_PRIORITY),
    count("pfc_pri#_rx_transitions", PRIORITY_PAUSE_TRANSITIONS, RECEIVE_PRIORITY),
    count("pfc_pri#_tx_transitions", PRIORITY_PAUSE_TRANSITIONS, TRANSMIT_PRIORITY),
    count("rx_pause_frames", GLOBAL_PAUSES, RECEIVE),
    count("tx_pause_frames", GLOBAL_PAUSES, TRANSMIT),
    count("rx_bytes_pri#", PRIORITY_BYTES, RECEIVE_PRIORITY),
    count("tx_bytes_pri#", PRIORITY_BYTES, TRANSMIT_PRIORITY),
    count("rx_packets_pri#", PRIORITY_PACKETS, RECEIVE_PRIORITY),
    count("tx_packets_pri#", PRIORITY_PACKETS, TRANSMIT_PRIORITY),
    count("rx_discard_packets_cos#", CLASS_DISCARDS, &[("direction", "receive"), ("class", "#")]),
    count("rx_stat_discard", WIRE_DISCARDS, RECEIVE),
    count("tx_stat_discard", WIRE_DISCARDS, TRANSMIT),
    count("rx_stat_err", WIRE_ERRORS, RECEIVE),
    count("tx_stat_error", WIRE_ERRORS, TRANSMIT),
    count("rx_buffer_passed_threshold", BUFFER_NEARLY_FULL, &[]),
    count("rx_pcs_symbol_err", WIRE_PCS_SYMBOL_ERRORS, &[]),
    count("rx_corrected_bits", WIRE_CORRECTIONS, &[]),
    count("rx_fcs_err_frames", WIRE_CRC_ERRORS, &[]),
    count("rx_fec_corrected_blocks", WIRE_FEC_BLOCKS, &[("outcome", "corrected")]),
    count("rx_fec_uncorrectable_blocks", WIRE_FEC_BLOCKS, &[("outcome", "uncorrectable")]),
    count("link_down_events", WIRE_LINK_DOWNS, &[]),
    // ice (ice_ethtool.c). Of the two frames of a pause, the one that starts it.
    count("rx_priority_#_xoff.nic", PRIORITY_PAUSES, RECEIVE_PRIORITY),
    count("tx_priority_#_xoff.nic", PRIORITY_PAUSES, TRANSMIT_PRIORITY),
    count("link_xoff_rx.nic", GLOBAL_PAUSES, RECEIVE),
    count("link_xoff_tx.nic", GLOBAL_PAUSES, TRANSMIT),
    count("rx_dropped.nic", WIRE_DISCARDS, RECEIVE),
    count("tx_dropped_link_down.nic", WIRE_DISCARDS, TRANSMIT),
    count("tx_errors.nic", WIRE_ERRORS, TRANSMIT),
    count("rx_bytes.nic", WIRE_BYTES, RECEIVE),
    count("tx_bytes.nic", WIRE_BYTES, TRANSMIT),
    count("rx_crc_errors.nic", WIRE_CRC_ERRORS, &[]),
    count("mac_local_faults.nic", WIRE_FAULTS, &[("end", "local")]),
    count("mac_remote_faults.nic", WIRE_FAULTS, &[("end", "remote")]),
];

const PRIORITY_PAUSES: Row =
    Row::counter("port_priority_pause_frames_total", "", "Pause frames of one priority (PFC)");
const PRIORITY_PAUSE_TIME: Row = Row::counter(
    "port_priority_pause_seconds_total",
    "seconds",
    "Time that one priority was paused (PFC)",
);
const PRIORITY_PAUSE_TRANSITIONS: Row = Row::counter(
    "port_priority_pause_transitions_total",
    "",
    "Changes between paused and not paused of one priority (PFC)",
);
const GLOBAL_PAUSES: Row =
    Row::counter("port_global_pause_frames_total", "", "Pause frames of the whole port (802.3x)");
const GLOBAL_PAUSE_TIME: Row = Row::counter(
    "port_global_pause_seconds_total",
    "seconds",
    "Time that the whole port was paused (802.3x)",
);
const GLOBAL_PAUSE_TRANSITIONS: Row = Row::counter(
    "port_global_pause_transitions_total",
    "",
    "Changes between paused and not paused of the whole port (802.3x)",
);
const PAUSE_STORMS: Row = Row::counter(
    "port_pause_storms_total",
    "",
    "Times the NIC sent pause frames for too long: the host does not drain packets",
);
const PRIORITY_BYTES: Row =
    Row::counter("port_priority_bytes_total", "bytes", "Bytes of one priority on the wire");
const PRIORITY_PACKETS: Row =
    Row::counter("port_priority_packets_total", "", "Packets of one priority on the wire");
const PRIORITY_DISCARDS: Row = Row::counter(
    "port_priority_discards_total",
    "",
    "Packets of one priority discarded at the port",
);
const PRIORITY_BUFFER_DISCARDS: Row = Row::counter(
    "port_priority_buffer_discards_total",
    "",
    "Packets of one priority discarded because its buffer was full",
);
const PRIORITY_CONGESTION_DISCARDS: Row = Row::counter(
    "port_priority_congestion_discards_total",
    "",
    "Packets of one priority discarded early to signal congestion",
);
const PRIORITY_MARKED: Row = Row::counter(
    "port_priority_marked_packets_total",
    "",
    "Packets of one priority that the NIC ECN-marked",
);
const CLASS_DISCARDS: Row = Row::counter(
    "port_class_discards_total",
    "",
    "Packets of one class of service discarded at the port",
);
const OUT_OF_BUFFER: Row = Row::counter(
    "port_netdev_out_of_buffer_total",
    "",
    "Packets of the net device dropped because it had no receive buffer posted",
);
const DEVICE_OUT_OF_BUFFER: Row =
    Row::counter("port_device_out_of_buffer_total", "", "Times the NIC's own queues had no buffer");
const STEERING_MISSES: Row = Row::counter(
    "port_steering_missed_packets_total",
    "",
    "Packets dropped because no rule of the NIC matched them",
);
const BUFFER_NEARLY_FULL: Row = Row::counter(
    "port_receive_buffer_nearly_full_total",
    "",
    "Times the port's receive buffer was nearly full",
);
const WIRE_BYTES: Row =
    Row::counter("port_wire_bytes_total", "bytes", "Bytes on the wire, RDMA and other");
const WIRE_PACKETS: Row =
    Row::counter("port_wire_packets_total", "", "Packets on the wire, RDMA and other");
const WIRE_DISCARDS: Row = Row::counter(
    "port_wire_discards_total",
    "",
    "Packets discarded at the port because of missing buffers or link",
);
const WIRE_ERRORS: Row =
    Row::counter("port_wire_errors_total", "", "Packets that failed at the port");
const WIRE_SYMBOL_ERRORS: Row =
    Row::counter("port_wire_symbol_errors_total", "", "Packets with an invalid symbol");
const WIRE_PCS_SYMBOL_ERRORS: Row = Row::counter(
    "port_wire_pcs_symbol_errors_total",
    "",
    "Symbols that error correction could not correct",
);
const WIRE_CORRECTIONS: Row =
    Row::counter("port_wire_corrections_total", "", "Bits that error correction corrected");
const WIRE_LANE_CORRECTIONS: Row = Row::counter(
    "port_wire_lane_corrections_total",
    "",
    "Bits that error correction corrected, by lane",
);
const WIRE_FEC_BLOCKS: Row = Row::counter(
    "port_wire_fec_blocks_total",
    "",
    "Blocks with errors, by whether they could be corrected",
);
const WIRE_CRC_ERRORS: Row =
    Row::counter("port_wire_crc_errors_total", "", "Packets with a wrong frame check sequence");
const WIRE_LINK_DOWNS: Row =
    Row::counter("port_wire_link_downs_total", "", "Times the link went down");
const WIRE_FAULTS: Row =
    Row::counter("port_wire_faults_total", "", "Link faults, by the end that detected them");
const PCIE_STALLED: Row = Row::gauge(
    "port_pcie_stalled_ratio",
    "ratio",
    "Part of the last second that the NIC waited for PCIe",
);
const PCIE_STALLED_TIME: Row = Row::counter(
    "port_pcie_stalled_seconds_total",
    "seconds",
    "Seconds in which the NIC waited for PCIe more than 30 % of the time",
);
const PCIE_OVERFLOWS: Row = Row::counter(
    "port_pcie_overflow_packets_total",
    "",
    "Packets dropped because PCIe did not accept them in time",
);
const PCIE_SIGNAL_ERRORS: Row = Row::counter(
    "port_pcie_signal_errors_total",
    "",
    "PCIe links that had to recover, or PCIe packets with errors",
);
const RDMA_BYTES: Row =
    Row::counter("port_rdma_bytes_total", "bytes", "RDMA bytes, from the net device's driver");
const RDMA_PACKETS: Row =
    Row::counter("port_rdma_packets_total", "", "RDMA packets, from the net device's driver");
const MODULE_EVENTS: Row =
    Row::counter("port_module_events_total", "", "Events of the cable or transceiver");

const RECEIVE: &[(&str, &str)] = &[("direction", "receive")];
const TRANSMIT: &[(&str, &str)] = &[("direction", "transmit")];
const RECEIVE_PRIORITY: &[(&str, &str)] = &[("direction", "receive"), ("priority", "#")];
const TRANSMIT_PRIORITY: &[(&str, &str)] = &[("direction", "transmit"), ("priority", "#")];
const RECEIVE_UNICAST: &[(&str, &str)] = &[("direction", "receive"), ("cast", "unicast")];
const TRANSMIT_UNICAST: &[(&str, &str)] = &[("direction", "transmit"), ("cast", "unicast")];
const RECEIVE_MULTICAST: &[(&str, &str)] = &[("direction", "receive"), ("cast", "multicast")];
const TRANSMIT_MULTICAST: &[(&str, &str)] = &[("direction", "transmit"), ("cast", "multicast")];
const READ: &[(&str, &str)] = &[("operation", "read")];
const WRITE: &[(&str, &str)] = &[("operation", "write")];

type StaticLabels = &'static [(&'static str, &'static str)];

/// Counted in the metric's own unit.
const fn count(name: &'static str, row: Row, labels: StaticLabels) -> Statistic {
    Statistic { name, row, labels, per: 1 }
}

/// Counted in microseconds.
const fn micros(name: &'static str, row: Row, labels: StaticLabels) -> Statistic {
    Statistic { name, row, labels, per: 1_000_000 }
}

/// In percent.
const fn per_cent(name: &'static str, row: Row, labels: StaticLabels) -> Statistic {
    Statistic { name, row, labels, per: 100 }
}
