//! The example over verbs. Needs the lab.
#![allow(missing_docs, reason = "a test")]

#[path = "example/hello.rs"]
mod hello;

#[test]
fn the_example_runs_over_verbs() {
    hello::both_ends_print_what_they_received("verbs");
}
