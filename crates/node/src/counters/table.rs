//! The table of counters: one row for each that is known.
//!
//! A metric is named by one rule: `port_receive_…` and `port_transmit_…` for what every driver counts, in one
//! unit whatever the file's; else the driver's word written out (`rcv` receive, `xmit` transmit, `req`
//! requester, `resp` responder, `err` errors), in lower case with underscores, then the unit, then `_total`
//! if it only grows. Where a port has two files for one metric (bytes by `counters/` and by its driver), the
//! row that stands first counts.
//!
//! Counters of queue pairs in mlx5 (`out_of_buffer`, `packet_seq_err` and their like) have 32 bits and begin again at 0.

use metric::Row;

use super::Folder::{Counters, CountersExt, HwCounters};
use super::{Folder, Meaning};

/// Every counter that is known.
#[rustfmt::skip]
pub const TABLE: &[Meaning] = &[
    // Of kernels before 4.5, as wide as they should be: before those of `counters/`, which saturate at 32 bits there.
    words(CountersExt, "port_rcv_data_64", "port_receive_bytes_total", 0, "Bytes received, by every driver's own count"),
    words(CountersExt, "port_xmit_data_64", "port_transmit_bytes_total", 0, "Bytes sent, by every driver's own count"),
    width(CountersExt, "port_rcv_packets_64", "port_receive_packets_total", 0, "Packets received"),
    width(CountersExt, "port_xmit_packets_64", "port_transmit_packets_total", 0, "Packets sent"),
    width(CountersExt, "port_unicast_rcv_packets", "port_receive_unicast_packets_total", 0, "Packets received for this port alone"),
    width(CountersExt, "port_unicast_xmit_packets", "port_transmit_unicast_packets_total", 0, "Packets sent to one port"),
    width(CountersExt, "port_multicast_rcv_packets", "port_receive_multicast_packets_total", 0, "Packets received for many"),
    width(CountersExt, "port_multicast_xmit_packets", "port_transmit_multicast_packets_total", 0, "Packets sent to many"),
    // InfiniBand's own, by the widths of its performance management (IBTA 16.1.3.5). Data is counted in words
    // of four bytes.
    words(Counters, "port_rcv_data", "port_receive_bytes_total", 32, "Bytes received, by every driver's own count"),
    words(Counters, "port_xmit_data", "port_transmit_bytes_total", 32, "Bytes sent, by every driver's own count"),
    width(Counters, "port_rcv_packets", "port_receive_packets_total", 32, "Packets received"),
    width(Counters, "port_xmit_packets", "port_transmit_packets_total", 32, "Packets sent"),
    width(Counters, "unicast_rcv_packets", "port_receive_unicast_packets_total", 0, "Packets received for this port alone"),
    width(Counters, "unicast_xmit_packets", "port_transmit_unicast_packets_total", 0, "Packets sent to one port"),
    width(Counters, "multicast_rcv_packets", "port_receive_multicast_packets_total", 0, "Packets received for many"),
    width(Counters, "multicast_xmit_packets", "port_transmit_multicast_packets_total", 0, "Packets sent to many"),
    width(Counters, "port_rcv_errors", "port_receive_errors_total", 16, "Packets received with an error"),
    width(Counters, "port_rcv_remote_physical_errors", "port_receive_remote_physical_errors_total", 16, "Packets that the other end marked as bad"),
    width(Counters, "port_rcv_switch_relay_errors", "port_receive_switch_relay_errors_total", 16, "Packets that a switch could not pass on"),
    width(Counters, "port_rcv_constraint_errors", "port_receive_constraint_errors_total", 8, "Packets received that a rule of the switch forbids"),
    width(Counters, "port_xmit_constraint_errors", "port_transmit_constraint_errors_total", 8, "Packets not sent, since a rule of the switch forbids them"),
    width(Counters, "port_xmit_discards", "port_transmit_discards_total", 16, "Packets not sent, since the port was down or stalled too long"),
    width(Counters, "port_xmit_wait", "port_transmit_wait_ticks_total", 32, "Ticks with data to send and no credit from the other end"),
    width(Counters, "symbol_error", "symbol_errors_total", 16, "Errors of the wire in single symbols"),
    width(Counters, "link_error_recovery", "link_error_recoveries_total", 8, "Links that recovered by training anew"),
    width(Counters, "link_downed", "link_downed_total", 8, "Links that failed to recover and went down"),
    width(Counters, "local_link_integrity_errors", "local_link_integrity_errors_total", 4, "Runs of local errors beyond what is allowed"),
    width(Counters, "excessive_buffer_overrun_errors", "excessive_buffer_overrun_errors_total", 4, "Runs of overrun buffers beyond what is allowed"),
    width(Counters, "VL15_dropped", "vl15_dropped_total", 16, "Management packets dropped for want of room"),
    // Bytes and packets that drivers with no performance management count themselves (bnxt_re, efa, mana; erdma; rxe,
    // which counts no bytes).
    driver("rx_bytes", "port_receive_bytes_total", "Bytes received, by every driver's own count"),
    driver("tx_bytes", "port_transmit_bytes_total", "Bytes sent, by every driver's own count"),
    driver("rx_pkts", "port_receive_packets_total", "Packets received"),
    driver("tx_pkts", "port_transmit_packets_total", "Packets sent"),
    driver("rx_packets", "port_receive_packets_total", "Packets received"),
    driver("tx_packets", "port_transmit_packets_total", "Packets sent"),
    driver("rx_bytes_cnt", "port_receive_bytes_total", "Bytes received, by every driver's own count"),
    driver("tx_bytes_cnt", "port_transmit_bytes_total", "Bytes sent, by every driver's own count"),
    driver("rx_packets_cnt", "port_receive_packets_total", "Packets received"),
    driver("tx_packets_cnt", "port_transmit_packets_total", "Packets sent"),
    driver("rcvd_pkts", "port_receive_packets_total", "Packets received"),
    driver("sent_pkts", "port_transmit_packets_total", "Packets sent"),
    // mlx5; rxe, hns and others share some names and meanings.
    driver("rx_write_requests", "receive_write_requests_total", "Writes asked of this side"),
    driver("rx_read_requests", "receive_read_requests_total", "Reads asked of this side"),
    driver("rx_atomic_requests", "receive_atomic_requests_total", "Atomics asked of this side"),
    driver("rx_dct_connect", "receive_dct_connects_total", "Connections asked of dynamic targets"),
    driver("out_of_buffer", "out_of_buffer_drops_total", "Packets dropped since no receive was posted"),
    driver("out_of_sequence", "out_of_sequence_packets_total", "Packets that came out of order: something before them was lost"),
    driver("duplicate_request", "duplicate_requests_total", "Requests that came twice: an answer was lost or late"),
    driver("rnr_nak_retry_err", "rnr_nak_retry_errors_total", "Answers that the other side has no receive posted"),
    driver("packet_seq_err", "packet_sequence_errors_total", "Answers that a packet of ours was missing there"),
    driver("implied_nak_seq_err", "implied_nak_sequence_errors_total", "Answers that imply a lost answer before them"),
    driver("local_ack_timeout_err", "local_ack_timeout_errors_total", "Sends that no answer came for in time"),
    driver("resp_local_length_error", "responder_local_length_errors_total", "Requests longer than the room for them"),
    driver("resp_cqe_error", "responder_completion_errors_total", "Receives that completed with an error"),
    driver("req_cqe_error", "requester_completion_errors_total", "Sends that completed with an error"),
    driver("req_remote_invalid_request", "requester_remote_invalid_requests_total", "Requests that the other side found invalid"),
    driver("req_remote_access_errors", "requester_remote_access_errors_total", "Requests to memory that the other side does not allow"),
    driver("resp_remote_access_errors", "responder_remote_access_errors_total", "Requests to memory that this side does not allow"),
    driver("resp_cqe_flush_error", "responder_flushed_completions_total", "Receives that were given back after an error"),
    driver("req_cqe_flush_error", "requester_flushed_completions_total", "Sends that were given back after an error"),
    driver("req_transport_retries_exceeded", "requester_transport_retries_exceeded_total", "Sends given up after all retries with no answer"),
    driver("req_rnr_retries_exceeded", "requester_rnr_retries_exceeded_total", "Sends given up since the other side never had a receive posted"),
    driver("roce_adp_retrans", "roce_adaptive_retransmits_total", "Packets sent again by adaptive retransmission"),
    driver("roce_adp_retrans_to", "roce_adaptive_retransmit_timeouts_total", "Time-outs of adaptive retransmission"),
    driver("roce_slow_restart", "roce_slow_restarts_total", "Queue pairs that began slowly again"),
    driver("roce_slow_restart_cnps", "roce_slow_restart_cnps_total", "Congestion notices made by slow restarts"),
    driver("roce_slow_restart_trans", "roce_slow_restart_transitions_total", "Queue pairs that changed into slow restart"),
    driver("rp_cnp_ignored", "reaction_point_cnps_ignored_total", "Congestion notices received and ignored: congestion control is off here"),
    driver("rp_cnp_handled", "reaction_point_cnps_handled_total", "Congestion notices received and heeded"),
    driver("np_ecn_marked_roce_packets", "notification_point_ecn_packets_total", "Packets received that a switch marked for congestion"),
    driver("np_cnp_sent", "notification_point_cnps_sent_total", "Congestion notices sent"),
    driver("rx_icrc_encapsulated", "receive_icrc_errors_total", "RoCE packets with a wrong checksum"),
    driver("cc_rx_ce_pkts", "congestion_receive_marked_packets_total", "Packets received that a switch marked, by the optional counter"),
    driver("cc_rx_cnp_pkts", "congestion_receive_cnps_total", "Congestion notices received, by the optional counter"),
    driver("cc_tx_cnp_pkts", "congestion_transmit_cnps_total", "Congestion notices sent, by the optional counter"),
    driver("rdma_rx_bytes", "optional_receive_bytes_total", "Bytes of RDMA received, by the optional counter"),
    driver("rdma_tx_bytes", "optional_transmit_bytes_total", "Bytes of RDMA sent, by the optional counter"),
    driver("rdma_rx_packets", "optional_receive_packets_total", "Packets of RDMA received, by the optional counter"),
    driver("rdma_tx_packets", "optional_transmit_packets_total", "Packets of RDMA sent, by the optional counter"),
    // mlx5 in switchdev mode: the same of a virtual port, through its representor.
    driver("vport_rx_write_requests", "vport_receive_write_requests_total", "Writes asked of this side, at a virtual port"),
    driver("vport_rx_read_requests", "vport_receive_read_requests_total", "Reads asked of this side, at a virtual port"),
    driver("vport_rx_atomic_requests", "vport_receive_atomic_requests_total", "Atomics asked of this side, at a virtual port"),
    driver("vport_rx_dct_connect", "vport_receive_dct_connects_total", "Connections asked of dynamic targets, at a virtual port"),
    driver("vport_out_of_buffer", "vport_out_of_buffer_drops_total", "Packets dropped since no receive was posted, at a virtual port"),
    driver("vport_out_of_sequence", "vport_out_of_sequence_packets_total", "Packets that came out of order, at a virtual port"),
    driver("vport_duplicate_request", "vport_duplicate_requests_total", "Requests that came twice, at a virtual port"),
    driver("vport_rnr_nak_retry_err", "vport_rnr_nak_retry_errors_total", "Answers that the other side has no receive posted, at a virtual port"),
    driver("vport_packet_seq_err", "vport_packet_sequence_errors_total", "Answers that a packet of ours was missing there, at a virtual port"),
    driver("vport_implied_nak_seq_err", "vport_implied_nak_sequence_errors_total", "Answers that imply a lost answer before them, at a virtual port"),
    driver("vport_local_ack_timeout_err", "vport_local_ack_timeout_errors_total", "Sends that no answer came for in time, at a virtual port"),
    driver("vport_resp_local_length_error", "vport_responder_local_length_errors_total", "Requests longer than the room for them, at a virtual port"),
    driver("vport_resp_cqe_error", "vport_responder_completion_errors_total", "Receives that completed with an error, at a virtual port"),
    driver("vport_req_cqe_error", "vport_requester_completion_errors_total", "Sends that completed with an error, at a virtual port"),
    driver("vport_req_remote_invalid_request", "vport_requester_remote_invalid_requests_total", "Requests that the other side found invalid, at a virtual port"),
    driver("vport_req_remote_access_errors", "vport_requester_remote_access_errors_total", "Requests to memory that the other side does not allow, at a virtual port"),
    driver("vport_resp_remote_access_errors", "vport_responder_remote_access_errors_total", "Requests to memory that this side does not allow, at a virtual port"),
    driver("vport_resp_cqe_flush_error", "vport_responder_flushed_completions_total", "Receives that were given back after an error, at a virtual port"),
    driver("vport_req_cqe_flush_error", "vport_requester_flushed_completions_total", "Sends that were given back after an error, at a virtual port"),
    driver("vport_req_transport_retries_exceeded", "vport_requester_transport_retries_exceeded_total", "Sends given up after all retries with no answer, at a virtual port"),
    driver("vport_req_rnr_retries_exceeded", "vport_requester_rnr_retries_exceeded_total", "Sends given up since the other side never had a receive posted, at a virtual port"),
    driver("vport_roce_adp_retrans", "vport_roce_adaptive_retransmits_total", "Packets sent again by adaptive retransmission, at a virtual port"),
    driver("vport_roce_adp_retrans_to", "vport_roce_adaptive_retransmit_timeouts_total", "Time-outs of adaptive retransmission, at a virtual port"),
    driver("vport_roce_slow_restart", "vport_roce_slow_restarts_total", "Queue pairs that began slowly again, at a virtual port"),
    driver("vport_roce_slow_restart_cnps", "vport_roce_slow_restart_cnps_total", "Congestion notices made by slow restarts, at a virtual port"),
    driver("vport_roce_slow_restart_trans", "vport_roce_slow_restart_transitions_total", "Queue pairs that changed into slow restart, at a virtual port"),
    // mlx4: completions with an error, of receive and send queues.
    driver("rq_num_lle", "receive_queue_local_length_errors_total", "Receives that ended with a local length error"),
    driver("rq_num_lqpoe", "receive_queue_local_qp_operation_errors_total", "Receives that ended with a local error of their queue pair"),
    driver("rq_num_lpe", "receive_queue_local_protection_errors_total", "Receives to memory that this side does not allow"),
    driver("rq_num_wrfe", "receive_queue_flush_errors_total", "Receives that were given back after an error"),
    driver("rq_num_rire", "receive_queue_remote_invalid_request_errors_total", "Requests that this side found invalid"),
    driver("rq_num_rae", "receive_queue_remote_access_errors_total", "Requests to memory that this side does not allow"),
    driver("rq_num_rnr", "receive_queue_rnr_naks_total", "Answers sent that no receive was posted here"),
    driver("rq_num_oos", "receive_queue_out_of_sequence_total", "Packets that came out of order"),
    driver("rq_num_dup", "receive_queue_duplicates_total", "Requests that came twice"),
    driver("sq_num_lle", "send_queue_local_length_errors_total", "Sends that ended with a local length error"),
    driver("sq_num_lqpoe", "send_queue_local_qp_operation_errors_total", "Sends that ended with a local error of their queue pair"),
    driver("sq_num_lpe", "send_queue_local_protection_errors_total", "Sends to memory that this side does not allow"),
    driver("sq_num_wrfe", "send_queue_flush_errors_total", "Sends that were given back after an error"),
    driver("sq_num_mwbe", "send_queue_memory_window_bind_errors_total", "Memory windows that could not be bound"),
    driver("sq_num_bre", "send_queue_bad_response_errors_total", "Answers that could not be understood"),
    driver("sq_num_rire", "send_queue_remote_invalid_request_errors_total", "Requests that were found invalid: by the other side"),
    driver("sq_num_rae", "send_queue_remote_access_errors_total", "Requests to memory that the other side does not allow"),
    driver("sq_num_roe", "send_queue_remote_operation_errors_total", "Requests that failed at the other side"),
    driver("sq_num_tree", "send_queue_transport_retries_exceeded_total", "Sends given up after all retries with no answer"),
    driver("sq_num_rree", "send_queue_rnr_retries_exceeded_total", "Sends given up since the other side never had a receive posted"),
    driver("sq_num_rnr", "send_queue_rnr_naks_total", "Answers that the other side has no receive posted"),
    driver("sq_num_oos", "send_queue_out_of_sequence_total", "Answers that a packet of ours was missing there"),
    driver("sq_num_to", "send_queue_timeouts_total", "Sends that no answer came for in time"),
    driver("rq_num_udsdprd", "receive_queue_ud_drops_total", "Datagrams dropped since no receive was posted"),
    driver("num_cqovf", "completion_queue_overflows_total", "Completion queues that ran over"),
    // bnxt_re. What is active is how many there are now.
    gauge("active_pds", "active_pds", "Protection domains there are now"),
    gauge("active_ahs", "active_ahs", "Address handles there are now"),
    gauge("active_qps", "active_qps", "Queue pairs there are now"),
    gauge("active_srqs", "active_srqs", "Shared receive queues there are now"),
    gauge("active_cqs", "active_cqs", "Completion queues there are now"),
    gauge("active_mrs", "active_mrs", "Memory regions there are now"),
    gauge("active_mws", "active_mws", "Memory windows there are now"),
    gauge("active_rc_qps", "active_rc_qps", "Reliable queue pairs there are now"),
    gauge("active_ud_qps", "active_ud_qps", "Datagram queue pairs there are now"),
    gauge("watermark_qps", "watermark_qps", "Queue pairs there were at most"),
    gauge("watermark_rc_qps", "watermark_rc_qps", "Reliable queue pairs there were at most"),
    gauge("watermark_ud_qps", "watermark_ud_qps", "Datagram queue pairs there were at most"),
    gauge("watermark_srqs", "watermark_srqs", "Shared receive queues there were at most"),
    gauge("watermark_cqs", "watermark_cqs", "Completion queues there were at most"),
    gauge("watermark_mrs", "watermark_mrs", "Memory regions there were at most"),
    gauge("watermark_mws", "watermark_mws", "Memory windows there were at most"),
    gauge("watermark_ahs", "watermark_ahs", "Address handles there were at most"),
    gauge("watermark_pds", "watermark_pds", "Protection domains there were at most"),
    driver("recoverable_errors", "recoverable_errors_total", "Errors that the card recovered from"),
    driver("resize_cq_cnt", "completion_queue_resizes_total", "Completion queues that were resized"),
    driver("rx_roce_errors", "receive_roce_errors_total", "RoCE packets received with an error"),
    driver("rx_roce_discards", "receive_roce_discards_total", "RoCE packets received and thrown away"),
    driver("tx_roce_errors", "transmit_roce_errors_total", "RoCE packets that could not be sent"),
    driver("tx_roce_discards", "transmit_roce_discards_total", "RoCE packets that were thrown away and not sent"),
    driver("to_retransmits", "timeout_retransmits_total", "Packets sent again since no answer came in time"),
    driver("seq_err_naks_rcvd", "sequence_error_naks_received_total", "Answers that a packet of ours was missing there"),
    driver("max_retry_exceeded", "max_retries_exceeded_total", "Sends given up after all retries"),
    driver("rnr_naks_rcvd", "rnr_naks_received_total", "Answers that the other side has no receive posted"),
    driver("missing_resp", "missing_responses_total", "Answers that are missing"),
    driver("unrecoverable_err", "unrecoverable_errors_total", "Errors that the card did not recover from"),
    driver("bad_resp_err", "bad_response_errors_total", "Answers that could not be understood"),
    driver("local_qp_op_err", "local_qp_operation_errors_total", "Local errors of queue pairs"),
    driver("local_protection_err", "local_protection_errors_total", "Work on memory that this side does not allow"),
    driver("mem_mgmt_op_err", "memory_management_errors_total", "Memory that could not be registered or bound by work requests"),
    driver("remote_invalid_req_err", "remote_invalid_request_errors_total", "Requests that the other side found invalid"),
    driver("remote_access_err", "remote_access_errors_total", "Requests to memory that the other side does not allow"),
    driver("remote_op_err", "remote_operation_errors_total", "Requests that failed at the other side"),
    driver("dup_req", "duplicate_requests_received_total", "Requests that came twice"),
    driver("oos_drop_count", "out_of_sequence_drops_total", "Packets dropped since they came out of order"),
    driver("res_exceed_max", "responder_exceed_max_total", "Requests longer than the queue pair allows"),
    driver("res_length_mismatch", "responder_length_mismatch_total", "Requests of a length that is not as announced"),
    driver("res_exceeds_wqe", "responder_exceeds_wqe_total", "Requests longer than the receive posted"),
    driver("res_opcode_err", "responder_opcode_errors_total", "Requests of an unknown operation"),
    driver("res_rx_invalid_rkey", "responder_rx_invalid_rkey_total", "Requests with a key that is not valid"),
    driver("res_rx_domain_err", "responder_rx_domain_errors_total", "Requests to memory of another protection domain"),
    driver("res_rx_no_perm", "responder_rx_no_perm_total", "Requests to memory without the right"),
    driver("res_rx_range_err", "responder_rx_range_errors_total", "Requests outside the memory's range"),
    driver("res_tx_invalid_rkey", "responder_tx_invalid_rkey_total", "Requests answered from memory with an invalid key"),
    driver("res_tx_domain_err", "responder_tx_domain_errors_total", "Requests answered from memory of another protection domain"),
    driver("res_tx_no_perm", "responder_tx_no_perm_total", "Requests answered from memory without the right"),
    driver("res_tx_range_err", "responder_tx_range_errors_total", "Requests answered from outside the memory's range"),
    driver("res_irrq_oflow", "responder_irrq_overflows_total", "Requests beyond the reads that are allowed at once"),
    driver("res_unsup_opcode", "responder_unsupported_opcode_total", "Requests of an operation that is not supported"),
    driver("res_unaligned_atomic", "responder_unaligned_atomic_total", "Requests that are atomics on an address that is not aligned"),
    driver("res_rem_inv_err", "responder_rem_inv_errors_total", "Requests that invalidate memory that cannot be"),
    driver("res_mem_error", "responder_mem_errors_total", "Requests that met an error of memory"),
    driver("res_srq_err", "responder_srq_errors_total", "Requests that met an error of the shared receive queue"),
    driver("res_cmp_err", "responder_cmp_errors_total", "Requests that met an error of the completion"),
    driver("res_invalid_dup_rkey", "responder_invalid_dup_rkey_total", "Requests that came twice, with a key no longer valid"),
    driver("res_wqe_format_err", "responder_wqe_format_errors_total", "Requests that met a malformed receive"),
    driver("res_cq_load_err", "responder_cq_load_errors_total", "Requests that met an unreadable completion queue"),
    driver("res_srq_load_err", "responder_srq_load_errors_total", "Requests that met an unreadable shared receive queue"),
    driver("res_tx_pci_err", "responder_tx_pci_errors_total", "Requests whose answer met an error of PCIe"),
    driver("res_rx_pci_err", "responder_rx_pci_errors_total", "Requests that met an error of PCIe"),
    driver("tx_atomic_req", "transmit_atomic_request_packets_total", "Atomics asked of the other side, by bnxt_re's count"),
    driver("tx_read_req", "transmit_read_request_packets_total", "Reads asked of the other side, by bnxt_re's count"),
    driver("tx_write_req", "transmit_write_request_packets_total", "Writes asked of the other side, by bnxt_re's count"),
    driver("tx_send_req", "transmit_send_request_packets_total", "Sends asked of the other side, by bnxt_re's count"),
    driver("rx_atomic_req", "receive_atomic_request_packets_total", "Atomics asked of this side, by bnxt_re's count"),
    driver("rx_read_req", "receive_read_request_packets_total", "Reads asked of this side, by bnxt_re's count"),
    driver("rx_write_req", "receive_write_request_packets_total", "Writes asked of this side, by bnxt_re's count"),
    driver("rx_send_req", "receive_send_request_packets_total", "Sends asked of this side, by bnxt_re's count"),
    driver("rx_roce_good_pkts", "receive_roce_good_packets_total", "RoCE packets received without an error"),
    driver("rx_roce_good_bytes", "receive_roce_good_bytes_total", "Bytes of RoCE packets received without an error"),
    driver("rx_out_of_buffer", "receive_out_of_buffer_total", "Packets dropped since no receive was posted, by bnxt_re's count"),
    driver("tx_cnp_pkts", "transmit_cnps_total", "Congestion notices sent"),
    driver("rx_cnp_pkts", "receive_cnps_total", "Congestion notices received"),
    driver("rx_ecn_marked_pkts", "receive_ecn_packets_total", "Packets received that a switch marked for congestion"),
    // efa; the last are of the device as a whole.
    driver("rx_drops", "receive_drops_total", "Packets dropped since no receive was posted or they were bad"),
    driver("send_bytes", "send_bytes_total", "Bytes of sends"),
    driver("send_wrs", "send_work_requests_total", "Sends"),
    driver("recv_bytes", "receive_message_bytes_total", "Bytes of messages received"),
    driver("recv_wrs", "receive_message_work_requests_total", "Messages received"),
    driver("rdma_read_wrs", "read_work_requests_total", "Reads of ours"),
    driver("rdma_read_bytes", "read_bytes_total", "Bytes that our reads brought"),
    driver("rdma_read_wr_err", "read_work_request_errors_total", "Reads of ours that failed"),
    driver("rdma_read_resp_bytes", "read_response_bytes_total", "Bytes that others read here"),
    driver("rdma_write_wrs", "write_work_requests_total", "Writes of ours"),
    driver("rdma_write_bytes", "write_bytes_total", "Bytes that we wrote elsewhere"),
    driver("rdma_write_wr_err", "write_work_request_errors_total", "Writes of ours that failed"),
    driver("rdma_write_recv_bytes", "write_receive_bytes_total", "Bytes that others wrote here"),
    driver("retrans_bytes", "retransmit_bytes_total", "Bytes sent again"),
    driver("retrans_pkts", "retransmit_packets_total", "Packets sent again"),
    driver("retrans_timeout_events", "retransmit_timeouts_total", "Times that the way to a peer was changed since no answer came"),
    driver("unresponsive_remote_events", "unresponsive_remote_events_total", "Times that a peer did not answer"),
    driver("impaired_remote_conn_events", "impaired_remote_connections_total", "Times that the way to a peer was bad"),
    driver("submitted_cmds", "commands_submitted_total", "Commands given to the device"),
    driver("completed_cmds", "commands_completed_total", "Commands that the device has done"),
    driver("cmds_err", "command_errors_total", "Commands that failed"),
    driver("no_completion_cmds", "commands_without_completion_total", "Commands that the device never answered"),
    driver("keep_alive_rcvd", "keep_alives_received_total", "Signs of life of the device"),
    driver("alloc_pd_err", "alloc_pd_errors_total", "Protection domains that could not be had"),
    driver("create_qp_err", "create_qp_errors_total", "Queue pairs that could not be had"),
    driver("create_cq_err", "create_cq_errors_total", "Completion queues that could not be had"),
    driver("reg_mr_err", "register_mr_errors_total", "Memory that could not be registered"),
    driver("alloc_ucontext_err", "alloc_ucontext_errors_total", "Processes that could not use the device"),
    driver("create_ah_err", "create_ah_errors_total", "Address handles that could not be had"),
    driver("mmap_err", "mmap_errors_total", "Device memory that could not be mapped"),
    // irdma.
    driver("ip4InOctets", "ip4_receive_bytes_total", "Bytes received by IPv4"),
    driver("ip4InPkts", "ip4_receive_packets_total", "Packets received by IPv4"),
    driver("ip4InReasmRqd", "ip4_receive_fragments_total", "Fragments received by IPv4"),
    driver("ip4InDiscards", "ip4_receive_discards_total", "Packets received by IPv4 and thrown away"),
    driver("ip4InTruncatedPkts", "ip4_receive_truncated_packets_total", "Packets received by IPv4 and cut off"),
    driver("ip4InMcastOctets", "ip4_receive_multicast_bytes_total", "Bytes received for many by IPv4"),
    driver("ip4InMcastPkts", "ip4_receive_multicast_packets_total", "Packets received for many by IPv4"),
    driver("ip4OutOctets", "ip4_transmit_bytes_total", "Bytes sent by IPv4"),
    driver("ip4OutPkts", "ip4_transmit_packets_total", "Packets sent by IPv4"),
    driver("ip4OutNoRoutes", "ip4_transmit_no_routes_total", "Packets with no route by IPv4"),
    driver("ip4OutSegRqd", "ip4_transmit_fragments_total", "Fragments sent by IPv4"),
    driver("ip4OutMcastOctets", "ip4_transmit_multicast_bytes_total", "Bytes sent to many by IPv4"),
    driver("ip4OutMcastPkts", "ip4_transmit_multicast_packets_total", "Packets sent to many by IPv4"),
    driver("ip6InOctets", "ip6_receive_bytes_total", "Bytes received by IPv6"),
    driver("ip6InPkts", "ip6_receive_packets_total", "Packets received by IPv6"),
    driver("ip6InReasmRqd", "ip6_receive_fragments_total", "Fragments received by IPv6"),
    driver("ip6InDiscards", "ip6_receive_discards_total", "Packets received by IPv6 and thrown away"),
    driver("ip6InTruncatedPkts", "ip6_receive_truncated_packets_total", "Packets received by IPv6 and cut off"),
    driver("ip6InMcastOctets", "ip6_receive_multicast_bytes_total", "Bytes received for many by IPv6"),
    driver("ip6InMcastPkts", "ip6_receive_multicast_packets_total", "Packets received for many by IPv6"),
    driver("ip6OutOctets", "ip6_transmit_bytes_total", "Bytes sent by IPv6"),
    driver("ip6OutPkts", "ip6_transmit_packets_total", "Packets sent by IPv6"),
    driver("ip6OutNoRoutes", "ip6_transmit_no_routes_total", "Packets with no route by IPv6"),
    driver("ip6OutSegRqd", "ip6_transmit_fragments_total", "Fragments sent by IPv6"),
    driver("ip6OutMcastOctets", "ip6_transmit_multicast_bytes_total", "Bytes sent to many by IPv6"),
    driver("ip6OutMcastPkts", "ip6_transmit_multicast_packets_total", "Packets sent to many by IPv6"),
    driver("InRdmaReads", "receive_rdma_reads_total", "Reads asked of this side, by irdma's count"),
    driver("InRdmaSends", "receive_rdma_sends_total", "Sends asked of this side, by irdma's count"),
    driver("InRdmaWrites", "receive_rdma_writes_total", "Writes asked of this side, by irdma's count"),
    driver("OutRdmaReads", "transmit_rdma_reads_total", "Reads asked of the other side, by irdma's count"),
    driver("OutRdmaSends", "transmit_rdma_sends_total", "Sends asked of the other side, by irdma's count"),
    driver("OutRdmaWrites", "transmit_rdma_writes_total", "Writes asked of the other side, by irdma's count"),
    driver("RdmaBnd", "memory_window_binds_total", "Memory windows that were bound"),
    driver("RdmaInv", "invalidations_total", "Keys that were revoked"),
    driver("cnpHandled", "cnps_handled_total", "Congestion notices received and heeded, by irdma's count"),
    driver("cnpIgnored", "cnps_ignored_total", "Congestion notices received and ignored, by irdma's count"),
    driver("cnpSent", "cnps_sent_total", "Congestion notices sent, by irdma's count"),
    driver("RxECNMrkd", "receive_ecn_marked_packets_total", "Packets received that a switch marked for congestion, by irdma's count"),
    driver("RxUDP", "receive_udp_packets_total", "UDP packets received"),
    driver("TxUDP", "transmit_udp_packets_total", "UDP packets sent"),
    driver("RxVlanErrors", "receive_vlan_errors_total", "Packets received with a VLAN that is not ours"),
    driver("InOptErrors", "receive_tcp_option_errors_total", "TCP segments received with options that cannot be"),
    driver("InProtoErrors", "receive_protocol_errors_total", "Packets received that break their protocol"),
    driver("InSegs", "receive_tcp_segments_total", "TCP segments received (iWARP)"),
    driver("OutSegs", "transmit_tcp_segments_total", "TCP segments sent (iWARP)"),
    driver("RetransSegs", "retransmit_segments_total", "Segments sent again"),
    // mana; the last are of the device as a whole.
    driver("requester_timeout", "requester_timeouts_total", "Sends that no answer came for in time, by mana's count"),
    driver("requester_oos_nak", "requester_out_of_sequence_naks_total", "Answers that a packet of ours was missing there, by mana's count"),
    driver("requester_rnr_nak", "requester_rnr_naks_total", "Answers that the other side has no receive posted, by mana's count"),
    driver("responder_rnr_nak", "responder_rnr_naks_total", "Answers sent that no receive was posted here, by mana's count"),
    driver("responder_oos", "responder_out_of_sequence_total", "Packets that came out of order, by mana's count"),
    driver("responder_dup_request", "responder_duplicate_requests_total", "Requests that came twice, by mana's count"),
    driver("requester_implicit_nak", "requester_implicit_naks_total", "Answers that imply a lost answer before them, by mana's count"),
    driver("requester_readresp_psn_mismatch", "requester_read_response_psn_mismatches_total", "Answers to reads that came out of order"),
    driver("nak_inv_req", "nak_invalid_requests_total", "Answers that a request was invalid"),
    driver("nak_access_error", "nak_access_errors_total", "Answers that memory may not be used so"),
    driver("nak_opp_error", "nak_operation_errors_total", "Answers that an operation failed"),
    driver("nak_inv_read", "nak_invalid_reads_total", "Answers that a read was invalid"),
    driver("responder_local_len_error", "responder_local_len_errors_total", "Requests longer than the room for them, by mana's count"),
    driver("requestor_local_prot_error", "requester_local_protection_errors_total", "Sends from memory that this side does not allow"),
    driver("responder_rem_access_error", "responder_rem_access_errors_total", "Requests to memory that this side does not allow, by mana's count"),
    driver("responder_local_qp_error", "responder_local_qp_errors_total", "Requests that met a local error of their queue pair"),
    driver("responder_malformed_wqe", "responder_malformed_wqes_total", "Requests that met a malformed receive, by mana's count"),
    driver("general_hw_error", "general_hardware_errors_total", "Errors of the device, of no other kind"),
    driver("requester_rnr_nak_retries_exceeded", "requester_rnr_nak_retries_exceeded_total", "Sends given up since the other side never had a receive posted, by mana's count"),
    driver("requester_retries_exceeded", "requester_retries_exceeded_total", "Sends given up after all retries, by mana's count"),
    driver("total_fatal_error", "fatal_errors_total", "Errors that end a queue pair"),
    driver("received_cnps", "received_cnps_total", "Congestion notices received, by mana's count"),
    driver("rate_inc_events", "rate_increases_total", "Times that congestion control let more be sent"),
    driver("dup_rx_requests", "duplicate_receive_requests_total", "Requests received twice, by mana's count"),
    driver("rx_send_requests", "receive_send_requests_total", "Sends asked of this side"),
    driver("sent_cnps", "sent_cnps_total", "Congestion notices sent, by mana's count"),
    driver("received_ecns", "received_ecn_packets_total", "Packets received that a switch marked for congestion, by mana's count"),
    driver("received_cnp_count", "device_received_cnps_total", "Congestion notices received by the device as a whole"),
    driver("qp_congested_events", "qp_congested_events_total", "Times that a queue pair was held back"),
    driver("qp_recovered_events", "qp_recovered_events_total", "Times that a queue pair was no longer held back"),
    // erdma.
    driver("tx_reqs_cnt", "transmit_requests_total", "Requests sent, by erdma's count"),
    driver("tx_disable_drop_cnt", "transmit_disabled_drops_total", "Packets not sent, since sending is switched off"),
    driver("tx_bps_limit_drop_cnt", "transmit_bandwidth_limit_drops_total", "Packets not sent, since there were more bytes than are allowed"),
    driver("tx_pps_limit_drop_cnt", "transmit_packet_limit_drops_total", "Packets not sent, since there were more than are allowed"),
    driver("rx_disable_drop_cnt", "receive_disabled_drops_total", "Packets dropped, since receiving is switched off"),
    driver("rx_bps_limit_drop_cnt", "receive_bandwidth_limit_drops_total", "Packets dropped, since there were more bytes than are allowed"),
    driver("rx_pps_limit_drop_cnt", "receive_packet_limit_drops_total", "Packets dropped, since there were more than are allowed"),
    // rxe.
    driver("out_of_seq_request", "out_of_sequence_requests_total", "Requests that came out of order"),
    driver("rcvd_rnr_err", "received_rnr_errors_total", "Answers that the other side has no receive posted, by rxe's count"),
    driver("send_rnr_err", "sent_rnr_errors_total", "Answers sent that no receive was posted here, by rxe's count"),
    driver("rcvd_seq_err", "received_sequence_errors_total", "Answers that a packet of ours was missing there, by rxe's count"),
    driver("ack_deferred", "deferred_acks_total", "Answers that were put off"),
    driver("retry_exceeded_err", "retries_exceeded_total", "Sends given up after all retries, by rxe's count"),
    driver("retry_rnr_exceeded_err", "rnr_retries_exceeded_total", "Sends given up since the other side never had a receive posted, by rxe's count"),
    driver("completer_retry_err", "completer_retries_total", "Sends that were tried again"),
    driver("send_err", "send_errors_total", "Packets that could not be handed to the net device"),
    driver("link_downed", "software_link_downed_total", "Times that the net device below went down"),
    driver("rdma_sends", "posted_sends_total", "Sends handed to rxe"),
    driver("rdma_recvs", "completed_receives_total", "Receives completed by rxe"),
];

