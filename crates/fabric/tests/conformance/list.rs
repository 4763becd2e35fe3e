//! The list of cases, as tests of one lane.

/// Runs every case for a reliable lane, each with a new pair from an expression.
macro_rules! reliable_lane {
    ($make:expr) => {
        each_case! { cases, $make;
            a_write_of_every_size_changes_exactly_its_range
            a_read_of_every_size_changes_exactly_its_range
            a_message_of_every_size_is_received
            long_messages_in_slices_stay_in_order_with_short_ones
            every_alignment_is_written_and_read
            the_largest_operation_arrives
            immediate_data_arrives_after_the_bytes_of_its_write
            a_message_arrives_after_operations_posted_before_it
            immediate_data_does_not_split_a_waiting_message
            a_message_has_immediate_data
            slices_are_gathered_and_scattered_in_order
            atomics_add_and_swap
            memory_in_flight_outlives_its_owners_handles
            caller_owned_memory_is_transferred
        }
        each_case! { refusals, $make;
            an_unaligned_atomic_is_refused
            a_missing_receive_times_out
            a_message_longer_than_its_receive_fails
            a_long_message_longer_than_its_receive_fails
            a_wrong_key_is_refused
            a_write_beyond_the_end_is_refused
            a_read_far_beyond_the_end_is_refused
            writing_needs_the_right
            reading_needs_the_right
            adding_needs_the_right
            a_region_dropped_by_its_owner_is_refused
            a_window_of_another_lane_is_unsupported
            memory_for_the_old_value_must_be_an_aligned_word
            a_region_of_another_kind_of_lane_is_not_imported
        }
        each_case! { progress, $make;
            every_operation_of_a_batch_is_returned_once
            operations_that_do_not_fit_are_posted_later
            receives_have_a_limit
            a_late_receiver_gets_its_message
            a_dead_peer_is_detected_and_all_operations_are_returned
            a_closed_lane_returns_all_operations
            a_lane_dropped_with_operations_in_flight_releases_memory
            a_sleeping_end_is_woken
            both_ends_send_at_the_same_time
            operations_are_counted
        }
    };
}

/// Runs every case for a lane with packets. `$ordered` is empty for a lane whose writes packets may overtake.
#[allow(unused_macros, reason = "not every test program has such a lane")]
macro_rules! packet_lane {
    ($make:expr $(, $ordered:ident)?) => {
        each_case! { packets, $make;
            packets_of_every_size_arrive_once_and_in_order
            packets_that_fill_a_ring_exactly_arrive
            many_packets_wait_for_a_peer_that_does_not_poll
            a_packet_that_is_too_long_ends_the_lane
            a_packet_that_nobody_accepts_ends_the_lane
            an_empty_packet_that_nobody_accepts_ends_the_lane
            the_end_of_a_lane_is_reported_behind_its_packets
            a_sleeping_end_is_woken_by_a_packet
            $($ordered)?
        }
    };
}

/// Runs every case for a datagram lane.
#[allow(unused_macros, reason = "not every test program has such a lane")]
macro_rules! datagram_lane {
    ($make:expr) => {
        each_case! { datagrams, $make;
            a_datagram_of_every_size_is_received
            a_datagram_longer_than_the_mtu_is_unsupported
            a_datagram_with_immediate_data_is_scattered
            one_sided_operations_are_unsupported
            a_datagram_without_a_receive_is_lost
            a_closed_datagram_lane_returns_all_receives
            a_sleeping_end_is_woken_by_a_datagram
            datagrams_are_counted
        }
    };
}

macro_rules! each_case {
    ($cases:ident, $make:expr; $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                crate::$cases::$case($make);
            }
        )*
    };
}
