//! A client in Python, made from the published .proto as its readers would make theirs.
//!
//! Needs a Python with grpcio and grpcio-tools, which the variable WIRELANE_TEST_PYTHON names; `cargo xtask test`
//! brings one.
#![allow(missing_docs, reason = "a test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server's process, ended with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_client_in_python_uses_every_call() {
    let python = std::env::var("WIRELANE_TEST_PYTHON")
        .expect("WIRELANE_TEST_PYTHON names a Python that has grpcio and grpcio-tools");
    let any = "127.0.0.1:0";
    let mut child = Command::new(env!("CARGO_BIN_EXE_wirelane"))
        .args(["serve", "--http", any, "--listen", any, "--memory", "256MiB"])
        .env("WIRELANE_LIBIBVERBS", "/nowhere/libibverbs.so.1")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
    let _server = Server(child);
    let address = log
        .find_map(|line| Some(line.ok()?.strip_prefix("links ")?.split(' ').next()?.to_owned()))
        .expect("an address");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stubs = tempfile::tempdir().expect("a folder");
    let output = Command::new(python)
        .arg(here.join("tests/python/client.py"))
        .arg(here.join("../kv-proto/proto"))
        .arg(stubs.path())
        .arg(&address)
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{wrong}");
    assert!(said.ends_with("all is well\n"), "{said}{wrong}");
}
