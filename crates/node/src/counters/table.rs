//! The table of known counters, one row each.
//!
//! Names of metrics: `port_receive_…` and `port_transmit_…` for what every driver counts, always in the same
//! unit; else the driver's name written out (`rcv` receive, `xmit` transmit, `req`
//! requester, `resp` responder, `err` errors), in lower case with underscores, then the unit, then `_total`
//! if it only grows. If a port has two files for one metric (bytes in `counters/` and from its driver), the
//! first row is used.
//!
//! Counters of queue pairs in mlx5 (`out_of_buffer`, `packet_seq_err` and similar ones) have 32 bits and wrap to 0.

use metric::Row;

use super::CounterSource::{Counters, CountersExt, HwCounters};
use super::{CounterSource, KnownCounter};

/// All known counters.
#[rustfmt::skip]
pub const TABLE: &[KnownCounter] = &[
    // 64-bit counters of kernels before 4.5: before those of `counters/`, which saturate at 32 bits there.
    words(CountersExt, "port_rcv_data_64", "port_receive_bytes_total", 0, "Bytes received"),
    words(CountersExt, "port_xmit_data_64", "port_transmit_bytes_total", 0, "Bytes sent"),
    width(CountersExt, "port_rcv_packets_64", "port_receive_packets_total", 0, "Packets received"),
    width(CountersExt, "port_xmit_packets_64", "port_transmit_packets_total", 0, "Packets sent"),
    width(CountersExt, "port_unicast_rcv_packets", "port_receive_unicast_packets_total", 0, "Unicast packets received"),
    width(CountersExt, "port_unicast_xmit_packets", "port_transmit_unicast_packets_total", 0, "Unicast packets sent"),
    width(CountersExt, "port_multicast_rcv_packets", "port_receive_multicast_packets_total", 0, "Multicast packets received"),
    width(CountersExt, "port_multicast_xmit_packets", "port_transmit_multicast_packets_total", 0, "Multicast packets sent"),
    // InfiniBand's own, with the widths of its performance management (IBTA 16.1.3.5). Data is counted in words
    // of four bytes.
    words(Counters, "port_rcv_data", "port_receive_bytes_total", 32, "Bytes received"),
    words(Counters, "port_xmit_data", "port_transmit_bytes_total", 32, "Bytes sent"),
    width(Counters, "port_rcv_packets", "port_receive_packets_total", 32, "Packets received"),
    width(Counters, "port_xmit_packets", "port_transmit_packets_total", 32, "Packets sent"),
    width(Counters, "unicast_rcv_packets", "port_receive_unicast_packets_total", 0, "Unicast packets received"),
    width(Counters, "unicast_xmit_packets", "port_transmit_unicast_packets_total", 0, "Unicast packets sent"),
    width(Counters, "multicast_rcv_packets", "port_receive_multicast_packets_total", 0, "Multicast packets received"),
    width(Counters, "multicast_xmit_packets", "port_transmit_multicast_packets_total", 0, "Multicast packets sent"),
    width(Counters, "port_rcv_errors", "port_receive_errors_total", 16, "Packets received with an error"),
    width(Counters, "port_rcv_remote_physical_errors", "port_receive_remote_physical_errors_total", 16, "Packets received that the link partner marked as bad"),
    width(Counters, "port_rcv_switch_relay_errors", "port_receive_switch_relay_errors_total", 16, "Packets that a switch could not forward"),
    width(Counters, "port_rcv_constraint_errors", "port_receive_constraint_errors_total", 8, "Packets received that violate a constraint of the switch"),
    width(Counters, "port_xmit_constraint_errors", "port_transmit_constraint_errors_total", 8, "Packets not sent because of a constraint of the switch"),
    width(Counters, "port_xmit_discards", "port_transmit_discards_total", 16, "Packets not sent because the port was down or stalled too long"),
    width(Counters, "port_xmit_wait", "port_transmit_wait_ticks_total", 32, "Ticks with data to send but no credit from the link partner"),
    width(Counters, "symbol_error", "symbol_errors_total", 16, "Symbol errors on the link"),
    width(Counters, "link_error_recovery", "link_error_recoveries_total", 8, "Link recoveries by retraining"),
    width(Counters, "link_downed", "link_downed_total", 8, "Times the link failed to recover and went down"),
    width(Counters, "local_link_integrity_errors", "local_link_integrity_errors_total", 4, "Times local errors exceeded the threshold"),
    width(Counters, "excessive_buffer_overrun_errors", "excessive_buffer_overrun_errors_total", 4, "Times buffer overruns exceeded the threshold"),
    width(Counters, "VL15_dropped", "vl15_dropped_total", 16, "Management packets dropped because of missing buffers"),
    // Bytes and packets of drivers without performance management (bnxt_re, efa, mana; erdma; rxe,
    // which counts no bytes).
    driver("rx_bytes", "port_receive_bytes_total", "Bytes received"),
    driver("tx_bytes", "port_transmit_bytes_total", "Bytes sent"),
    driver("rx_pkts", "port_receive_packets_total", "Packets received"),
    driver("tx_pkts", "port_transmit_packets_total", "Packets sent"),
    driver("rx_packets", "port_receive_packets_total", "Packets received"),
    driver("tx_packets", "port_transmit_packets_total", "Packets sent"),
    driver("rx_bytes_cnt", "port_receive_bytes_total", "Bytes received"),
    driver("tx_bytes_cnt", "port_transmit_bytes_total", "Bytes sent"),
    driver("rx_packets_cnt", "port_receive_packets_total", "Packets received"),
    driver("tx_packets_cnt", "port_transmit_packets_total", "Packets sent"),
    driver("rcvd_pkts", "port_receive_packets_total", "Packets received"),
    driver("sent_pkts", "port_transmit_packets_total", "Packets sent"),
    // mlx5; rxe, hns and others share some names and meanings.
    driver("rx_write_requests", "receive_write_requests_total", "RDMA write requests received"),
    driver("rx_read_requests", "receive_read_requests_total", "RDMA read requests received"),
    driver("rx_atomic_requests", "receive_atomic_requests_total", "Atomic requests received"),
    driver("rx_dct_connect", "receive_dct_connects_total", "DCT connection requests received"),
    driver("out_of_buffer", "out_of_buffer_drops_total", "Packets dropped because no receive was posted"),
    driver("out_of_sequence", "out_of_sequence_packets_total", "Packets received out of order, after a lost packet"),
    driver("duplicate_request", "duplicate_requests_total", "Duplicate requests received: a response was lost or late"),
    driver("rnr_nak_retry_err", "rnr_nak_retry_errors_total", "RNR NAKs received: the peer had no receive posted"),
    driver("packet_seq_err", "packet_sequence_errors_total", "Sequence error NAKs received: the peer missed a packet"),
    driver("implied_nak_seq_err", "implied_nak_sequence_errors_total", "Responses that imply a lost response before them"),
    driver("local_ack_timeout_err", "local_ack_timeout_errors_total", "Sends without an acknowledgement in time"),
    driver("resp_local_length_error", "responder_local_length_errors_total", "Requests longer than the receive buffer"),
    driver("resp_cqe_error", "responder_completion_errors_total", "Receives that completed with an error"),
    driver("req_cqe_error", "requester_completion_errors_total", "Sends that completed with an error"),
    driver("req_remote_invalid_request", "requester_remote_invalid_requests_total", "Requests that the peer found invalid"),
    driver("req_remote_access_errors", "requester_remote_access_errors_total", "Requests to memory without access rights at the peer"),
    driver("resp_remote_access_errors", "responder_remote_access_errors_total", "Requests to memory without local access rights"),
    driver("resp_cqe_flush_error", "responder_flushed_completions_total", "Receives flushed after an error"),
    driver("req_cqe_flush_error", "requester_flushed_completions_total", "Sends flushed after an error"),
    driver("req_transport_retries_exceeded", "requester_transport_retries_exceeded_total", "Sends that failed after all retries without an answer"),
    driver("req_rnr_retries_exceeded", "requester_rnr_retries_exceeded_total", "Sends that failed because the peer never posted a receive"),
    driver("roce_adp_retrans", "roce_adaptive_retransmits_total", "Packets retransmitted by adaptive retransmission"),
    driver("roce_adp_retrans_to", "roce_adaptive_retransmit_timeouts_total", "Timeouts of adaptive retransmission"),
    driver("roce_slow_restart", "roce_slow_restarts_total", "Slow restarts of queue pairs"),
    driver("roce_slow_restart_cnps", "roce_slow_restart_cnps_total", "CNPs caused by slow restarts"),
    driver("roce_slow_restart_trans", "roce_slow_restart_transitions_total", "Transitions of queue pairs to slow restart"),
    driver("rp_cnp_ignored", "reaction_point_cnps_ignored_total", "CNPs received and ignored: congestion control is off"),
    driver("rp_cnp_handled", "reaction_point_cnps_handled_total", "CNPs received and handled"),
    driver("np_ecn_marked_roce_packets", "notification_point_ecn_packets_total", "ECN-marked packets received"),
    driver("np_cnp_sent", "notification_point_cnps_sent_total", "CNPs sent"),
    driver("rx_icrc_encapsulated", "receive_icrc_errors_total", "RoCE packets with a wrong checksum"),
    driver("cc_rx_ce_pkts", "congestion_receive_marked_packets_total", "ECN-marked packets received (optional counter)"),
    driver("cc_rx_cnp_pkts", "congestion_receive_cnps_total", "CNPs received (optional counter)"),
    driver("cc_tx_cnp_pkts", "congestion_transmit_cnps_total", "CNPs sent (optional counter)"),
    driver("rdma_rx_bytes", "optional_receive_bytes_total", "RDMA bytes received (optional counter)"),
    driver("rdma_tx_bytes", "optional_transmit_bytes_total", "RDMA bytes sent (optional counter)"),
    driver("rdma_rx_packets", "optional_receive_packets_total", "RDMA packets received (optional counter)"),
    driver("rdma_tx_packets", "optional_transmit_packets_total", "RDMA packets sent (optional counter)"),
    // mlx5 in switchdev mode: the same for a virtual port, through its representor.
    driver("vport_rx_write_requests", "vport_receive_write_requests_total", "RDMA write requests received (virtual port)"),
    driver("vport_rx_read_requests", "vport_receive_read_requests_total", "RDMA read requests received (virtual port)"),
    driver("vport_rx_atomic_requests", "vport_receive_atomic_requests_total", "Atomic requests received (virtual port)"),
    driver("vport_rx_dct_connect", "vport_receive_dct_connects_total", "DCT connection requests received (virtual port)"),
    driver("vport_out_of_buffer", "vport_out_of_buffer_drops_total", "Packets dropped because no receive was posted (virtual port)"),
    driver("vport_out_of_sequence", "vport_out_of_sequence_packets_total", "Packets received out of order (virtual port)"),
    driver("vport_duplicate_request", "vport_duplicate_requests_total", "Duplicate requests received (virtual port)"),
    driver("vport_rnr_nak_retry_err", "vport_rnr_nak_retry_errors_total", "RNR NAKs received: the peer had no receive posted (virtual port)"),
    driver("vport_packet_seq_err", "vport_packet_sequence_errors_total", "Sequence error NAKs received: the peer missed a packet (virtual port)"),
    driver("vport_implied_nak_seq_err", "vport_implied_nak_sequence_errors_total", "Responses that imply a lost response before them (virtual port)"),
    driver("vport_local_ack_timeout_err", "vport_local_ack_timeout_errors_total", "Sends without an acknowledgement in time (virtual port)"),
    driver("vport_resp_local_length_error", "vport_responder_local_length_errors_total", "Requests longer than the receive buffer (virtual port)"),
    driver("vport_resp_cqe_error", "vport_responder_completion_errors_total", "Receives that completed with an error (virtual port)"),
    driver("vport_req_cqe_error", "vport_requester_completion_errors_total", "Sends that completed with an error (virtual port)"),
    driver("vport_req_remote_invalid_request", "vport_requester_remote_invalid_requests_total", "Requests that the peer found invalid (virtual port)"),
    driver("vport_req_remote_access_errors", "vport_requester_remote_access_errors_total", "Requests to memory without access rights at the peer (virtual port)"),
    driver("vport_resp_remote_access_errors", "vport_responder_remote_access_errors_total", "Requests to memory without local access rights (virtual port)"),
    driver("vport_resp_cqe_flush_error", "vport_responder_flushed_completions_total", "Receives flushed after an error (virtual port)"),
    driver("vport_req_cqe_flush_error", "vport_requester_flushed_completions_total", "Sends flushed after an error (virtual port)"),
    driver("vport_req_transport_retries_exceeded", "vport_requester_transport_retries_exceeded_total", "Sends that failed after all retries without an answer (virtual port)"),
    driver("vport_req_rnr_retries_exceeded", "vport_requester_rnr_retries_exceeded_total", "Sends that failed because the peer never posted a receive (virtual port)"),
    driver("vport_roce_adp_retrans", "vport_roce_adaptive_retransmits_total", "Packets retransmitted by adaptive retransmission (virtual port)"),
    driver("vport_roce_adp_retrans_to", "vport_roce_adaptive_retransmit_timeouts_total", "Timeouts of adaptive retransmission (virtual port)"),
    driver("vport_roce_slow_restart", "vport_roce_slow_restarts_total", "Slow restarts of queue pairs (virtual port)"),
    driver("vport_roce_slow_restart_cnps", "vport_roce_slow_restart_cnps_total", "CNPs caused by slow restarts (virtual port)"),
    driver("vport_roce_slow_restart_trans", "vport_roce_slow_restart_transitions_total", "Transitions of queue pairs to slow restart (virtual port)"),
    // mlx4: completions with an error, for receive and send queues.
    driver("rq_num_lle", "receive_queue_local_length_errors_total", "Receives with a local length error"),
    driver("rq_num_lqpoe", "receive_queue_local_qp_operation_errors_total", "Receives with a local QP operation error"),
    driver("rq_num_lpe", "receive_queue_local_protection_errors_total", "Receives to memory without local access rights"),
    driver("rq_num_wrfe", "receive_queue_flush_errors_total", "Receives flushed after an error"),
    driver("rq_num_rire", "receive_queue_remote_invalid_request_errors_total", "Requests that were found invalid"),
    driver("rq_num_rae", "receive_queue_remote_access_errors_total", "Requests to memory without local access rights"),
    driver("rq_num_rnr", "receive_queue_rnr_naks_total", "RNR NAKs sent: no receive was posted"),
    driver("rq_num_oos", "receive_queue_out_of_sequence_total", "Packets received out of order"),
    driver("rq_num_dup", "receive_queue_duplicates_total", "Duplicate requests received"),
    driver("sq_num_lle", "send_queue_local_length_errors_total", "Sends with a local length error"),
    driver("sq_num_lqpoe", "send_queue_local_qp_operation_errors_total", "Sends with a local QP operation error"),
    driver("sq_num_lpe", "send_queue_local_protection_errors_total", "Sends to memory without local access rights"),
    driver("sq_num_wrfe", "send_queue_flush_errors_total", "Sends flushed after an error"),
    driver("sq_num_mwbe", "send_queue_memory_window_bind_errors_total", "Memory windows that could not be bound"),
    driver("sq_num_bre", "send_queue_bad_response_errors_total", "Invalid responses received"),
    driver("sq_num_rire", "send_queue_remote_invalid_request_errors_total", "Requests that the peer found invalid"),
    driver("sq_num_rae", "send_queue_remote_access_errors_total", "Requests to memory without access rights at the peer"),
    driver("sq_num_roe", "send_queue_remote_operation_errors_total", "Requests that failed at the peer"),
    driver("sq_num_tree", "send_queue_transport_retries_exceeded_total", "Sends that failed after all retries without an answer"),
    driver("sq_num_rree", "send_queue_rnr_retries_exceeded_total", "Sends that failed because the peer never posted a receive"),
    driver("sq_num_rnr", "send_queue_rnr_naks_total", "RNR NAKs received: the peer had no receive posted"),
    driver("sq_num_oos", "send_queue_out_of_sequence_total", "Sequence error NAKs received: the peer missed a packet"),
    driver("sq_num_to", "send_queue_timeouts_total", "Sends without an acknowledgement in time"),
    driver("rq_num_udsdprd", "receive_queue_ud_drops_total", "Datagrams dropped because no receive was posted"),
    driver("num_cqovf", "completion_queue_overflows_total", "Completion queue overflows"),
    // bnxt_re. `active_…` is the current number.
    gauge("active_pds", "active_pds", "Protection domains in use"),
    gauge("active_ahs", "active_ahs", "Address handles in use"),
    gauge("active_qps", "active_qps", "Queue pairs in use"),
    gauge("active_srqs", "active_srqs", "Shared receive queues in use"),
    gauge("active_cqs", "active_cqs", "Completion queues in use"),
    gauge("active_mrs", "active_mrs", "Memory regions in use"),
    gauge("active_mws", "active_mws", "Memory windows in use"),
    gauge("active_rc_qps", "active_rc_qps", "Reliable queue pairs in use"),
    gauge("active_ud_qps", "active_ud_qps", "Datagram queue pairs in use"),
    gauge("watermark_qps", "watermark_qps", "Queue pairs, highest number in use"),
    gauge("watermark_rc_qps", "watermark_rc_qps", "Reliable queue pairs, highest number in use"),
    gauge("watermark_ud_qps", "watermark_ud_qps", "Datagram queue pairs, highest number in use"),
    gauge("watermark_srqs", "watermark_srqs", "Shared receive queues, highest number in use"),
    gauge("watermark_cqs", "watermark_cqs", "Completion queues, highest number in use"),
    gauge("watermark_mrs", "watermark_mrs", "Memory regions, highest number in use"),
    gauge("watermark_mws", "watermark_mws", "Memory windows, highest number in use"),
    gauge("watermark_ahs", "watermark_ahs", "Address handles, highest number in use"),
    gauge("watermark_pds", "watermark_pds", "Protection domains, highest number in use"),
    driver("recoverable_errors", "recoverable_errors_total", "Errors that the NIC recovered from"),
    driver("resize_cq_cnt", "completion_queue_resizes_total", "Completion queues that were resized"),
    driver("rx_roce_errors", "receive_roce_errors_total", "RoCE packets received with an error"),
    driver("rx_roce_discards", "receive_roce_discards_total", "RoCE packets received and discarded"),
    driver("tx_roce_errors", "transmit_roce_errors_total", "RoCE packets that could not be sent"),
    driver("tx_roce_discards", "transmit_roce_discards_total", "RoCE packets discarded instead of sent"),
    driver("to_retransmits", "timeout_retransmits_total", "Packets retransmitted after a timeout"),
    driver("seq_err_naks_rcvd", "sequence_error_naks_received_total", "Sequence error NAKs received: the peer missed a packet"),
    driver("max_retry_exceeded", "max_retries_exceeded_total", "Sends that failed after all retries"),
    driver("rnr_naks_rcvd", "rnr_naks_received_total", "RNR NAKs received: the peer had no receive posted"),
    driver("missing_resp", "missing_responses_total", "Missing responses"),
    driver("unrecoverable_err", "unrecoverable_errors_total", "Errors that the NIC did not recover from"),
    driver("bad_resp_err", "bad_response_errors_total", "Invalid responses received"),
    driver("local_qp_op_err", "local_qp_operation_errors_total", "Local QP operation errors"),
    driver("local_protection_err", "local_protection_errors_total", "Work on memory without local access rights"),
    driver("mem_mgmt_op_err", "memory_management_errors_total", "Failed memory registrations and binds by work requests"),
    driver("remote_invalid_req_err", "remote_invalid_request_errors_total", "Requests that the peer found invalid"),
    driver("remote_access_err", "remote_access_errors_total", "Requests to memory without access rights at the peer"),
    driver("remote_op_err", "remote_operation_errors_total", "Requests that failed at the peer"),
    driver("dup_req", "duplicate_requests_received_total", "Duplicate requests received"),
    driver("oos_drop_count", "out_of_sequence_drops_total", "Packets dropped because they were out of order"),
    driver("res_exceed_max", "responder_exceed_max_total", "Requests longer than the queue pair allows"),
    driver("res_length_mismatch", "responder_length_mismatch_total", "Requests whose length does not match"),
    driver("res_exceeds_wqe", "responder_exceeds_wqe_total", "Requests longer than the receive posted"),
    driver("res_opcode_err", "responder_opcode_errors_total", "Requests with an unknown opcode"),
    driver("res_rx_invalid_rkey", "responder_rx_invalid_rkey_total", "Requests with a key that is not valid"),
    driver("res_rx_domain_err", "responder_rx_domain_errors_total", "Requests to memory of another protection domain"),
    driver("res_rx_no_perm", "responder_rx_no_perm_total", "Requests to memory without permission"),
    driver("res_rx_range_err", "responder_rx_range_errors_total", "Requests outside the memory's range"),
    driver("res_tx_invalid_rkey", "responder_tx_invalid_rkey_total", "Responses from memory with an invalid key"),
    driver("res_tx_domain_err", "responder_tx_domain_errors_total", "Responses from memory of another protection domain"),
    driver("res_tx_no_perm", "responder_tx_no_perm_total", "Responses from memory without permission"),
    driver("res_tx_range_err", "responder_tx_range_errors_total", "Responses from outside the memory's range"),
    driver("res_irrq_oflow", "responder_irrq_overflows_total", "Requests beyond the limit of concurrent reads"),
    driver("res_unsup_opcode", "responder_unsupported_opcode_total", "Requests with an unsupported opcode"),
    driver("res_unaligned_atomic", "responder_unaligned_atomic_total", "Atomic requests to an unaligned address"),
    driver("res_rem_inv_err", "responder_rem_inv_errors_total", "Requests that invalidate memory that cannot be invalidated"),
    driver("res_mem_error", "responder_mem_errors_total", "Requests with a memory error"),
    driver("res_srq_err", "responder_srq_errors_total", "Requests with a shared receive queue error"),
    driver("res_cmp_err", "responder_cmp_errors_total", "Requests with a completion error"),
    driver("res_invalid_dup_rkey", "responder_invalid_dup_rkey_total", "Duplicate requests received, with a key no longer valid"),
    driver("res_wqe_format_err", "responder_wqe_format_errors_total", "Requests for a malformed receive"),
    driver("res_cq_load_err", "responder_cq_load_errors_total", "Requests with an unreadable completion queue"),
    driver("res_srq_load_err", "responder_srq_load_errors_total", "Requests with an unreadable shared receive queue"),
    driver("res_tx_pci_err", "responder_tx_pci_errors_total", "Responses with a PCIe error"),
    driver("res_rx_pci_err", "responder_rx_pci_errors_total", "Requests with a PCIe error"),
    driver("tx_atomic_req", "transmit_atomic_request_packets_total", "Atomic requests sent (bnxt_re)"),
    driver("tx_read_req", "transmit_read_request_packets_total", "RDMA read requests sent (bnxt_re)"),
    driver("tx_write_req", "transmit_write_request_packets_total", "RDMA write requests sent (bnxt_re)"),
    driver("tx_send_req", "transmit_send_request_packets_total", "Send requests sent (bnxt_re)"),
    driver("rx_atomic_req", "receive_atomic_request_packets_total", "Atomic requests received (bnxt_re)"),
    driver("rx_read_req", "receive_read_request_packets_total", "RDMA read requests received (bnxt_re)"),
    driver("rx_write_req", "receive_write_request_packets_total", "RDMA write requests received (bnxt_re)"),
    driver("rx_send_req", "receive_send_request_packets_total", "Send requests received (bnxt_re)"),
    driver("rx_roce_good_pkts", "receive_roce_good_packets_total", "RoCE packets received without an error"),
    driver("rx_roce_good_bytes", "receive_roce_good_bytes_total", "Bytes of RoCE packets received without an error"),
    driver("rx_out_of_buffer", "receive_out_of_buffer_total", "Packets dropped because no receive was posted (bnxt_re)"),
    driver("tx_cnp_pkts", "transmit_cnps_total", "CNPs sent"),
    driver("rx_cnp_pkts", "receive_cnps_total", "CNPs received"),
    driver("rx_ecn_marked_pkts", "receive_ecn_packets_total", "ECN-marked packets received"),
    // efa; the last ones are for the whole device.
    driver("rx_drops", "receive_drops_total", "Packets dropped because no receive was posted or they were invalid"),
    driver("send_bytes", "send_bytes_total", "Bytes of sends"),
    driver("send_wrs", "send_work_requests_total", "Sends"),
    driver("recv_bytes", "receive_message_bytes_total", "Bytes of messages received"),
    driver("recv_wrs", "receive_message_work_requests_total", "Messages received"),
    driver("rdma_read_wrs", "read_work_requests_total", "RDMA reads posted"),
    driver("rdma_read_bytes", "read_bytes_total", "Bytes received by RDMA reads"),
    driver("rdma_read_wr_err", "read_work_request_errors_total", "RDMA reads that failed"),
    driver("rdma_read_resp_bytes", "read_response_bytes_total", "Bytes read by peers"),
    driver("rdma_write_wrs", "write_work_requests_total", "RDMA writes posted"),
    driver("rdma_write_bytes", "write_bytes_total", "Bytes sent by RDMA writes"),
    driver("rdma_write_wr_err", "write_work_request_errors_total", "RDMA writes that failed"),
    driver("rdma_write_recv_bytes", "write_receive_bytes_total", "Bytes written by peers"),
    driver("retrans_bytes", "retransmit_bytes_total", "Bytes retransmitted"),
    driver("retrans_pkts", "retransmit_packets_total", "Packets retransmitted"),
    driver("retrans_timeout_events", "retransmit_timeouts_total", "Times the path to a peer was changed after a timeout"),
    driver("unresponsive_remote_events", "unresponsive_remote_events_total", "Times a peer did not answer"),
    driver("impaired_remote_conn_events", "impaired_remote_connections_total", "Times the path to a peer was impaired"),
    driver("submitted_cmds", "commands_submitted_total", "Commands submitted to the device"),
    driver("completed_cmds", "commands_completed_total", "Commands completed by the device"),
    driver("cmds_err", "command_errors_total", "Commands that failed"),
    driver("no_completion_cmds", "commands_without_completion_total", "Commands that the device never answered"),
    driver("keep_alive_rcvd", "keep_alives_received_total", "Keep-alives received from the device"),
    driver("alloc_pd_err", "alloc_pd_errors_total", "Protection domains that could not be allocated"),
    driver("create_qp_err", "create_qp_errors_total", "Queue pairs that could not be created"),
    driver("create_cq_err", "create_cq_errors_total", "Completion queues that could not be created"),
    driver("reg_mr_err", "register_mr_errors_total", "Memory that could not be registered"),
    driver("alloc_ucontext_err", "alloc_ucontext_errors_total", "Processes that could not use the device"),
    driver("create_ah_err", "create_ah_errors_total", "Address handles that could not be created"),
    driver("mmap_err", "mmap_errors_total", "Device memory that could not be mapped"),
    // irdma.
    driver("ip4InOctets", "ip4_receive_bytes_total", "Bytes received over IPv4"),
    driver("ip4InPkts", "ip4_receive_packets_total", "Packets received over IPv4"),
    driver("ip4InReasmRqd", "ip4_receive_fragments_total", "Fragments received over IPv4"),
    driver("ip4InDiscards", "ip4_receive_discards_total", "Packets received over IPv4 and discarded"),
    driver("ip4InTruncatedPkts", "ip4_receive_truncated_packets_total", "Packets received over IPv4 and truncated"),
    driver("ip4InMcastOctets", "ip4_receive_multicast_bytes_total", "Multicast bytes received over IPv4"),
    driver("ip4InMcastPkts", "ip4_receive_multicast_packets_total", "Multicast packets received over IPv4"),
    driver("ip4OutOctets", "ip4_transmit_bytes_total", "Bytes sent over IPv4"),
    driver("ip4OutPkts", "ip4_transmit_packets_total", "Packets sent over IPv4"),
    driver("ip4OutNoRoutes", "ip4_transmit_no_routes_total", "Packets without a route over IPv4"),
    driver("ip4OutSegRqd", "ip4_transmit_fragments_total", "Fragments sent over IPv4"),
    driver("ip4OutMcastOctets", "ip4_transmit_multicast_bytes_total", "Multicast bytes sent over IPv4"),
    driver("ip4OutMcastPkts", "ip4_transmit_multicast_packets_total", "Multicast packets sent over IPv4"),
    driver("ip6InOctets", "ip6_receive_bytes_total", "Bytes received over IPv6"),
    driver("ip6InPkts", "ip6_receive_packets_total", "Packets received over IPv6"),
    driver("ip6InReasmRqd", "ip6_receive_fragments_total", "Fragments received over IPv6"),
    driver("ip6InDiscards", "ip6_receive_discards_total", "Packets received over IPv6 and discarded"),
    driver("ip6InTruncatedPkts", "ip6_receive_truncated_packets_total", "Packets received over IPv6 and truncated"),
    driver("ip6InMcastOctets", "ip6_receive_multicast_bytes_total", "Multicast bytes received over IPv6"),
    driver("ip6InMcastPkts", "ip6_receive_multicast_packets_total", "Multicast packets received over IPv6"),
    driver("ip6OutOctets", "ip6_transmit_bytes_total", "Bytes sent over IPv6"),
    driver("ip6OutPkts", "ip6_transmit_packets_total", "Packets sent over IPv6"),
    driver("ip6OutNoRoutes", "ip6_transmit_no_routes_total", "Packets without a route over IPv6"),
    driver("ip6OutSegRqd", "ip6_transmit_fragments_total", "Fragments sent over IPv6"),
    driver("ip6OutMcastOctets", "ip6_transmit_multicast_bytes_total", "Multicast bytes sent over IPv6"),
    driver("ip6OutMcastPkts", "ip6_transmit_multicast_packets_total", "Multicast packets sent over IPv6"),
    driver("InRdmaReads", "receive_rdma_reads_total", "RDMA read requests received (irdma)"),
    driver("InRdmaSends", "receive_rdma_sends_total", "Send requests received (irdma)"),
    driver("InRdmaWrites", "receive_rdma_writes_total", "RDMA write requests received (irdma)"),
    driver("OutRdmaReads", "transmit_rdma_reads_total", "RDMA read requests sent (irdma)"),
    driver("OutRdmaSends", "transmit_rdma_sends_total", "Send requests sent (irdma)"),
    driver("OutRdmaWrites", "transmit_rdma_writes_total", "RDMA write requests sent (irdma)"),
    driver("RdmaBnd", "memory_window_binds_total", "Memory windows that were bound"),
    driver("RdmaInv", "invalidations_total", "Keys that were invalidated"),
    driver("cnpHandled", "cnps_handled_total", "CNPs received and handled (irdma)"),
    driver("cnpIgnored", "cnps_ignored_total", "CNPs received and ignored (irdma)"),
    driver("cnpSent", "cnps_sent_total", "CNPs sent (irdma)"),
    driver("RxECNMrkd", "receive_ecn_marked_packets_total", "ECN-marked packets received (irdma)"),
    driver("RxUDP", "receive_udp_packets_total", "UDP packets received"),
    driver("TxUDP", "transmit_udp_packets_total", "UDP packets sent"),
    driver("RxVlanErrors", "receive_vlan_errors_total", "Packets received with another VLAN"),
    driver("InOptErrors", "receive_tcp_option_errors_total", "TCP segments received with invalid options"),
    driver("InProtoErrors", "receive_protocol_errors_total", "Packets received with a protocol error"),
    driver("InSegs", "receive_tcp_segments_total", "TCP segments received (iWARP)"),
    driver("OutSegs", "transmit_tcp_segments_total", "TCP segments sent (iWARP)"),
    driver("RetransSegs", "retransmit_segments_total", "Segments retransmitted"),
    // mana; the last ones are for the whole device.
    driver("requester_timeout", "requester_timeouts_total", "Sends without an acknowledgement in time (mana)"),
    driver("requester_oos_nak", "requester_out_of_sequence_naks_total", "Sequence error NAKs received: the peer missed a packet (mana)"),
    driver("requester_rnr_nak", "requester_rnr_naks_total", "RNR NAKs received: the peer had no receive posted (mana)"),
    driver("responder_rnr_nak", "responder_rnr_naks_total", "RNR NAKs sent: no receive was posted (mana)"),
    driver("responder_oos", "responder_out_of_sequence_total", "Packets received out of order (mana)"),
    driver("responder_dup_request", "responder_duplicate_requests_total", "Duplicate requests received (mana)"),
    driver("requester_implicit_nak", "requester_implicit_naks_total", "Responses that imply a lost response before them (mana)"),
    driver("requester_readresp_psn_mismatch", "requester_read_response_psn_mismatches_total", "Read responses received out of order"),
    driver("nak_inv_req", "nak_invalid_requests_total", "NAKs for invalid requests"),
    driver("nak_access_error", "nak_access_errors_total", "NAKs for access errors"),
    driver("nak_opp_error", "nak_operation_errors_total", "NAKs for failed operations"),
    driver("nak_inv_read", "nak_invalid_reads_total", "NAKs for invalid reads"),
    driver("responder_local_len_error", "responder_local_len_errors_total", "Requests longer than the receive buffer (mana)"),
    driver("requestor_local_prot_error", "requester_local_protection_errors_total", "Sends from memory without local access rights"),
    driver("responder_rem_access_error", "responder_rem_access_errors_total", "Requests to memory without local access rights (mana)"),
    driver("responder_local_qp_error", "responder_local_qp_errors_total", "Requests with a local QP error"),
    driver("responder_malformed_wqe", "responder_malformed_wqes_total", "Requests for a malformed receive (mana)"),
    driver("general_hw_error", "general_hardware_errors_total", "Other errors of the device"),
    driver("requester_rnr_nak_retries_exceeded", "requester_rnr_nak_retries_exceeded_total", "Sends that failed because the peer never posted a receive (mana)"),
    driver("requester_retries_exceeded", "requester_retries_exceeded_total", "Sends that failed after all retries (mana)"),
    driver("total_fatal_error", "fatal_errors_total", "Errors that are fatal for a queue pair"),
    driver("received_cnps", "received_cnps_total", "CNPs received (mana)"),
    driver("rate_inc_events", "rate_increases_total", "Rate increases by congestion control"),
    driver("dup_rx_requests", "duplicate_receive_requests_total", "Duplicate requests received (mana)"),
    driver("rx_send_requests", "receive_send_requests_total", "Send requests received"),
    driver("sent_cnps", "sent_cnps_total", "CNPs sent (mana)"),
    driver("received_ecns", "received_ecn_packets_total", "ECN-marked packets received (mana)"),
    driver("received_cnp_count", "device_received_cnps_total", "CNPs received by the device as a whole"),
    driver("qp_congested_events", "qp_congested_events_total", "Times a queue pair was throttled"),
    driver("qp_recovered_events", "qp_recovered_events_total", "Times a queue pair was no longer throttled"),
    // erdma.
    driver("tx_reqs_cnt", "transmit_requests_total", "Requests sent (erdma)"),
    driver("tx_disable_drop_cnt", "transmit_disabled_drops_total", "Packets not sent because sending is disabled"),
    driver("tx_bps_limit_drop_cnt", "transmit_bandwidth_limit_drops_total", "Packets not sent because of the bandwidth limit"),
    driver("tx_pps_limit_drop_cnt", "transmit_packet_limit_drops_total", "Packets not sent because of the packet rate limit"),
    driver("rx_disable_drop_cnt", "receive_disabled_drops_total", "Packets dropped because receiving is disabled"),
    driver("rx_bps_limit_drop_cnt", "receive_bandwidth_limit_drops_total", "Packets dropped because of the bandwidth limit"),
    driver("rx_pps_limit_drop_cnt", "receive_packet_limit_drops_total", "Packets dropped because of the packet rate limit"),
    // rxe.
    driver("out_of_seq_request", "out_of_sequence_requests_total", "Requests received out of order"),
    driver("rcvd_rnr_err", "received_rnr_errors_total", "RNR NAKs received: the peer had no receive posted (rxe)"),
    driver("send_rnr_err", "sent_rnr_errors_total", "RNR NAKs sent: no receive was posted (rxe)"),
    driver("rcvd_seq_err", "received_sequence_errors_total", "Sequence error NAKs received: the peer missed a packet (rxe)"),
    driver("ack_deferred", "deferred_acks_total", "Acknowledgements that were deferred"),
    driver("retry_exceeded_err", "retries_exceeded_total", "Sends that failed after all retries (rxe)"),
    driver("retry_rnr_exceeded_err", "rnr_retries_exceeded_total", "Sends that failed because the peer never posted a receive (rxe)"),
    driver("completer_retry_err", "completer_retries_total", "Sends that were retried"),
    driver("send_err", "send_errors_total", "Packets that the net device did not accept"),
    driver("link_downed", "software_link_downed_total", "Times the net device went down"),
    driver("rdma_sends", "posted_sends_total", "Sends posted to rxe"),
    driver("rdma_recvs", "completed_receives_total", "Receives completed by rxe"),
];

