//! The cases as tests of one lane.

/// Runs every case for a reliable lane over pairs made by an expression.
macro_rules! reliable_lane {
    ($make:expr) => {
        each_case! { cases, $make;
            a_write_of_every_size_arrives_and_touches_nothing_beside_it
            a_read_of_every_size_arrives_and_touches_nothing_beside_it
            a_message_of_every_size_is_received
            long_messages_in_pieces_keep_their_place_among_short_ones
            every_alignment_is_written_and_read
            the_largest_operation_arrives
            a_number_arrives_after_the_bytes_of_its_write
            a_message_comes_after_what_was_posted_before_it
            a_number_does_not_split_the_message_that_waits
            a_message_carries_a_number
            pieces_are_gathered_and_scattered_in_order
            numbers_are_added_and_swapped_as_one_step
            memory_in_flight_outlives_its_owners_handles
            borrowed_memory_is_moved_too
        }
        each_case! { refusals, $make;
            a_number_across_words_is_refused
            a_receiver_that_never_comes_is_not_waited_for_forever
            a_message_longer_than_its_receive_fails
            a_long_message_longer_than_its_receive_fails_too
            a_wrong_key_is_refused
            beyond_the_end_is_refused
            far_beyond_the_end_is_refused_too
            writing_needs_the_right
            reading_needs_the_right
            adding_needs_the_right
            a_region_dropped_by_its_owner_is_refused
            a_window_of_another_lane_is_not_taken_and_the_lane_goes_on
            a_place_for_the_old_number_must_be_a_word
            a_region_of_another_kind_of_lane_is_not_imported
        }
        each_case! { progress, $make;
            every_operation_of_a_batch_comes_back_once
            what_finds_no_room_waits_and_goes_later
            receives_have_a_limit_too
            a_late_receiver_gets_its_message
            a_dead_peer_is_noticed_and_everything_comes_back
            a_closed_lane_gives_everything_back
            a_lane_dropped_with_operations_in_flight_lets_go_of_memory
            one_who_sleeps_is_woken
            both_ends_talk_at_once_and_nothing_is_mixed_up
            everything_is_counted
        }
    };
}

/// Runs every case for a datagram lane.
#[allow(unused_macros, reason = "not every test program has such a lane")]
macro_rules! datagram_lane {
    ($make:expr) => {
        each_case! { datagrams, $make;
            a_datagram_of_every_size_is_received
            a_datagram_longer_than_the_mtu_is_refused_here
            a_datagram_carries_a_number_and_is_scattered
            one_sided_operations_are_refused_here
            a_datagram_without_a_receive_is_lost_and_the_lane_goes_on
            a_closed_datagram_lane_gives_everything_back
            one_who_sleeps_is_woken_by_a_datagram
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
