//! The example over the lanes that every machine has.
#![allow(missing_docs, reason = "a test")]

mod hello;

use hello::both_ends_say_what_they_got;

/// One after the other, since both use one port to meet.
#[test]
fn the_example_runs_over_shared_memory_and_tcp() {
    both_ends_say_what_they_got("shm");
    both_ends_say_what_they_got("tcp");
}
