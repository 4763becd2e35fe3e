//! Runs the program as a user does.
#![allow(missing_docs, reason = "a test")]

mod authority;
mod bench;
mod devices;
mod disk;
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
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

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

mod config {
    use super::*;

    /// `config check` of a file with this content: exit code and the paragraph on stderr.
    fn check(content: &[u8]) -> (Option<i32>, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("settings.yaml");
        std::fs::write(&file, content).expect("a file");
        let output = run(&["config", "check", file.to_str().expect("a plain path")]);
        assert_eq!(stdout(&output), "");
        (output.status.code(), stderr(&output))
    }

    #[track_caller]
    fn refused(content: &[u8], line: usize, words: &[&str]) {
        let (code, text) = check(content);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&format!("settings.yaml:{line}: ")), "{text}");
        for word in words {
            assert!(text.contains(word), "`{word}` is missing in: {text}");
        }
        assert_eq!(text.trim_end().lines().count(), 1, "one paragraph: {text}");
        assert!(text.len() < 500, "{text}");
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_what_is_allowed() {
        refused(
            b"transport:\n  enable_rdma: true\n  rdma_mtu: 5000\n",
            3,
            &["rdma_mtu is `5000`", "256, 512, 1024, 2048, 4096"],
        );
        refused(b"transport: {rdma_retry_count: 7}\n", 1, &["from 0 to 6"]);
        refused(b"log_level: loud\n", 1, &["error, warn, info, debug, trace"]);
        refused(b"transport:\n  rdma_use_srq: maybe\n", 2, &["true or false"]);
        refused(b"transport:\n  rdma_mtu:\n", 2, &["has no value"]);
        refused(b"transport:\n  rdma_mtu: \"4096\"\n", 2, &["is the text"]);
        refused(b"transport:\n  rdma_pkey_index: 010\n", 2, &["`010`"]);
        refused(b"transport: {rdma_policy: maybe}\n", 1, &["require, prefer, \"off\""]);
        let peers = b"transport:\n  rdma_peer_policies: [\"10.0.0.0/8=require\", \"::1=on\"]\n";
        refused(peers, 2, &["contains `::1=on`", "ADDRESS[/PREFIX]=POLICY"]);
        refused(b"transport: {rdma_peer_policies: off}\n", 1, &["is not a list"]);
        refused(b"security: {rdma: {key_file: [a]}}\n", 1, &["is a list", "a path"]);
    }

    #[test]
    fn an_unknown_key_is_refused_with_a_suggestion() {
        refused(b"transport:\n  rdma_devise: x\n", 2, &["rdma_devise", "transport.rdma_device?"]);
        refused(b"rdma_mtu: 4096\n", 1, &["belongs in the section `transport`"]);
        refused(b"colour: red\n", 1, &["colour", "config show"]);
        refused(b"transport: {log_level: info}\n", 1, &["at the top level of the file"]);
        refused(b"transport.rdma_mtu: 1024\n", 1, &["dot in its name"]);
        let many: String = (0..100).map(|n| format!("x{n}: 1\n")).collect();
        let (_, text) = check(many.as_bytes());
        assert!(text.ends_with("and 80 more problems further down\n"), "{text}");
    }

    #[test]
    fn a_tab_is_refused_by_name() {
        refused(b"transport:\n\trdma_mtu: 4096\n", 2, &["tab", "spaces"]);
    }

    #[test]
    fn garbage_of_every_kind_is_refused() {
        // A fixed generator, so that a failure can be repeated.
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .take(10_000_000)
        .collect();
        refused(&noise, 1, &["not text"]);
        refused(&vec![b'a'; 10_000_000], 1, &["larger than 1 MiB"]);
        refused(&"[".repeat(500_000).into_bytes(), 1, &["deeper"]);
        for garbage in ["]", "{", "a: b: c", "? ", "- - -", "%YAML 9", "key: *x", "\u{0}"] {
            let (code, text) = check(garbage.as_bytes());
            assert_eq!(code, Some(1), "{garbage:?}: {text}");
        }
    }

    #[test]
    fn old_spellings_are_accepted() {
        let old = b"dwcp:\n  log_level: debug\n  transport:\n    amst:\n      rdma_mtu: 1024\n      rdma_settle_ms: 900\n";
        let (code, text) = check(old);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("OK (3 settings)"), "{text}");
        let twice = b"log_level: info\ndwcp:\n  log_level: debug\n";
        refused(twice, 3, &["set twice", "line 1"]);
    }

    #[test]
    fn an_explicit_gid_index_0_warns() {
        let (code, text) = check(b"transport:\n  rdma_gid_index: 0\n");
        assert_eq!(code, Some(0));
        assert!(text.contains("warning") && text.contains("link-local"), "{text}");
    }

    #[test]
    fn an_unreadable_file_is_a_failure_not_an_answer() {
        let output = run(&["config", "check", "/nowhere/settings.yaml"]);
        assert_eq!(output.status.code(), Some(3));
        assert!(stderr(&output).contains("/nowhere/settings.yaml"));
        assert_eq!(run(&["config", "check", "/"]).status.code(), Some(3));
    }

    /// A pipe with a name and no writer, which every command that reads a file must refuse.
    #[test]
    fn a_pipe_without_a_writer_is_refused_by_every_command() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let made = Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
        let pipe = pipe.to_str().expect("a plain path");
        let local = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let certificates = ["--tls-cert", pipe, "--tls-key", pipe];
        let commands: Vec<Vec<&str>> = vec![
            vec!["config", "check", pipe],
            vec!["config", "show", "--config", pipe],
            vec!["token", "check", pipe],
            vec!["kv", "--token-file", pipe, "get", "k"],
            vec!["kv", "restore", pipe, "/nowhere"],
            vec!["kv", "put", "k", "-f", pipe],
            [&["serve"], &local[..], &["--token-file", pipe]].concat(),
            [&["serve"], &local[..], &certificates].concat(),
            vec!["hosts", "check", "--hostfile", pipe],
            vec!["bench", "report", pipe, "--output", "/dev/null"],
            vec!["bench", "nccl", "--read", pipe],
            vec!["exporter", "--listen", "127.0.0.1:0", "--web-config", pipe],
            vec!["doctor", "--root", pipe],
            vec!["doctor", "--since", pipe],
        ];
        let children: Vec<_> = commands
            .iter()
            .map(|command| {
                let mut child = wirelane(command);
                child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
                child.spawn().expect("the program runs")
            })
            .collect();
        for (command, child) in commands.iter().zip(children) {
            let output = child.wait_with_output().expect("it ends");
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(3), "{command:?}: {text}");
            assert!(
                text.contains(pipe) && text.trim_end().lines().count() == 1,
                "{command:?}: {text}"
            );
        }
        let web = run(&["config", "check", "--web", pipe]);
        assert!(stderr(&web).contains("pipe whose writer sends nothing"), "{}", stderr(&web));
    }

    #[test]
    fn pipes_of_a_shell_are_read() {
        let shell = |script: &str| {
            let words = ["-c", script, env!("CARGO_BIN_EXE_wirelane")];
            Command::new("bash").args(words).output().expect("bash runs")
        };
        for script in [
            "\"$0\" config check <(sleep 0.1; echo 'log_level: info')",
            "echo 'log_level: info' | \"$0\" config check /dev/stdin",
            "\"$0\" config check /dev/stdin <<<'log_level: info'",
        ] {
            let output = shell(script);
            assert!(stderr(&output).contains("OK (1 setting)"), "{script}: {}", stderr(&output));
        }
        let token = shell("\"$0\" token check <(\"$0\" token new ann)");
        assert_eq!(token.status.code(), Some(0), "{}", stderr(&token));
        assert_eq!(run(&["config", "check", "/dev/null"]).status.code(), Some(0));
    }

    #[test]
    fn check_accepts_the_output_of_show() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("settings.yaml");
        let path = file.to_str().expect("a plain path");
        for name in ["null", "yes", "a b", "\u{200b}", "4096", "mlx5_0", "#", "é"] {
            std::fs::write(&file, format!("transport:\n  rdma_device: \"{name}\"\n"))
                .expect("a file");
            let shown = stdout(&run(&["config", "show", "--format", "yaml", "--config", path]));
            let (code, text) = check(shown.as_bytes());
            assert_eq!(code, Some(0), "{name}: {text}");
            assert!(shown.contains(name), "{shown}");
        }
    }

    #[test]
    fn show_has_the_source_of_every_value() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("settings.yaml");
        let path = file.to_str().expect("a plain path");
        let text = "transport:\n  preset: latency\n  rdma_mtu: 1024\n";
        std::fs::write(&file, text).expect("a file");
        let output = run(&["config", "show", "--json", "--config", path, "--log-level", "debug"]);
        let rows = json(&stdout(&output));
        let row = |key: &str| {
            let rows = rows.as_array().expect("a list");
            rows.iter().find(|row| row["key"] == key).expect("the key").clone()
        };
        assert_eq!(rows.as_array().map(Vec::len), Some(wirelane::settings::SETTINGS.len()));
        assert_eq!(row("transport.rdma_mtu")["value"], 1024);
        assert_eq!(row("transport.rdma_mtu")["from"]["line"], 3);
        assert_eq!(row("transport.rdma_max_send_wr")["value"], 512);
        assert_eq!(row("transport.rdma_max_send_wr")["from"]["preset"], "latency");
        assert_eq!(row("transport.rdma_max_sge")["from"]["source"], "default");
        assert_eq!(row("log_level")["value"], "debug");
        assert_eq!(row("log_level")["from"]["flag"], "--log-level");
    }
}