/// Bytes and packets that a driver counts apart for IPv4 and IPv6, and nowhere together (irdma). Multicast is in them.
#[rustfmt::skip]
pub(super) const SUMS: &[Sum] = &[
    sum("port_receive_bytes_total", "Bytes received, by every driver's own count", &["ip4InOctets", "ip6InOctets"]),
    sum("port_transmit_bytes_total", "Bytes sent, by every driver's own count", &["ip4OutOctets", "ip6OutOctets"]),
    sum("port_receive_packets_total", "Packets received", &["ip4InPkts", "ip6InPkts"]),
    sum("port_transmit_packets_total", "Packets sent", &["ip4OutPkts", "ip6OutPkts"]),
];

/// A metric that is the sum of several files of `hw_counters/`, where no file has it as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum {
    pub(super) row: Row,
    pub(super) of: &'static [&'static str],
}

const fn sum(metric: &'static str, help: &'static str, of: &'static [&'static str]) -> Sum {
    Sum { row: counts(metric, help), of }
}

/// The row of what only grows; its unit is what its name tells. A wrong name does not compile.
const fn counts(metric: &'static str, help: &'static str) -> Row {
    Row::counter(metric, Row::unit_in(metric), help)
}

/// A counter that saturates at so many bits.
const fn width(
    folder: Folder,
    file: &'static str,
    metric: &'static str,
    bits: u32,
    help: &'static str,
) -> Meaning {
    Meaning { folder, file, row: counts(metric, help), scale: 1, bits }
}

