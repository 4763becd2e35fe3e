//! Runs the example as described in the README.

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

/// Runs the example as a server and as a client over this lane.
pub(crate) fn both_ends_print_what_they_received(lane: &str) {
    let server = Command::new(hello()).args([lane, "serve"]).stderr(Stdio::piped()).spawn();
    let mut server = server.expect("the server starts");
    let limit = Instant::now() + Duration::from_secs(20);
    let client: Output = loop {
        let client = Command::new(hello()).arg(lane).output().expect("the client starts");
        let printed = String::from_utf8_lossy(&client.stderr).into_owned();
        // Until the server listens.
        if !printed.contains("ConnectionRefused") || Instant::now() > limit {
            break client;
        }
        assert!(server.try_wait().expect("our child").is_none(), "the server ended early");
        std::thread::sleep(Duration::from_millis(20));
    };
    let printed = String::from_utf8_lossy(&client.stderr).into_owned();
    assert!(client.status.success(), "{lane}: {printed}");
    assert_eq!(printed, "read back: \"straight into your memory\"\n");
    let output = server.wait_with_output().expect("the server ends");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{lane}: {printed}");
    assert_eq!(printed, "received 25 bytes with Some(7): \"straight into your memory\"\n");
}