/// A server on free ports, ended with the test.
struct Server {
    child: Child,
    /// The address of HTTP.
    address: String,
    /// The address of links.
    links: String,
    greeting: Vec<String>,
    log: Lines<BufReader<ChildStderr>>,
}

impl Server {
    fn start(more: &[&str]) -> Self {
        Server::start_on("127.0.0.1:0", more)
    }

    fn start_on(listen: &str, more: &[&str]) -> Self {
        let mut command = wirelane(&["serve", "--http", "127.0.0.1:0", "--listen", listen]);
        command.args(more);
        Server::of(command)
    }

    /// Starts a server with this command.
    fn of(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the server starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut greeting = Vec::new();
        for line in log.by_ref() {
            greeting.push(line.expect("text"));
            if greeting.last().is_some_and(|line| line.starts_with("RDMA")) {
                break;
            }
        }
        let after = |mark: &str| {
            greeting
                .iter()
                .find_map(|line| line.split(mark).nth(1)?.split_whitespace().next())
                .unwrap_or_else(|| panic!("no address after {mark} in {greeting:?}"))
                .to_owned()
        };
        let (address, links) =
            (after("HTTP  ").split_once("://").expect("a URL").1.to_owned(), after("links "));
        Server { child, address, links, greeting, log }
    }

