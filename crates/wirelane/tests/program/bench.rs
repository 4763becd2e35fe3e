//! `wirelane bench`: with a server, locally, and with errors.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// `bench serve`, ended with the test.
struct Bench {
    child: Child,
    address: String,
    _log: Lines<BufReader<ChildStderr>>,
}

impl Bench {
    fn start(more: &[&str]) -> Bench {
        let mut child = wirelane(&["bench", "serve", "--listen", "127.0.0.1:0"])
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = |line: std::io::Result<String>| {
            Some(line.ok()?.strip_prefix("bench ")?.split(' ').next()?.to_owned())
        };
        let address = log.by_ref().find_map(address).expect("an address");
        Bench { child, address, _log: log }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn good(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// One line on stderr, nothing on stdout, and this exit code.
#[track_caller]
fn wrong(arguments: &[&str], code: i32, words: &[&str]) {
    let output = run(arguments);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    assert_eq!(text.trim_end().lines().count(), 1, "one line: {text}");
    assert_eq!(stdout(&output), "");
}

#[test]
fn a_sweep_against_itself_is_a_document_of_the_schema() {
    let text = good(&[
        "bench",
        "bw",
        "--local",
        "--transport",
        "tcp",
        "--sweep",
        "--count",
        "20",
        "--warmup",
        "0",
        "--verify",
        "--json",
    ]);
    let document = report::Document::parse(&text).expect("a document");
    assert_eq!(document.points.len(), 23, "2 B to 8 MiB");
    for point in &document.points {
        assert_eq!((point.operations, point.verified), (20, Some(true)), "{point:?}");
        assert!(point.gbps.is_some_and(|gbps| gbps > 0.0) && point.latency.is_some(), "{point:?}");
        assert!(point.retransmissions.is_some(), "{point:?}");
    }
    let verdict = document.verdict.expect("a verdict");
    assert_eq!(verdict.ratio, None, "loopback has no rate");
}

#[test]
fn the_best_transport_is_used_and_the_reason_printed() {
    let text = good(&["bench", "lat", "--local", "--count", "100", "--warmup", "0"]);
    assert!(
        text.contains("over shared memory") && text.contains("both ends are on one host"),
        "{text}"
    );
    assert!(text.contains("p99.9 µs"), "{text}");
    let csv = good(&[
        "bench", "rate", "--local", "--op", "send", "--count", "100", "--warmup", "0", "--csv",
    ]);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert_eq!(lines[0].split(',').count(), lines[1].split(',').count(), "{csv}");
    assert!(lines[1].starts_with("rate,send,shm,"), "{csv}");
}

#[test]
fn a_server_serves_several_and_ends_on_a_signal() {
    let mut server = Bench::start(&[]);
    std::thread::scope(|scope| {
        let address = &server.address;
        let measure = |_| {
            scope.spawn(move || {
                good(&["bench", "bw", address, "--transport", "tcp", "--time", "0.2", "--json"])
            })
        };
        let all: Vec<_> = (0..3).map(measure).collect();
        for one in all {
            let text = one.join().expect("no panic");
            report::Document::parse(&text).expect("a document");
        }
    });
    let pid = server.child.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().expect("kill");
    let status = server.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn expect_decides_the_exit_code() {
    let measure = |test: &str, expect: &str| {
        run(&[
            "bench",
            test,
            "--local",
            "--transport",
            "tcp",
            "--count",
            "200",
            "--warmup",
            "0",
            "--expect",
            expect,
        ])
    };
    let met = measure("bw", "0.000001Gb/s");
    assert_eq!(met.status.code(), Some(0), "{}", stderr(&met));
    assert!(stdout(&met).contains("expected 0.000001Gb/s: met"), "{}", stdout(&met));
    let missed = measure("bw", "1000000Gb/s");
    assert_eq!(missed.status.code(), Some(1), "{}", stderr(&missed));
    assert!(stdout(&missed).contains("not met"), "{}", stdout(&missed));
    assert_eq!(measure("lat", "1ns").status.code(), Some(1));
    // Loopback has no link rate, so there is no ratio to it.
    let unknown = measure("bw", "90%");
    assert_eq!(unknown.status.code(), Some(3));
    assert!(stderr(&unknown).contains("use Gb/s instead"), "{}", stderr(&unknown));
}

#[test]
fn invalid_usage_is_reported_before_connecting() {
    let nobody = "127.0.0.1:1";
    wrong(&["bench", "lat", nobody, "--depth", "4"], 2, &["one operation in flight"]);
    wrong(&["bench", "bw", nobody, "--op", "atomic", "--size", "64"], 2, &["moves 8 bytes"]);
    wrong(&["bench", "bw", nobody, "--ud"], 2, &["--op send"]);
    wrong(&["bench", "lat", nobody, "--expect", "90%"], 2, &["needs a time"]);
    wrong(&["bench", "bw", nobody, "--expect", "10us"], 2, &["need a share"]);
    wrong(&["bench", "mesh", "--hosts", "a:1"], 2, &["2 to 256 hosts"]);
    wrong(&["bench", "mesh", "--hosts", "a:1,a:1"], 2, &["named twice"]);
    for unknown in [
        &["bench", "bw"][..],
        &["bench", "bw", nobody, "--size", "0"],
        &["bench", "bw", nobody, "--local"],
    ] {
        assert_eq!(run(unknown).status.code(), Some(2), "{unknown:?}");
    }
    wrong(
        &["bench", "serve", "--listen", "0.0.0.0:0"],
        2,
        &["--token-file FILE", "--allow-anonymous"],
    );
}

#[test]
fn an_unreachable_or_unsuitable_server_is_an_error() {
    wrong(&["bench", "bw", "127.0.0.1:1"], 3, &["refused", "wirelane bench serve"]);
    let store = Server::start(&[]);
    wrong(&["bench", "bw", &store.links], 3, &[]);
}

#[test]
fn sizes_over_the_limit_and_missing_devices_are_refused() {
    let server = Bench::start(&["--memory", "1MiB"]);
    let bw = |more: &[&str], words: &[&str]| {
        wrong(&[&["bench", "bw", &server.address], more].concat(), 3, words);
    };
    bw(&["--size", "1GiB", "--transport", "tcp"], &["1048576 are allowed", "smaller size"]);
    bw(&["--device", "mlx5_0"], &["RDMA cannot be used", "/nowhere/libibverbs"]);
    bw(&["--transport", "verbs", "--tool", "perftest"], &["RDMA cannot be used"]);
}

#[test]
fn a_server_that_dies_during_a_run_is_reported_immediately() {
    let mut server = Bench::start(&[]);
    // It measures for longer than `timeout` allows, which would have another exit code.
    let mut client = Command::new("timeout")
        .args(["120", env!("CARGO_BIN_EXE_wirelane"), "bench", "bw", &server.address])
        .args(["--transport", "tcp", "--time", "600"])
        .env("WIRELANE_LIBIBVERBS", "/nowhere/libibverbs.so.1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the client starts");
    // A lane is a separate connection, in addition to the control connection.
    while connections(&server.address) < 2 && matches!(client.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    server.child.kill().expect("it is killed");
    let output = client.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(stderr(&output).trim_end().lines().count(), 1, "{}", stderr(&output));
}

/// The current number of connections of a server.
fn connections(address: &str) -> usize {
    let port = address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let local = format!(":{:04X}", port.expect("a port"));
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let open = table.lines().filter(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        // 01: established.
        columns.len() > 3 && columns[1].ends_with(&local) && columns[3] == "01"
    });
    open.count()
}

#[test]
fn tokens_are_required_and_relayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a mode");
        path.to_str().expect("a plain path").to_owned()
    };
    let line = good(&["token", "new", "ann"]);
    let (known, other) = (file("known", &line), file("other", &good(&["token", "new", "ann"])));
    let server = Bench::start(&["--token-file", &known]);
    let lat = |more: &[&str]| {
        let line = ["bench", "lat", &server.address, "--count", "10", "--transport", "tcp"];
        line.iter().chain(more).map(|word| (*word).to_owned()).collect::<Vec<String>>()
    };
    wrong(&words(&lat(&[])), 3, &[]);
    wrong(&words(&lat(&["--token-file", &other])), 3, &[]);
    good(&words(&lat(&["--token-file", &known])));
    // A server that measures for the client authenticates with the client's token.
    let second = Bench::start(&["--token-file", &known]);
    let hosts = format!("{},{}", server.address, second.address);
    let mesh =
        ["bench", "mesh", "--hosts", &hosts, "--time", "0.05", "--transport", "tcp", "--json"];
    let text = good(&[&mesh[..], &["--token-file", &known]].concat());
    let matrix = report::Document::parse(&text).expect("a document").matrix.expect("a matrix");
    assert!(matrix.failed.is_empty() && matrix.gbps[0][1].is_some(), "{matrix:?}");
    let unknown_callers = Bench::start(&["--token-file", &other]);
    let hosts = format!("{},{}", server.address, unknown_callers.address);
    let mesh = ["bench", "mesh", "--hosts", &hosts, "--time", "0.05", "--transport", "tcp"];
    let output = run(&[&mesh[..], &["--token-file", &known]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", stdout(&output));
}

/// A fake ssh that runs the command locally.
const SSH: &str = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec sh -c \"$1\"\n";

#[test]
fn without_a_server_the_program_is_uploaded_over_ssh_and_removed() {
    let (fake, there) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let ssh = fake.path().join("ssh");
    std::fs::write(&ssh, SSH).expect("a file");
    std::fs::set_permissions(&ssh, PermissionsExt::from_mode(0o700)).expect("a mode");
    let path = format!("{}:/usr/bin:/bin", fake.path().display());
    let mut lat =
        wirelane(&["bench", "lat", "127.0.0.2", "--transport", "tcp", "--count", "50", "--json"]);
    let output = lat.env("PATH", path).env("TMPDIR", there.path()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document = report::Document::parse(&stdout(&output)).expect("a document");
    assert_eq!((document.peer.as_deref(), document.points[0].operations), (Some("127.0.0.2"), 50));
    let left = std::fs::read_dir(there.path()).expect("a folder").count();
    assert_eq!(left, 0, "nothing is left there");
    let no_ssh =
        wirelane(&["bench", "lat", "127.0.0.2"]).env("PATH", "/nowhere").output().expect("it runs");
    assert_eq!(no_ssh.status.code(), Some(3));
    assert!(stderr(&no_ssh).contains("start `wirelane bench serve` there"), "{}", stderr(&no_ssh));
}

#[test]
fn without_rdma_the_comparison_has_only_tcp_and_the_reason() {
    let text = good(&["bench", "compare", "--local", "--time", "0.1"]);
    assert!(text.contains("TCP  ") && text.contains("TCP only: RDMA cannot be used"), "{text}");
}

fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

/// Four hosts on one switch, as network namespaces, and a slow wire between two of them.
struct Namespaces {
    names: Vec<String>,
    bridge: String,
}

impl Namespaces {
    fn new() -> Namespaces {
        let mark = std::process::id();
        let names = (1..=4).map(|number| format!("wl{mark}n{number}")).collect();
        let bridge = format!("wlb{mark}");
        let mesh = Namespaces { names, bridge };
        let ip = |line: &str| sh(&format!("ip {line}"));
        ip(&format!("link add {} type bridge", mesh.bridge));
        ip(&format!("addr add 10.213.7.254/24 dev {}", mesh.bridge));
        ip(&format!("link set {} up", mesh.bridge));
        for (number, name) in (1..).zip(&mesh.names) {
            let port = format!("wl{}p{number}", mark % 100_000);
            ip(&format!("netns add {name}"));
            ip(&format!("link add {port} type veth peer name eth0 netns {name}"));
            ip(&format!("link set {port} master {} up", mesh.bridge));
            ip(&format!("-n {name} addr add 10.213.7.{number}/24 dev eth0"));
            ip(&format!("-n {name} link set eth0 up"));
            ip(&format!("-n {name} link set lo up"));
            sh(&format!(
                "tc -n {name} qdisc add dev eth0 root tbf rate 400mbit burst 256k latency 50ms"
            ));
        }
        mesh.slow_wire(2, 3);
        mesh
    }

    /// A separate wire between two hosts, with an eighth of the rate.
    fn slow_wire(&self, one: usize, other: usize) {
        let (a, b) = (&self.names[one - 1], &self.names[other - 1]);
        sh(&format!("ip -n {a} link add slow type veth peer name slow netns {b}"));
        for (name, peer) in [(a, other), (b, one)] {
            sh(&format!("ip -n {name} link set slow up"));
            sh(&format!("ip -n {name} route add 10.213.7.{peer}/32 dev slow"));
            sh(&format!(
                "tc -n {name} qdisc add dev slow root tbf rate 50mbit burst 64k latency 50ms"
            ));
        }
    }

    fn serve(&self, number: usize) -> Bench {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[number - 1], env!("CARGO_BIN_EXE_wirelane")]);
        command.args(["bench", "serve", "--allow-anonymous", "--listen"]);
        command.arg(format!("10.213.7.{number}:50052"));
        command.env("WIRELANE_LIBIBVERBS", "/nowhere/libibverbs.so.1").stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = |line: std::io::Result<String>| {
            Some(line.ok()?.strip_prefix("bench ")?.split(' ').next()?.to_owned())
        };
        let address = log.by_ref().find_map(address).expect("an address");
        Bench { child, address, _log: log }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
        let _ = Command::new("ip").args(["link", "del", &self.bridge]).status();
    }
}

fn sh(line: &str) {
    let output = Command::new("sh").args(["-c", line]).output().expect("sh runs");
    assert!(output.status.success(), "{line}: {}", stderr(&output));
}

#[test]
fn a_mesh_of_four_hosts_names_the_slow_pair() {
    let tries = Command::new("unshare").args(["--net", "tc", "qdisc"]).output();
    if !tries.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no network namespace can be made here, or there is no tc");
        return;
    }
    let mesh = Namespaces::new();
    let servers: Vec<Bench> = (1..=4).map(|number| mesh.serve(number)).collect();
    let hosts: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
    let hosts = hosts.join(",");
    let line = ["bench", "mesh", "--hosts", &hosts, "--transport", "tcp", "--time", "0.5"];
    let text = good(&[&line[..], &["--json"]].concat());
    let document = report::Document::parse(&text).expect("a document");
    let matrix = document.matrix.expect("a matrix");
    assert!(matrix.failed.is_empty(), "{matrix:?}");
    let slow = &matrix.slow_pairs[0];
    let mut ends = [slow.from.as_str(), slow.to.as_str()];
    ends.sort_unstable();
    assert_eq!(ends, ["10.213.7.2:50052", "10.213.7.3:50052"], "{matrix:?}");
    assert!(matrix.slow_hosts.is_empty(), "{matrix:?}");
    let summary = document.verdict.expect("a verdict").summary;
    assert!(summary.contains("the pair 10.213.7."), "{summary}");
}