/// Bytes and packets that a driver counts only separately for IPv4 and IPv6 (irdma), including multicast.
#[rustfmt::skip]
pub(super) const SUMS: &[Sum] = &[
    sum("port_receive_bytes_total", "Bytes received", &["ip4InOctets", "ip6InOctets"]),
    sum("port_transmit_bytes_total", "Bytes sent", &["ip4OutOctets", "ip6OutOctets"]),
    sum("port_receive_packets_total", "Packets received", &["ip4InPkts", "ip6InPkts"]),
    sum("port_transmit_packets_total", "Packets sent", &["ip4OutPkts", "ip6OutPkts"]),
];

/// A metric that is the sum of several files of `hw_counters/`, if no file has the total.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum {
    pub(super) row: Row,
    pub(super) files: &'static [&'static str],
}

const fn sum(metric: &'static str, help: &'static str, files: &'static [&'static str]) -> Sum {
    Sum { row: counter_row(metric, help), files }
}

/// The row of a counter, with the unit in its name. An invalid name does not compile.
const fn counter_row(metric: &'static str, help: &'static str) -> Row {
    Row::counter(metric, Row::unit_in(metric), help)
}

/// A counter that saturates at `bits`.
const fn width(
    source: CounterSource,
    file: &'static str,
    metric: &'static str,
    bits: u32,
    help: &'static str,
) -> KnownCounter {
    KnownCounter { source, file, row: counter_row(metric, help), scale: 1, bits }
}