    /// GET with curl, as in the greeting.
    fn get(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.address);
        let curl = Command::new("curl").args(["-sS", "--max-time", "10", &url]).output();
        let curl = curl.expect("curl runs");
        assert!(curl.status.success(), "{}", String::from_utf8_lossy(&curl.stderr));
        String::from_utf8(curl.stdout).expect("text")
    }

    fn status(&self) -> Value {
        json(&self.get("/api/v1/transport/status"))
    }

    fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    fn exit_code(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let kill = Command::new("kill").args([name, &pid]).status().expect("kill runs");
    assert!(kill.success());
}

mod serve {
    use super::*;

    #[test]
    fn the_greeting_has_at_most_eight_lines() {
        let server = Server::start(&["--memory", "64MiB"]);
        assert!(server.greeting.len() <= 8, "{:?}", server.greeting);
        let all = server.greeting.join("\n");
        for words in [
            "in-memory store (not persistent)",
            "pool  64 MiB in pages of ",
            "evicts values not read recently when full",
            "gRPC on the same port; no authentication",
            "shm for clients on this host; verbs if RDMA is on; tcp for",
            "/metrics  /healthz  /readyz  /api/v1/transport/status",
            &format!("wirelane kv --server {} put hello world", server.links),
            "RDMA  off: ",
        ] {
            assert!(all.contains(words), "`{words}` is missing in: {all}");
        }
    }

