//! The example of a link, over shared memory and TCP.
#![allow(missing_docs, reason = "a test")]

use fabric::link::Class;

#[path = "../examples/link.rs"]
#[allow(dead_code, reason = "its main is for `cargo run`")]
mod link;

#[test]
fn the_example_runs_over_shared_memory_and_tcp() {
    for class in [Class::Shm, Class::Tcp] {
        let (transport, text) = link::run(vec![class]).unwrap();
        assert_eq!(transport, class.name());
        assert_eq!(text, "written straight into your memory");
    }
}
