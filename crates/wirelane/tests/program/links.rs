//! Links: `serve` at one end, `connect` at the other.

use std::os::unix::fs::PermissionsExt;
use std::process::ChildStdout;
use std::time::Instant;

use tempfile::TempDir;

use super::*;

/// `connect` to a server, with a short measurement.
fn connect(server: &Server, more: &[&str]) -> Output {
    run(&[&["connect", &server.links, "--seconds", "0.1"], more].concat())
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    assert_eq!(text.trim_end().lines().count(), 1, "one line: {text}");
    assert_eq!(stdout(output), "");
}

/// A folder with settings and keys.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a mode");
        path.to_str().expect("a plain path").to_owned()
    }

    /// A settings file with a key of one repeated digit.
    fn settings_with_key(&self, name: &str, digit: &str, require: bool) -> String {
        let key = self.file(&format!("{name}.key"), &format!("{}\n", digit.repeat(64)));
        let settings = format!(
            "security:\n  rdma:\n    key_file: {key:?}\n    require_authentication: {require}\n"
        );
        self.file(&format!("{name}.yaml"), &settings)
    }
}

#[test]
fn a_link_on_one_host_uses_shared_memory_with_the_reason() {
    let server = Server::start(&[]);
    let output = connect(&server, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for words in [
        &format!("peer       {} (host ", server.links),
        "identity   anonymous; not encrypted",
        "transport  shm: both ends are on one host",
        "\n  shm  up, in use  ",
        "\nnot used\n  verbs: this end has no RDMA: ",
        "64 B write ",
        "64 B round trip ",
        "1 MiB writes ",
        "1 MiB reads ",
        "rail_up",
    ] {
        assert!(text.contains(words), "`{words}` is missing in: {text}");
    }
}

#[test]
fn json_has_the_documented_fields() {
    let server = Server::start(&[]);
    let output = connect(&server, &["--transport", "tcp", "--size", "64KiB", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let link = &answer["link"];
    assert_eq!((&link["transport"], &link["state"]), (&"tcp".into(), &"up".into()));
    assert_eq!(link["peer"], server.links.as_str());
    assert_eq!((&link["initiator"], &link["encrypted"]), (&true.into(), &false.into()));
    for field in ["host", "identity", "policy", "why", "rails", "left_out", "counts", "events"] {
        assert!(!link[field].is_null(), "{field}: {link}");
    }
    let rail = &link["rails"][0];
    assert_eq!((&rail["transport"], &rail["in_use"]), (&"tcp".into(), &true.into()));
    assert!(rail["why"].as_str().is_some_and(|why| why.contains("not enabled")), "{rail}");
    let measured = &answer["measurement"];
    for measurement in ["write_latency", "message_round_trip"] {
        for field in ["bytes", "operations", "p50_ns", "p99_ns"] {
            assert!(measured[measurement][field].as_u64().is_some_and(|n| n > 0), "{measured}");
        }
    }
    for measurement in ["write_bandwidth", "read_bandwidth"] {
        assert_eq!(measured[measurement]["bytes"], 65_536);
        for field in ["in_flight", "operations", "seconds", "bytes_per_second"] {
            assert!(measured[measurement][field].as_f64().is_some_and(|n| n > 0.0), "{measured}");
        }
    }
    let output = connect(&server, &["--json", "--no-measure"]);
    assert_eq!(output.status.code(), Some(2), "--seconds contradicts it");
    let output = run(&["connect", &server.links, "--json", "--no-measure"]);
    assert!(json(&stdout(&output))["measurement"].is_null());
}

#[test]
fn required_rdma_that_is_missing_is_refused_with_the_reason() {
    let server = Server::start(&[]);
    let why = "this end has no RDMA: ";
    refused(&connect(&server, &["--policy", "require"]), &[why, "/nowhere/libibverbs.so.1"]);
    refused(&connect(&server, &["--transport", "verbs"]), &[why]);
    let folder = Folder::new();
    let off = folder.file("off.yaml", "transport:\n  enable_rdma: false\n");
    refused(&connect(&server, &["--policy", "require", "--config", &off]), &["enable_rdma"]);
}

#[test]
fn incompatible_policies_are_refused_and_counted() {
    let folder = Folder::new();
    let settings = "transport:\n  rdma_peer_policies: [\"127.0.0.0/8=off\"]\n";
    let server = Server::start(&["--config", &folder.file("server.yaml", settings)]);
    let output = connect(&server, &["--policy", "require"]);
    refused(&output, &["(policy)", "RDMA, but it is off at"]);
    let listener = &server.status()["listener"];
    assert_eq!(
        (&listener["refused"]["refused"], &listener["refused_hellos"]["policy"]),
        (&1.into(), &1.into())
    );
    assert_eq!(connect(&server, &[]).status.code(), Some(0));
}

#[test]
fn invalid_usage_is_distinguished_from_a_refusal() {
    for wrong in [
        &["connect"][..],
        &["connect", "host:x"],
        &["connect", "localhost", "--size", "5MiB"],
        &["connect", "localhost", "--seconds", "0"],
        &["connect", "localhost", "--transport", "tcp", "--policy", "require"],
        &["connect", "localhost", "--transport", "verbs", "--policy", "off"],
    ] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn an_unreachable_peer_is_exit_code_3() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let output = run(&["connect", &address]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("refused"), "{}", stderr(&output));
    let output = run(&["connect", "no-such-host.invalid"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("look up no-such-host.invalid"), "{}", stderr(&output));
    let server = Server::start(&[]);
    let output = run(&["connect", &server.address]);
    assert_eq!(output.status.code(), Some(3), "HTTP is something else: {}", stderr(&output));
}

#[test]
fn queue_pair_types_that_links_cannot_use_are_refused_by_config_check_too() {
    let folder = Folder::new();
    let server = Server::start(&[]);
    for kind in ["UD", "DC", "DCT"] {
        let file = folder.file("qp.yaml", &format!("transport:\n  rdma_qp_type: {kind}\n"));
        let why = [kind, "allowed: RC", "Links need reliable connections"];
        refused(&run(&["config", "check", &file]), &why);
        let serve =
            ["serve", "--http", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--config", &file];
        for output in [run(&serve), connect(&server, &["--config", &file])] {
            assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
            for word in why {
                assert!(stderr(&output).contains(word), "{}", stderr(&output));
            }
        }
    }
}

#[test]
fn callers_with_the_key_are_accepted_and_others_are_counted_by_reason() {
    let folder = Folder::new();
    let right = folder.settings_with_key("cluster", "a", true);
    let wrong = folder.settings_with_key("other", "b", false);
    let server = Server::start(&["--config", &right]);
    assert!(server.greeting.iter().any(|line| line.contains("clients need the key")));
    let output = connect(&server, &["--config", &right]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("identity   cluster; control connection encrypted"), "{text}");
    refused(
        &connect(&server, &["--config", &wrong]),
        &["(wrong_key)", "a key_file must be the server's"],
    );
    refused(&connect(&server, &[]), &["(unauthenticated)", "settings with its key_file"]);
    let listener = &server.status()["listener"];
    assert_eq!(listener["accepted"], 1);
    assert_eq!(
        (&listener["refused"]["wrong_key"], &listener["refused"]["unauthenticated"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn an_insecure_key_file_is_refused_at_the_start() {
    let folder = Folder::new();
    let serve = |settings: &str| {
        run(&["serve", "--http", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--config", settings])
    };
    let one_line = |output: &Output, code: i32, words: &str| {
        let text = stderr(output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(words) && text.trim_end().lines().count() == 1, "{text}");
    };
    let none = folder.file("none.yaml", "security:\n  rdma:\n    require_authentication: true\n");
    one_line(&serve(&none), 2, "set security.rdma.key_file");
    one_line(&run(&["connect", "localhost", "--config", &none]), 2, "set security.rdma.key_file");
    let open = folder.settings_with_key("open", "a", true);
    let key = folder.0.path().join("open.key");
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).expect("a mode");
    one_line(&serve(&open), 2, "(mode 644) — run `chmod 600 ");
    let short = folder.settings_with_key("short", "", true);
    one_line(&serve(&short), 2, "openssl rand -hex 32");
    std::fs::remove_file(&key).expect("removed");
    one_line(&serve(&open), 3, "open.key");
}

#[test]
fn public_addresses_need_a_key_or_allow_anonymous() {
    let world = "0.0.0.0:0";
    let output = run(&["serve", "--http", "127.0.0.1:0", "--listen", world]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--allow-anonymous"), "{}", stderr(&output));
    let server = Server::start_on(world, &["--allow-anonymous"]);
    let port = server.links.rsplit(':').next().expect("a port").to_owned();
    let local = format!("127.0.0.1:{port}");
    assert_eq!(run(&["connect", &local, "--no-measure"]).status.code(), Some(0));
    drop(server);

    let folder = Folder::new();
    let settings = folder.settings_with_key("cluster", "a", false);
    let server = Server::start_on(world, &["--config", &settings]);
    let port = server.links.rsplit(':').next().expect("a port").to_owned();
    let local = format!("127.0.0.1:{port}");
    refused(&run(&["connect", &local, "--no-measure"]), &["(unauthenticated)"]);
    let output = run(&["connect", &local, "--no-measure", "--config", &settings]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let must = folder.settings_with_key("must", "a", true);
    let both = run(&["serve", "--listen", world, "--allow-anonymous", "--config", &must]);
    assert_eq!(both.status.code(), Some(2));
}

/// A `connect --watch` that is connected, ended with the test.
struct Watcher {
    child: Child,
    link: Value,
    said: Lines<BufReader<ChildStdout>>,
}

impl Watcher {
    fn start(server: &Server) -> Self {
        let arguments = ["connect", &server.links, "--no-measure", "--json", "--watch"];
        let mut child = wirelane(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut first = String::new();
        while !first.ends_with("\n}\n") {
            first += &said.next().expect("a line").expect("text");
            first.push('\n');
        }
        Watcher { child, link: json(&first)["link"].clone(), said }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn status_shows_a_link_while_it_lives_and_its_end() {
    let server = Server::start(&[]);
    let mut watcher = Watcher::start(&server);
    assert_eq!(watcher.link["state"], "up");
    let until = |state: &str, alive: u64| {
        let limit = Instant::now() + Duration::from_secs(30);
        loop {
            let status = server.status();
            let links = status["links"].as_array().expect("a list").iter();
            let seen: Vec<&str> = links.filter_map(|link| link["state"].as_str()).collect();
            let open = &status["listener"]["alive"];
            if seen == [state] && *open == alive {
                return status;
            }
            assert!(Instant::now() < limit, "{seen:?} is not {state}, or {open} not {alive}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let status = until("up", 1);
    assert_eq!(status["links"][0]["transport"], "shm");
    assert_eq!(status["links"][0]["initiator"], false);
    assert_eq!(status["listener"]["accepted"], 1);
    signal(&watcher.child, "-INT");
    assert_eq!(watcher.child.wait().expect("it ends").code(), Some(0));
    // The listener releases a link's connection after the link has ended.
    let status = until("ended", 0);
    let why = status["links"][0]["why"].as_str().expect("a reason");
    assert!(why.contains("the peer ended the link"), "{why}");
}

#[test]
fn sigterm_ends_a_server_and_notifies_its_links() {
    let server = Server::start(&[]);
    let mut watcher = Watcher::start(&server);
    server.signal("-TERM");
    assert_eq!(server.exit_code(), Some(0));
    let last = watcher.said.by_ref().map(|line| line.expect("text")).last().expect("an event");
    assert_eq!(json(&last)["what"], "closed", "{last}");
    assert_eq!(watcher.child.wait().expect("it ends").code(), Some(3));
    let mut said = String::new();
    watcher.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(said.contains("the link ended: the peer ended the link"), "{said}");
}

#[test]
fn events_are_logged_with_peer_rail_and_reason() {
    let mut server = Server::start(&["--log-format", "json"]);
    assert_eq!(connect(&server, &[]).status.code(), Some(0));
    let lines: Vec<Value> =
        (0..3).map(|_| json(&server.log.next().expect("a line").expect("text"))).collect();
    let said: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| {
            (line["level"].as_str().expect("a level"), line["message"].as_str().expect("a text"))
        })
        .collect();
    assert_eq!(said, [("INFO", "rail up"), ("INFO", "link switched"), ("INFO", "link closed")]);
    assert_eq!(
        (&lines[0]["rail"], &lines[0]["why"]),
        (&"shm".into(), &"both ends are on one host".into())
    );
    assert!(
        lines.iter().all(|line| line["peer"].as_str().is_some_and(|peer| peer.starts_with("127.")))
    );
}

/// Opening a FIFO without a writer blocks forever, like a call into a hanging driver.
#[test]
fn a_device_that_hangs_does_not_affect_other_transports() {
    let folder = Folder::new();
    let fifo = folder.0.path().join("libibverbs.so.1");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    let fifo = fifo.to_str().expect("a plain path");
    let server = Server::start(&[]);
    let output = connect(&server, &["--timeout", "0.5", "--libibverbs", fifo]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("does not answer"), "{}", stderr(&output));
    let output = connect(&server, &["--transport", "tcp", "--libibverbs", fifo]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