    #[test]
    fn options_configure_the_store() {
        let older = ["--memory-mb", "8", "--num-domains", "2", "--when-full", "refuse"];
        let more = ["--max-value", "1MiB", "--workers", "3", "--transport", "tcp", "--prefault"];
        let server = Server::start(&[&older[..], &more].concat());
        let all = server.greeting.join("\n");
        assert!(all.contains("pool  8 MiB") && all.contains("allocated now; refuses new"), "{all}");
        assert!(all.contains("no shm: excluded by --transport"), "{all}");
        lifecycle::until("it is ready", || server.get("/readyz") == "ready\n");
        let status = server.status();
        let store = &status["store"];
        assert_eq!(
            (&store["memory_bytes"], &store["max_value_bytes"], &store["when_full"]),
            (&(8 << 20).into(), &(1 << 20).into(), &"refuse".into())
        );
        assert_eq!((&store["workers"], &store["keys"]), (&3.into(), &0.into()));
        let offered = |at: usize| &status["transports"][at]["offered"];
        assert_eq!([0, 1, 2, 3].map(offered), [false, false, false, true]);
        assert_eq!(server.get("/readyz"), "ready\n");
        for wrong in [&["--memory", "0"][..], &["--rails", "17"], &["--transport", "pigeon"]] {
            assert_eq!(run(&[&["serve"], wrong].concat()).status.code(), Some(2), "{wrong:?}");
        }
        let help = stdout(&run(&["serve", "--help"]));
        assert!(help.contains("--rails") && !help.contains("domains"), "{help}");
    }

    #[test]
    fn status_is_json_with_the_reason_why_rdma_is_off() {
        let server = Server::start(&[]);
        let status = server.status();
        assert_eq!(status["rdma"]["usable"], false);
        assert!(status["rdma"]["why"].as_str().is_some_and(|text| text.contains("libibverbs")));
        assert_eq!(server.get("/healthz"), "ok\n");
        assert!(server.get("/elsewhere").contains("/healthz"));
    }

