//! The example of a link, over shared memory and TCP.
#![allow(missing_docs, reason = "a test")]

use fabric::link::Transport;

#[path = "../examples/link.rs"]
#[allow(dead_code, reason = "its main is for `cargo run`")]
mod link;

#[test]
fn the_example_runs_over_shared_memory_and_tcp() {
    for transport in [Transport::Shm, Transport::Tcp] {
        let (used, text) = link::run(vec![transport]).unwrap();
        assert_eq!(used, transport.name());
        assert_eq!(text, "written straight into your memory");
    }
}
