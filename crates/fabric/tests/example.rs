//! The example, run as the README says.
#![allow(missing_docs, reason = "a test")]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Where cargo puts examples, which it builds with the tests.
fn hello() -> PathBuf {
    let ours = std::env::current_exe().expect("our own path");
    let folder = ours.ancestors().nth(2).expect("target/debug/deps/this");
    let hello = folder.join("examples/hello");
    assert!(hello.exists(), "{} is not built: `cargo build --examples`", hello.display());
    hello
}

fn both_ends_say_what_they_got(lane: &str) {
    let server = Command::new(hello()).args([lane, "serve"]).stderr(Stdio::piped()).spawn();
    let mut server = server.expect("the server starts");
    let limit = Instant::now() + Duration::from_secs(20);
    let client: Output = loop {
        let client = Command::new(hello()).arg(lane).output().expect("the client starts");
        let said = String::from_utf8_lossy(&client.stderr).into_owned();
        // Until the server listens.
        if !said.contains("ConnectionRefused") || Instant::now() > limit {
            break client;
        }
        assert!(server.try_wait().expect("our child").is_none(), "the server ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = String::from_utf8_lossy(&client.stderr).into_owned();
    assert!(client.status.success(), "{lane}: {said}");
    assert_eq!(said, "read back: \"straight into your memory\"\n");
    let output = server.wait_with_output().expect("the server ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{lane}: {said}");
    assert_eq!(said, "25 bytes came with Some(7): \"straight into your memory\"\n");
}

/// One after the other, since both use one port to meet.
#[test]
fn the_example_runs_over_shared_memory_and_tcp() {
    both_ends_say_what_they_got("shm");
    both_ends_say_what_they_got("tcp");
}

/// Needs the lab.
#[cfg(feature = "lab")]
#[test]
fn the_example_runs_over_verbs() {
    both_ends_say_what_they_got("verbs");
}
