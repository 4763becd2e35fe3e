//! Start and shutdown of a server: limits, signals, and what callers receive during shutdown.

use kv_client::PutOptions;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::exposition::Scrape;
use super::grpc::{channel, client, put, runtime};
use super::*;

/// A client of the library.
fn library(server: &Server) -> kv_client::Client {
    let settings = kv_client::Settings::new(&*server.links);
    kv_client::Client::connect(settings).expect("a store")
}

fn scrape(server: &Server) -> Scrape {
    Scrape::read(&server.get("/metrics"))
}

/// Waits until a condition is true.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn slow_http_connections_do_not_keep_probes_out() {
    let mut server = Server::start(&["--memory", "64MiB"]);
    let mut slow = Vec::new();
    for _ in 0..600 {
        let mut socket = std::net::TcpStream::connect(&server.address).expect("it listens");
        // The head has no end; writing it fails if the connection is already closed.
        let _ = std::io::Write::write_all(&mut socket, b"GET /metrics HTTP/1.1\r\nHost: x\r\n");
        slow.push(socket);
    }
    for path in ["/readyz", "/healthz", "/readyz", "/healthz"] {
        assert!(["ready\n", "ok\n"].contains(&&*server.get(path)), "{path}");
    }
    assert!(server.get("/metrics").contains("wirelane_store_keys"));
    server.signal("-TERM");
    let log: Vec<String> = server.log.by_ref().map_while(Result::ok).collect();
    let lines = log.iter().filter(|line| line.contains("too many HTTP connections")).count();
    // One a minute, and one at the end.
    assert!((1..10).contains(&lines), "one line for all: {log:?}");
}

/// The field of a thread's status in /proc.
fn status_field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect(name).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn started_by_root_it_serves_as_the_user_and_has_no_privileges() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    std::os::unix::fs::chown(&data, Some(65_534), Some(65_534)).expect("root may");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("ours");
    let data = data.to_str().expect("text");
    let mut server =
        Server::start(&["--memory", "64MiB", "--data-dir", data, "--user", "65534:65534"]);
    library(&server).put(b"hello", b"world", &PutOptions::default()).expect("it is put");
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).expect("threads");
    // A thread may end between being listed and being read: it has no status then.
    let statuses: Vec<String> = threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok())
        .collect();
    assert!(statuses.len() > 1, "the first thread and those that serve: {statuses:?}");
    for status in &statuses {
        assert_eq!(status_field(status, "Uid"), "65534 65534 65534 65534");
        assert_eq!(status_field(status, "Gid"), "65534 65534 65534 65534");
        assert_eq!(status_field(status, "Groups"), "65534");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(status_field(status, set), "0000000000000000", "{set}");
        }
        assert_eq!(status_field(status, "NoNewPrivs"), "1");
    }
    let limits =
        std::fs::read_to_string(format!("/proc/{}/limits", server.child.id())).expect("it runs");
    let memlock =
        limits.lines().find(|line| line.starts_with("Max locked memory")).expect("a limit");
    // In a container root may not raise limits.
    let may_raise = Command::new("sh").args(["-c", "ulimit -l unlimited"]).output().expect("sh");
    assert_eq!(memlock.contains("unlimited"), may_raise.status.success(), "{memlock}");
    let owner =
        |path: &str| std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(path).expect("a file"));
    for entry in std::fs::read_dir(data).expect("a folder") {
        assert_eq!(owner(entry.expect("an entry").path().to_str().expect("text")), 65_534);
    }
    server.signal("-TERM");
    let log: Vec<String> = server.log.by_ref().map_while(Result::ok).collect();
    assert_eq!(server.exit_code(), Some(0), "{log:?}");
}

#[test]
fn a_user_that_it_cannot_become_is_refused_with_the_reason() {
    let refused = |user: &str| {
        let refused =
            run(&["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--user", user]);
        (refused.status.code(), stderr(&refused))
    };
    let (code, text) = refused("nobody-of-this-name");
    assert!(code == Some(2) && text.contains("useradd --system nobody-of-this-name"), "{text}");
    let (code, text) = refused("root");
    assert!(code == Some(2) && text.contains("keeps every privilege"), "{text}");
    let (code, text) = refused("12:");
    assert!(code == Some(2) && text.contains("UID:GID in numbers"), "{text}");
}

