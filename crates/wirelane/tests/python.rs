//! A client in Python, made from the published .proto as its readers would make theirs.
//!
//! Needs a Python with grpcio and grpcio-tools, which the variable WIRELANE_TEST_PYTHON names; `cargo xtask test`
//! brings one.
#![allow(missing_docs, reason = "a test")]

#[path = "program/authority.rs"]
mod authority;

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use authority::{Authority, Good};

/// A server's process, ended with the test.
struct Server {
    child: Child,
    address: String,
    /// Kept open: what it logs goes there.
    _log: Lines<BufReader<ChildStderr>>,
}

impl Server {
    fn start(more: &[&str]) -> Self {
        let any = "127.0.0.1:0";
        let mut child = Command::new(env!("CARGO_BIN_EXE_wirelane"))
            .args(["serve", "--http", any, "--listen", any, "--memory", "256MiB"])
            .args(more)
            .env("WIRELANE_LIBIBVERBS", "/nowhere/libibverbs.so.1")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = |line: std::io::Result<String>| {
            Some(line.ok()?.strip_prefix("links ")?.split(' ').next()?.to_owned())
        };
        let address = log.by_ref().find_map(address).expect("an address");
        Server { child, address, _log: log }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a script, which makes its stubs first.
fn run(script: &str, more: &[&str]) {
    let python = std::env::var("WIRELANE_TEST_PYTHON")
        .expect("WIRELANE_TEST_PYTHON names a Python that has grpcio and grpcio-tools");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stubs = tempfile::tempdir().expect("a folder");
    let output = Command::new(python)
        .arg(here.join("tests/python").join(script))
        .arg(here.join("../kv-proto/proto"))
        .arg(stubs.path())
        .args(more)
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{wrong}");
    assert!(said.ends_with("all is well\n"), "{said}{wrong}");
}

#[test]
fn a_client_in_python_uses_every_call() {
    let server = Server::start(&[]);
    run("client.py", &[&server.address]);
}

#[test]
fn a_client_in_python_is_known_by_a_certificate_or_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let [certificate, key] = authority.sign("server", &Good::Now);
    let [own, own_key] = authority.sign("node1", &Good::Now);
    let [old, old_key] = authority.sign("old", &Good::LongAgo);
    let file = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (ca, tokens) = (file("ca.pem"), file("tokens"));
    let line = format!("reader wlt_{} read-only\nnode1 cert\n", "r".repeat(40));
    std::fs::write(&tokens, line).expect("a file");
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("a mode");
    let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca];
    let server = Server::start(&[&tls[..], &["--token-file", &tokens]].concat());
    run("secure.py", &[&server.address, &ca, &own, &own_key, &tokens, &old, &old_key]);
}