/// The same, of words of four bytes.
const fn words(
    folder: Folder,
    file: &'static str,
    metric: &'static str,
    bits: u32,
    help: &'static str,
) -> Meaning {
    Meaning { scale: 4, ..width(folder, file, metric, bits, help) }
}

/// A driver's counter.
const fn driver(file: &'static str, metric: &'static str, help: &'static str) -> Meaning {
    width(HwCounters, file, metric, 0, help)
}

/// A driver's count of what there is now.
const fn gauge(file: &'static str, metric: &'static str, help: &'static str) -> Meaning {
    let row = Row::gauge(metric, Row::unit_in(metric), help);
    Meaning { folder: HwCounters, file, row, scale: 1, bits: 0 }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn a_file_has_one_row() {
        let mut seen = BTreeSet::new();
        for row in TABLE {
            assert!(seen.insert((row.folder, row.file)), "{} stands twice", row.file);
        }
    }

    #[test]
    fn a_metric_means_one_thing() {
        let mut known: BTreeMap<&str, &Meaning> = BTreeMap::new();
        for row in TABLE {
            let name = row.row.name();
            let first = known.entry(name).or_insert(row);
            assert_eq!(first.row, row.row, "{name}");
            let shared = first.file != row.file;
            assert!(!shared || name.starts_with("port_"), "{name} is shared");
        }
        for sum in SUMS {
            assert_eq!(known[sum.row.name()].row, sum.row);
            let files = TABLE.iter().filter(|row| sum.of.contains(&row.file));
            assert_eq!(files.count(), sum.of.len(), "{:?}", sum.of);
        }
    }

    /// Names are checked as they are compiled; these are the rest of the rule.
    #[test]
    fn metrics_are_told_in_a_line() {
        for row in TABLE {
            assert!(row.scale == 1 || row.row.name().ends_with("_bytes_total"), "{}", row.file);
            let help = row.row.help();
            assert!(help.len() < 90 && !help.ends_with('.') && !help.contains('\n'), "{help}");
            assert!(help.starts_with(|letter: char| letter.is_uppercase()), "{help}");
        }
    }
}
