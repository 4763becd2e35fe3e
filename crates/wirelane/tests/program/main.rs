//! Runs the program as a user does.
#![allow(missing_docs, reason = "a test")]

mod authority;
mod bench;
mod config;
mod data_directory;
mod devices;
mod disk;
mod disk_faults;
mod doctor;
mod documents;
mod durable;
mod exporter;
mod exposition;
mod grpc;
mod hosts;
mod install;
mod job;
mod k8s;
mod kv;
mod launch;
mod lifecycle;
mod links;
mod many_clients;
mod metrics;
mod nccl;
mod nfs;
mod ofi;
mod outside;
mod reports;
mod security;
mod serve;
mod server;
mod setup;
mod snapshot;
mod ssh;
mod sweep;
mod tls;
mod top;
mod tune;
mod unwritable;
mod web;

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use server::{Server, signal};

/// The program, without an RDMA library whatever this machine has, and with a private state directory.
fn wirelane(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
    command.args(arguments).env("WIRELANE_LIBIBVERBS", "/nowhere/libibverbs.so.1");
    command.env("XDG_STATE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/state"));
    command
}

fn run(arguments: &[&str]) -> Output {
    wirelane(arguments).output().expect("the program runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// Copies a file that may be executed. Another process copies it: one that another test starts while this one has a file open for
/// writing inherits that, and a file that is open for writing cannot be executed.
fn copy(from: &str, to: &Path) {
    let copied = Command::new("cp").args([from.as_ref(), to.as_os_str()]).status();
    assert!(copied.expect("cp runs").success(), "copy {from}");
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn version_shows_why_rdma_is_off() {
    let output = run(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(text.starts_with(concat!("wirelane ", env!("CARGO_PKG_VERSION"), "\nRDMA: off: ")));
    assert!(text.contains("/nowhere/libibverbs.so.1"), "{text}");
    assert!(text.contains("apt install"), "{text}");
}

#[test]
fn an_empty_variable_names_no_library() {
    let output = wirelane(&["--version"]).env("WIRELANE_LIBIBVERBS", "").output();
    assert_eq!(output.expect("the program runs").status.code(), Some(0));
}

#[test]
fn devices_without_rdma_are_none_with_a_reason() {
    let output = run(&["devices", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let answer = json(&stdout(&output));
    assert_eq!(answer["devices"], Value::Array(vec![]));
    assert_eq!(answer["rdma"]["usable"], false);
    assert_eq!(answer["rdma"]["code"], "no_library");
    let output = run(&["devices"]);
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("RDMA is off"));
}

#[test]
fn no_rdma_library_is_linked() {
    let ldd = Command::new("ldd").arg(env!("CARGO_BIN_EXE_wirelane")).output().expect("ldd runs");
    let text = stdout(&ldd);
    // Names only: an address may contain `efa`.
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.iter().any(|name| name.starts_with("libc.so")), "{text}");
    for library in ["ibverbs", "rdmacm", "fabric", "mlx5", "efa"] {
        assert!(!names.iter().any(|name| name.contains(library)), "{text}");
    }
}

#[test]
fn invalid_usage_is_exit_code_2_and_help_lists_the_codes() {
    assert_eq!(run(&["no-such-command"]).status.code(), Some(2));
    assert_eq!(run(&[]).status.code(), Some(2));
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("Exit codes:"));
}

#[test]
fn errors_about_arguments_contain_no_control_characters() {
    let typed = "a\u{1b}]0;title\u{7}\u{1b}[31m\u{202e}b:x";
    let plain = run(&["kv", "--server", typed, "get", "k"]);
    assert_eq!(plain.status.code(), Some(2));
    // A terminal, on which clap's errors have colours.
    let words = format!("{} kv --server '{typed}' get k", env!("CARGO_BIN_EXE_wirelane"));
    let mut script = Command::new("script");
    let shown = script.args(["-qec", &words, "/dev/null"]).stdin(Stdio::null()).output();
    for text in [stderr(&plain), stdout(&shown.expect("script runs"))] {
        assert!(text.contains("invalid value") && text.contains(r"\u202e"), "{text:?}");
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child =
        wirelane(&["config", "schema"]).stdout(Stdio::piped()).spawn().expect("the program runs");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn completions_and_manual_pages_come_from_the_same_definitions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completions", shell]));
        assert!(script.contains("devices") && script.contains("log-level"), "{shell}");
        assert!(script.contains("memlock") && script.contains("gid-tables"), "{shell}: checks");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a plain path");
    assert_eq!(run(&["man", path]).status.code(), Some(0));
    let page = std::fs::read_to_string(folder.path().join("wirelane-serve.1")).expect("a page");
    assert!(page.contains("http"), "{page}");
}
