//! The example over shared memory and TCP.
#![allow(missing_docs, reason = "a test")]

mod hello;

use hello::both_ends_print_what_they_received;

/// One after the other, since both use the same TCP port.
#[test]
fn the_example_runs_over_shared_memory_and_tcp() {
    both_ends_print_what_they_received("shm");
    both_ends_print_what_they_received("tcp");
}