/// A value that comes in chunks keeps the server from ending, as long as `--drain` allows.
#[test]
fn it_drains_and_reports_it_everywhere() {
    let mut server = Server::start(&["--memory", "64MiB", "--drain", "60"]);
    let mut link = library(&server);
    let mut staged = link.create(b"long", 5, &PutOptions::default()).expect("it is begun");
    let runtime = runtime();
    let (mut health, mut calls) = runtime
        .block_on(async { (HealthClient::new(channel(&server).await), client(&server).await) });
    runtime.block_on(calls.put(put("hello", "world"))).expect("it is put");
    assert_eq!(server.get("/readyz"), "ready\n");
    server.signal("-TERM");
    until("it is not ready", || server.get("/readyz").contains("not ready: shutting down"));
    assert_eq!(server.get("/healthz"), "ok\n");
    assert_eq!(scrape(&server).value("wirelane_draining"), 1.0);
    until("health says so", || {
        let asked = HealthCheckRequest { service: kv_proto::SERVICE.to_owned() };
        runtime.block_on(health.check(asked)).expect("an answer").into_inner().status == 2
    });
    let refused = runtime.block_on(calls.put(put("more", "world"))).expect_err("it is ending");
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let late = run(&["kv", "--server", &server.links, "--deadline", "1", "get", "hello"]);
    assert_eq!(late.status.code(), Some(3));
    assert!(stderr(&late).contains("shutting down"), "{}", stderr(&late));

    staged.write(b"value").expect("what was begun is finished");
    staged.commit().expect("it is stored");
    let said: Vec<String> = server.log.by_ref().map_while(Result::ok).collect();
    assert!(!said.join("\n").contains("raise --drain"), "{said:?}");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_second_signal_ends_immediately_and_reports_what_was_open() {
    let mut server = Server::start(&["--memory", "64MiB", "--drain", "600"]);
    let mut link = library(&server);
    let _staged = link.create(b"long", 5, &PutOptions::default()).expect("it is begun");
    server.signal("-INT");
    until("it drains", || server.get("/readyz").starts_with("not ready:"));
    server.signal("-TERM");
    let said: Vec<String> = server.log.by_ref().map_while(Result::ok).collect();
    assert!(said.join("\n").contains("a second signal, with 1 links"), "{said:?}");
    assert_eq!(server.exit_code(), Some(3));
}

/// As `timeout` does, which signals the process and its group.
#[test]
fn a_signal_that_is_sent_twice_is_one_request_to_stop() {
    let mut server = Server::start(&["--memory", "64MiB", "--drain", "0.2"]);
    let mut link = library(&server);
    let _staged = link.create(b"long", 5, &PutOptions::default()).expect("it is begun");
    let pid = server.child.id().to_string();
    let kill = Command::new("kill").args(["-TERM", &pid, &pid, &pid]).status();
    assert!(kill.expect("kill runs").success());
    let said: Vec<String> = server.log.by_ref().map_while(Result::ok).collect();
    assert!(!said.join("\n").contains("second signal"), "{said:?}");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn operations_beyond_the_drain_time_are_cut() {
    let mut server = Server::start(&["--memory", "64MiB", "--drain", "0.2"]);
    let mut link = library(&server);
    let _staged = link.create(b"long", 5, &PutOptions::default()).expect("it is begun");
    server.signal("-TERM");
    let said: Vec<String> = server.log.by_ref().map_while(Result::ok).collect();
    assert!(said.join("\n").contains("raise --drain"), "{said:?}");
    assert_eq!(server.exit_code(), Some(0));
}

/// A measurement with two servers continues with the second one when the first ends, without errors.
#[test]
fn a_client_with_two_servers_continues_with_the_next() {
    for transport in ["shm", "tcp"] {
        let first = Server::start(&["--memory", "64MiB"]);
        let second = Server::start(&["--memory", "64MiB"]);
        let servers = format!("{},{}", first.links, second.links);
        let bench = wirelane(&["kv", "--server", &servers, "--transport", transport])
            .args([
                "bench",
                "--duration",
                "4",
                "--read-ratio",
                "0",
                "--depth",
                "8",
                "--clients",
                "3",
                "--rate",
                "1000",
            ])
            .args(["--keys", "50", "--value-size", "20000", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        until("it is at it", || scrape(&first).value("wirelane_store_puts_total") > 500.0);
        first.signal("-TERM");
        assert_eq!(first.exit_code(), Some(0), "{transport}");
        until("it goes on", || scrape(&second).value("wirelane_store_puts_total") > 500.0);
        let output = bench.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{transport}: {}", stderr(&output));
        assert_eq!(json(&stdout(&output))["errors"], 0);
    }
}

#[test]
fn one_client_too_many_is_refused_with_the_limit_and_others_are_not_affected() {
    let server = Server::start(&["--max-clients", "2"]);
    let (mut one, mut two) = (library(&server), library(&server));
    let output = run(&["kv", "--server", &server.links, "get", "k"]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("limit of 2 clients") && text.contains("--max-clients"), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    one.put(b"k", b"v", &PutOptions::default()).expect("it is stored");
    assert_eq!(two.get(b"k").expect("an answer").expect("a value").to_vec(), b"v");
    let seen = scrape(&server);
    assert!(seen.value("wirelane_listener_rejected_total{reason=\"too_many_sessions\"}") >= 1.0);
    assert_eq!(seen.value("wirelane_store_clients_max"), 2.0);
    drop(one);
    let again = run(&["kv", "--server", &server.links, "get", "k"]);
    assert_eq!((again.status.code(), &stdout(&again)[..]), (Some(0), "v"), "{}", stderr(&again));
}

#[test]
fn a_failure_to_start_is_one_line_with_its_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("wrong.yaml");
    std::fs::write(&wrong, "transport:\n  rdma_mtu: 5000\n").expect("a file");
    let wrong = wrong.to_str().expect("a plain path");
    let any = ["serve", "--http", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
    for (more, code, words) in [
        (&["--config", "/nowhere/wirelane.yaml"][..], 3, "/nowhere/wirelane.yaml"),
        (&["--config", wrong], 2, "rdma_mtu is `5000`"),
        (&["--memory", "900000GiB"], 1, "GiB"),
        (&["--memory", "1MiB", "--max-value", "2MiB"], 2, "--max-value"),
    ] {
        let output = run(&[&any[..], more].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {text}");
        assert!(text.contains(words), "{more:?}: {text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{more:?}: {text}");
    }
}