/// The same, in words of four bytes.
const fn words(
    source: CounterSource,
    file: &'static str,
    metric: &'static str,
    bits: u32,
    help: &'static str,
) -> KnownCounter {
    KnownCounter { scale: 4, ..width(source, file, metric, bits, help) }
}

/// A driver's counter.
const fn driver(file: &'static str, metric: &'static str, help: &'static str) -> KnownCounter {
    width(HwCounters, file, metric, 0, help)
}

/// A driver's gauge.
const fn gauge(file: &'static str, metric: &'static str, help: &'static str) -> KnownCounter {
    let row = Row::gauge(metric, Row::unit_in(metric), help);
    KnownCounter { source: HwCounters, file, row, scale: 1, bits: 0 }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn a_file_has_one_row() {
        let mut seen = BTreeSet::new();
        for row in TABLE {
            assert!(seen.insert((row.source, row.file)), "duplicate {}", row.file);
        }
    }

    #[test]
    fn a_metric_has_one_meaning() {
        let mut known: BTreeMap<&str, &KnownCounter> = BTreeMap::new();
        for row in TABLE {
            let name = row.row.name();
            let first = known.entry(name).or_insert(row);
            assert_eq!(first.row, row.row, "{name}");
            let shared = first.file != row.file;
            assert!(!shared || name.starts_with("port_"), "{name} is shared");
        }
        for sum in SUMS {
            assert_eq!(known[sum.row.name()].row, sum.row);
            let files = TABLE.iter().filter(|row| sum.files.contains(&row.file));
            assert_eq!(files.count(), sum.files.len(), "{:?}", sum.files);
        }
    }

    /// Names are checked at compile time; these are the other rules.
    #[test]
    fn help_is_one_short_line() {
        for row in TABLE {
            assert!(row.scale == 1 || row.row.name().ends_with("_bytes_total"), "{}", row.file);
            let help = row.row.help();
            assert!(help.len() < 90 && !help.ends_with('.') && !help.contains('\n'), "{help}");
            assert!(help.starts_with(|letter: char| letter.is_uppercase()), "{help}");
        }
    }
}