    #[test]
    fn rdma_can_be_disabled_by_a_setting() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("settings.yaml");
        std::fs::write(&file, "transport:\n  enable_rdma: false\n").expect("a file");
        let server = Server::start(&["--config", file.to_str().expect("a plain path")]);
        let status = server.status();
        assert_eq!(status["rdma"]["code"], "disabled");
        assert!(server.greeting.iter().any(|line| line.contains("no verbs: RDMA is off")));
    }

    #[test]
    fn ctrl_c_and_sigterm_end_it_cleanly() {
        for signal in ["-INT", "-TERM"] {
            let server = Server::start(&[]);
            server.signal(signal);
            assert_eq!(server.exit_code(), Some(0), "{signal}");
        }
    }

    /// Opening a FIFO without a writer blocks forever, like a call into a hanging driver.
    #[test]
    fn a_device_that_does_not_answer_stops_neither_the_server_nor_ctrl_c() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("libibverbs.so.1");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
        let any = "127.0.0.1:0";
        let mut child = wirelane(&["serve", "--http", any, "--listen", any, "--libibverbs"])
            .arg(&fifo)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let lines = log.map(|line| line.expect("text"));
        let url = lines
            .into_iter()
            .find_map(|line| {
                Some(line.split("http://").nth(1)?.split_whitespace().next()?.to_owned())
            })
            .expect("an address");
        let health = Command::new("curl")
            .args(["-sS", "--max-time", "10", &format!("http://{url}/healthz")])
            .output()
            .expect("curl runs");
        assert_eq!(stdout(&health), "ok\n");
        let status = Command::new("curl")
            .args(["-sS", "--max-time", "20", &format!("http://{url}/api/v1/transport/status")])
            .output()
            .expect("curl runs");
        assert!(stdout(&status).contains("does not answer"), "{}", stdout(&status));
        signal(&child, "-INT");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }

    #[test]
    fn a_busy_port_names_its_owner_and_the_flag() {
        let server = Server::start(&[]);
        let output = run(&["serve", "--http", &server.address]);
        assert_eq!(output.status.code(), Some(3));
        let text = stderr(&output);
        assert!(text.contains(&format!("wirelane (pid {})", server.child.id())), "{text}");
        assert!(text.contains("--http"), "{text}");
    }

    #[test]
    fn a_busy_link_port_names_its_owner_and_the_flag() {
        let server = Server::start(&[]);
        let output = run(&["serve", "--http", "127.0.0.1:0", "--listen", &server.links]);
        assert_eq!(output.status.code(), Some(3));
        let text = stderr(&output);
        assert!(text.contains(&format!("wirelane (pid {})", server.child.id())), "{text}");
        assert!(text.contains("--listen") && text.trim_end().lines().count() == 1, "{text}");
    }

    #[test]
    fn silent_and_invalid_callers_do_not_affect_others() {
        let server = Server::start(&[]);
        let silent: Vec<TcpStream> =
            (0..50).map(|_| TcpStream::connect(&server.address).expect("connects")).collect();
        let mut protocol_error = TcpStream::connect(&server.address).expect("connects");
        protocol_error.write_all(&[0xff; 4096]).expect("is sent");
        let mut endless = TcpStream::connect(&server.address).expect("connects");
        let _ = endless.write_all(format!("GET /{} HTTP/1.1\r\n", "a".repeat(1 << 20)).as_bytes());
        assert_eq!(server.get("/healthz"), "ok\n");
        let mut answer = String::new();
        protocol_error.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let _ = protocol_error.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        drop(silent);
    }

    #[test]
    fn an_open_connection_delays_shutdown_only_up_to_the_limit() {
        let server = Server::start(&[]);
        let _holding = TcpStream::connect(&server.address).expect("connects");
        assert_eq!(server.get("/healthz"), "ok\n");
        server.signal("-INT");
        assert_eq!(server.exit_code(), Some(0));
    }

    /// A pipe that is not read has 64 KiB; each call logs a large part of that.
    #[test]
    fn an_unread_log_does_not_block() {
        let mut server = Server::start(&["--memory", "64MiB", "--log-level", "trace"]);
        grpc::runtime().block_on(async {
            let mut client = grpc::client(&server).await;
            for _ in 0..2000 {
                let put = client.put(grpc::put("k", "v"));
                let put = tokio::time::timeout(Duration::from_secs(60), put).await;
                put.expect("it does not hang").expect("it is put");
            }
        });
        assert_eq!(server.get("/healthz"), "ok\n");
        let told = server.log.by_ref().map(|line| line.expect("text"));
        assert!({ told }.any(|line| line.contains("log lines were dropped")));
    }

    #[test]
    fn one_caller_too_many_is_closed_and_logged_as_json() {
        let mut server = Server::start(&["--log-format", "json"]);
        let connect = || TcpStream::connect(&server.address).expect("connects");
        let mut crowd: Vec<TcpStream> = (0..257).map(|_| connect()).collect();
        let limit = Some(Duration::from_secs(60));
        for socket in [&crowd[0], &crowd[256]] {
            socket.set_read_timeout(limit).expect("a timeout");
        }
        assert_eq!(crowd[0].read(&mut [0; 1]).expect("the end"), 0, "the oldest is closed");
        let mut last = crowd.pop().expect("one");
        last.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").expect("it is open");
        let mut answer = String::new();
        last.read_to_string(&mut answer).expect("an answer");
        assert!(answer.ends_with("ok\n"), "{answer}");
        drop(crowd);
        server.signal("-TERM");
        let lines = server.log.by_ref().map_while(Result::ok).map(|line| json(&line));
        let lines: Vec<Value> = lines.filter(|line| line["limit"] == 256).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| line["level"] == "WARN"), "{lines:?}");
    }
}
