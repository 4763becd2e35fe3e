//! The program compared with ibverbs-utils and perftest, on soft-RoCE devices and real wires.
//!
//! Needs the lab. Its wires are shared, so run with `--test-threads=1`, as `cargo xtask test` does.
#![allow(missing_docs, reason = "a test")]

#[path = "lab/capture.rs"]
mod capture;
#[path = "lab/counters.rs"]
mod counters;
#[path = "lab/launch.rs"]
mod launch;
#[path = "lab/bench.rs"]
mod measured;
#[path = "monitoring/prometheus.rs"]
mod prometheus;

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn wire(arguments: &[&str]) {
    let output = run("wire", arguments);
    assert!(output.status.success(), "wire {arguments:?}: {}", text(&output.stderr));
}

fn devices_json() -> Value {
    let output = run(env!("CARGO_BIN_EXE_wirelane"), &["devices", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The facts of one device as `ibv_devinfo -v` prints them: name to value, without the codes it
/// puts in parentheses.
fn devinfo(device: &str) -> BTreeMap<String, String> {
    let output = run("ibv_devinfo", &["-v", "-d", device]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let fact = |line: &str| {
        let (name, value) = line.trim().split_once(":\t")?;
        let value = value.trim().split(" (").next().unwrap_or_default().to_owned();
        Some((name.trim().to_owned(), value))
    };
    printed.lines().filter_map(fact).collect()
}

/// A JSON fact as ibv_devinfo would write it.
fn as_devinfo(name: &str, value: &Value) -> String {
    match (name, value) {
        ("state", Value::String(state)) => format!("PORT_{state}"),
        ("vendor_id" | "max_mr_size" | "page_size_cap" | "max_msg_sz" | "hw_ver", number) => {
            format!("{:#x}", number.as_u64().expect("a number"))
        }
        (
            "bad_pkey_cntr" | "qkey_viol_cntr" | "rx_hash_function" | "rx_hash_fields_mask",
            number,
        ) => {
            format!("{:#x}", number.as_u64().expect("a number"))
        }
        ("device_cap_flags_ex", number) => format!("0x{:X}", number.as_u64().expect("a number")),
        ("device_cap_flags" | "port_cap_flags", number) => {
            format!("{:#010x}", number.as_u64().expect("a number"))
        }
        ("port_cap_flags2", number) => format!("{:#06x}", number.as_u64().expect("a number")),
        ("port_lmc", number) => format!("{:#04x}", number.as_u64().expect("a number")),
        ("active_width", number) => format!("{number}X"),
        ("active_speed", number) => format!("{:.1} Gbps", number.as_f64().expect("a number")),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

#[test]
fn devices_shows_the_same_facts_as_ibv_devinfo() {
    let answer = devices_json();
    let devices = answer["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 4);
    for device in devices {
        let printed = devinfo(device["name"].as_str().expect("a name"));
        let mut ours: BTreeMap<String, Value> = BTreeMap::new();
        let asked = &device["verbs"];
        let port = &asked["ports"][0];
        for part in [asked, &asked["limits"], &asked["extended"], port] {
            ours.extend(part.as_object().expect("facts").clone());
        }
        // Where the field's two names for a thing differ, we keep the C name.
        for (c_name, devinfo_name) in
            [("lid", "port_lid"), ("lmc", "port_lmc"), ("active_speed_gbps", "active_speed")]
        {
            let value = ours.remove(c_name).expect(c_name);
            ours.insert(devinfo_name.to_owned(), value);
        }
        let mut compared = 0;
        for (name, value) in &ours {
            let Some(theirs) = printed.get(name).filter(|_| name != "port") else { continue };
            assert_eq!(&as_devinfo(name, value), theirs, "{name} of {}", device["name"]);
            compared += 1;
        }
        assert!(compared >= 60, "only {compared} facts were found in both");
        for gid in port["gids"].as_array().expect("a list") {
            let name = format!("GID[{:3}]", gid["index"].as_u64().expect("an index"));
            let value =
                format!("{}, {}", as_devinfo("", &gid["gid"]), as_devinfo("", &gid["type"]));
            assert_eq!(printed.get(&name), Some(&value));
        }
        let gids = printed.keys().filter(|name| name.starts_with("GID[")).count();
        assert_eq!(port["gids"].as_array().map(Vec::len), Some(gids));
        files_tell_the_same(device, port);
    }
}

/// Values from files are equal to those of libibverbs.
fn files_tell_the_same(device: &Value, asked: &Value) {
    let read = &device["ports"][0];
    for name in ["state", "link_layer", "lid", "active_mtu"] {
        assert_eq!(read[name], asked[name], "{name} of {}", device["name"]);
    }
    assert_eq!(device["node_guid"], device["verbs"]["node_guid"]);
    let gids = |port: &Value| {
        let gids = port["gids"].as_array().expect("a list").clone();
        gids.into_iter()
            .map(|gid| [&gid["index"], &gid["gid"], &gid["type"], &gid["netdev"]].map(Clone::clone))
            .collect::<Vec<_>>()
    };
    assert_eq!(gids(read), gids(asked), "GIDs of {}", device["name"]);
    let rate = read["rate"]["mbps"].as_f64().expect("a rate");
    let lane = asked["active_speed_gbps"].as_f64().expect("a speed");
    assert_eq!(rate, lane * asked["active_width"].as_f64().expect("a width") * 1000.0);
    assert_eq!(device["driver"], "rxe");
}

#[test]
fn rdma_is_on_with_roce_v2_gids_and_their_net_devices() {
    let answer = devices_json();
    assert_eq!(answer["rdma"]["usable"], true);
    for (number, device) in answer["devices"].as_array().expect("a list").iter().enumerate() {
        let gids = device["ports"][0]["gids"].as_array().expect("a list");
        let address = format!("::ffff:10.77.{}.{}", number / 2, number % 2 + 1);
        let routable = gids.iter().find(|gid| gid["gid"] == address.as_str()).expect("its GID");
        assert_eq!(routable["type"], "RoCE v2");
        assert_eq!(routable["netdev"], format!("v{number}"));
    }
    assert_eq!(answer["choice"]["device"], "rxe0");
    assert_eq!(answer["choice"]["gid"]["index"], 1, "the routable one, not the link-local");
    let version = run(env!("CARGO_BIN_EXE_wirelane"), &["--version"]);
    assert!(text(&version.stdout).ends_with("RDMA: on: rxe0, rxe1, rxe2, rxe3\n"));
}

#[test]
fn a_cut_wire_is_seen_and_when_all_are_cut_rdma_is_off() {
    wire(&["cut", "0"]);
    let one_cut = devices_json();
    wire(&["cut", "1"]);
    let all_cut = devices_json();
    wire(&["repair", "0"]);
    wire(&["repair", "1"]);
    assert_eq!(one_cut["devices"][0]["ports"][0]["state"], "DOWN");
    assert_eq!(one_cut["rdma"]["usable_devices"], serde_json::json!(["rxe2", "rxe3"]));
    assert_eq!(one_cut["choice"]["device"], "rxe2");
    let refused = all_cut["choice"]["refused"].as_str().expect("a reason");
    assert!(refused.contains("rxe0: port 1 is DOWN"), "{refused}");
    assert_eq!(all_cut["rdma"]["code"], "none_usable");
    let why = all_cut["rdma"]["why"].as_str().expect("a reason");
    assert!(why.contains("rxe0: port 1 is DOWN"), "{why}");
    assert_eq!(devices_json()["rdma"]["usable"], true, "mended");
}

#[test]
fn without_permission_every_device_is_listed_with_the_reason() {
    let nodes = |mode| run("sh", &["-c", &format!("chmod {mode} /dev/infiniband/uverbs*")]);
    nodes("600");
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let output = Command::new("setpriv")
        .args(nobody)
        .args([env!("CARGO_BIN_EXE_wirelane"), "devices", "--json"])
        .output()
        .expect("setpriv runs");
    nodes("666");
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)));
    assert_eq!(answer["devices"].as_array().map(Vec::len), Some(4));
    for device in answer["devices"].as_array().expect("a list") {
        let error = device["verbs"]["error"].as_str().expect("an error");
        assert!(error.contains("open /dev/infiniband/uverbs"), "{error}");
        assert!(error.contains("permission denied (errno 13) — give this user"), "{error}");
    }
    assert_eq!(answer["rdma"]["code"], "none_usable");
}

/// A snapshot of this machine, in a file of this name.
fn snapshot(name: &str) -> String {
    let file = std::env::temp_dir().join(name).to_str().expect("a plain path").to_owned();
    let output = run(env!("CARGO_BIN_EXE_wirelane"), &["snapshot", &file, "--force"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    file
}

#[test]
fn netlink_gives_the_same_as_rdma_and_ip() {
    wire(&["cut", "1"]);
    let file = snapshot("netlink.json");
    let (links, ip) = (run("rdma", &["-j", "link"]), run("ip", &["-j", "addr"]));
    wire(&["repair", "1"]);
    let links: Value = serde_json::from_slice(&links.stdout).expect("JSON");
    let document = std::fs::read_to_string(file).expect("the snapshot");
    let answers: Value = serde_json::from_str::<Value>(&document).expect("JSON")["answers"].take();
    let ours = answers["rdma"]["links"].as_array().expect("links");
    let theirs = links.as_array().expect("links");
    assert_eq!((ours.len(), theirs.len()), (4, 4), "{links}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(ours["device"], theirs["ifname"]);
        assert_eq!((&ours["port"], &ours["netdev"]), (&theirs["port"], &theirs["netdev"]));
        let state = if ours["state"] == 4 { "ACTIVE" } else { "DOWN" };
        let phys_state = if ours["phys_state"] == 5 { "LINK_UP" } else { "DISABLED" };
        assert_eq!(
            (state, phys_state),
            (text_of(&theirs["state"]), text_of(&theirs["physical_state"]))
        );
        assert_eq!(ours["protocol"], "roce");
    }
    assert_eq!(ours.iter().filter(|link| link["state"] == 4).count(), 2, "two are cut");
    let ip: Value = serde_json::from_slice(&ip.stdout).expect("JSON");
    let addresses = |interfaces: &Value, name: &str, list: &str, address: &str, prefix: &str| {
        let interfaces = interfaces.as_array().expect("a list").iter();
        let found: Vec<String> = interfaces
            .flat_map(|interface| {
                let list = interface[list].as_array().expect("a list").iter();
                list.map(|one| format!("{} {}/{}", interface[name], one[address], one[prefix]))
            })
            .collect();
        found
    };
    assert_eq!(
        addresses(&answers["interfaces"], "name", "addresses", "address", "prefix"),
        addresses(&ip, "ifname", "addr_info", "local", "prefixlen"),
    );
    assert_eq!(answers["ethtool"]["v0"]["driver"], "veth");
}

#[test]
fn the_netns_mode_is_read_from_netlink() {
    for (mode, is_exclusive) in [("exclusive", true), ("shared", false)] {
        let set = run("rdma", &["system", "set", "netns", mode]);
        assert!(set.status.success(), "{}", text(&set.stderr));
        let document = std::fs::read_to_string(snapshot("netns.json")).expect("the snapshot");
        let document: Value = serde_json::from_str(&document).expect("JSON");
        assert_eq!(document["answers"]["rdma"]["exclusive_netns"], is_exclusive, "{mode}");
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().expect("text")
}

#[test]
fn a_snapshot_gives_the_same_results_elsewhere() {
    let program = env!("CARGO_BIN_EXE_wirelane");
    let file = snapshot("facts.json");
    let text_here = text(&run(program, &["devices", "--wide"]).stdout);
    let text_there = text(&run(program, &["devices", "--wide", "--root", &file]).stdout);
    // libibverbs and libfabric are not queried for another machine.
    let facts = text_here.lines().take_while(|line| !line.starts_with("libfabric"));
    let facts: Vec<&str> = facts.filter(|line| !line.starts_with("chosen")).collect();
    assert_eq!(facts, text_there.lines().collect::<Vec<_>>());
    let there = run(program, &["devices", "--json", "--root", &file]);
    let mut there: Value = serde_json::from_slice(&there.stdout).expect("JSON");
    let mut here = devices_json();
    for answer in [&mut here, &mut there] {
        // These change while they are read.
        answer["host"]["uptime_s"].take();
        for netdev in answer["netdevs"].as_array_mut().expect("a list") {
            netdev["bytes"].take();
        }
        for device in answer["devices"].as_array_mut().expect("a list") {
            device["verbs"].take();
            for counter in device["ports"][0]["counters"].as_array_mut().expect("a list") {
                counter["value"].take();
            }
        }
    }
    for part in ["host", "devices", "netdevs", "pci"] {
        assert_eq!(here[part], there[part], "{part}");
    }
    assert_eq!(there["devices"].as_array().map(Vec::len), Some(4));

    let doctor = |root: &[&str]| {
        let output = run(program, &[&["doctor", "--json"], root].concat());
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
        let findings = answer["findings"].as_array().expect("a list").iter();
        let told = |finding: &Value| format!("{} {}", finding["check"], finding["severity"]);
        (output.status.code(), findings.map(told).collect::<Vec<_>>())
    };
    assert_eq!(doctor(&[]), doctor(&["--root", &file]));

    let metrics = |root: &[&str]| {
        let output =
            run(program, &[&["exporter", "--once", "--no-gpu", "--no-host"], root].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        // Counters change while they are read: compare names, not values.
        let series = |line: &str| Some(line.rsplit_once(' ')?.0.to_owned());
        let told: Vec<String> = text(&output.stdout).lines().filter_map(series).collect();
        told.into_iter()
            .filter(|line| line.contains("rdma_") || line.contains("port_info"))
            .collect::<Vec<_>>()
    };
    let here = metrics(&[]);
    assert!(here.iter().any(|series| series.starts_with("rdma_port_state{")), "{here:?}");
    assert_eq!(here, metrics(&["--root", &file]));
}

/// ib_write_bw from rxe0 to rxe1: the client's exit code, the server's, and what the client printed.
/// 124 would be our own time limit, not an answer of perftest's.
fn write_bandwidth() -> (Option<i32>, Option<i32>, String) {
    const TEST: &[&str] = &["120", "ib_write_bw", "-F", "-x", "1", "-s", "65536", "-n", "100"];
    let mut server = Command::new("timeout").args(TEST).args(["-d", "rxe1"]).spawn().expect("runs");
    wait_for_listener();
    let client = run("timeout", &[TEST, &["-d", "rxe0", "10.77.0.2"]].concat());
    let server = server.wait().expect("it ends");
    let printed = text(&client.stdout) + &text(&client.stderr);
    (client.status.code(), server.code(), printed)
}

/// Until perftest's server listens on its port 18515: connecting to see would be taken for a client. A connection of the
/// server before it may still be listed with that port, but not as one that listens, state 0A.
fn wait_for_listener() {
    let limit = Instant::now() + Duration::from_secs(60);
    let is_listener = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        matches!(columns[..], [_, local, _, "0A", ..] if local.ends_with(":4853"))
    };
    let listens = || {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
        tables.into_iter().flatten().any(|table| table.lines().any(is_listener))
    };
    while !listens() {
        assert!(Instant::now() < limit, "perftest's server did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn bytes_sent(netdev: &str) -> u64 {
    let file = format!("/sys/class/net/{netdev}/statistics/tx_bytes");
    std::fs::read_to_string(file).expect("a counter").trim().parse().expect("a number")
}

/// A server's process, ended with the test.
struct Server(std::process::Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_link_uses_rdma_where_it_is_required_and_names_the_ports() {
    let settings = std::env::temp_dir().join("one-rail.yaml");
    std::fs::write(&settings, "transport:\n  rdma_device: rxe0\n").expect("a file");
    let settings = settings.to_str().expect("a plain path");
    let program = env!("CARGO_BIN_EXE_wirelane");
    let serve = ["serve", "--memory", "64MiB", "--config", settings];
    let server = Command::new(program).args(serve).spawn();
    let _server = Server(server.expect("the server starts"));
    let connect = ["connect", "127.0.0.1", "--policy", "require", "--config", settings, "--json"];
    let limit = Instant::now() + Duration::from_secs(60);
    let output = loop {
        let output = run(program, &connect);
        // No server listens yet.
        if output.status.code() != Some(3) || Instant::now() > limit {
            break output;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let link = &answer["link"];
    assert_eq!(
        (&link["transport"], &link["policy"]),
        (&"verbs".into(), &"require".into()),
        "{link}"
    );
    let port = &link["rails"][0]["ours"];
    assert_eq!((&port["device"], &port["gid"]), (&"rxe0".into(), &"::ffff:10.77.0.1".into()));
    assert!(answer["measurement"]["write_bandwidth"]["bytes_per_second"].as_f64() > Some(0.0));
    // The link has ended, and its traffic is still reported.
    let scrape = run("curl", &["-sS", "--max-time", "20", "http://127.0.0.1:8080/metrics"]);
    let scrape = text(&scrape.stdout);
    for counted in [
        "rdma_transmit_payload_bytes_total",
        "rdma_receive_payload_bytes_total",
        "rdma_send_operations_total",
        "rdma_recv_operations_total",
        "rdma_send_latency_ns{quantile=\"0.5\"}",
    ] {
        let name = format!("wirelane_{counted} ");
        let value = scrape.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok());
        assert!(value.is_some_and(|value| value > 0), "{counted}: {scrape}");
    }
    assert!(scrape.contains("wirelane_rdma_rails_up{device=\"rxe0\"} "), "{scrape}");
}

/// Settings with one device, so that both ends have another and the wire is used.
fn one_device(device: &str) -> String {
    let file = std::env::temp_dir().join(format!("{device}-only.yaml"));
    std::fs::write(&file, format!("transport:\n  rdma_device: {device}\n")).expect("a file");
    file.to_str().expect("a plain path").to_owned()
}

fn packets_sent(device: &str) -> u64 {
    let file = format!("/sys/class/infiniband/{device}/ports/1/hw_counters/sent_pkts");
    std::fs::read_to_string(file).expect("a counter").trim().parse().expect("a number")
}

#[test]
fn the_store_is_used_over_verbs_and_the_devices_count_it() {
    let program = env!("CARGO_BIN_EXE_wirelane");
    let (near, far) = (one_device("rxe0"), one_device("rxe1"));
    // The default pool, which is registered at the start.
    let serve =
        ["serve", "--listen", "127.0.0.1:50077", "--http", "127.0.0.1:8077", "--config", &far];
    let _server = Server(Command::new(program).args(serve).spawn().expect("the server starts"));
    let kv = |arguments: &[&str]| {
        let way = ["kv", "--server", "127.0.0.1:50077", "--transport", "verbs", "--config", &near];
        run(program, &[&way, arguments].concat())
    };
    let limit = Instant::now() + Duration::from_secs(120);
    loop {
        let output = kv(&["put", "k", "hello"]);
        if output.status.success() {
            break;
        }
        assert!(Instant::now() < limit, "{}", text(&output.stderr));
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(text(&kv(&["get", "k"]).stdout).trim_end(), "hello");
    let before = packets_sent("rxe1");
    let bench = kv(&["bench", "--ops", "300", "--keys", "50", "--value-size", "4096", "--json"]);
    let answer: Value = serde_json::from_slice(&bench.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&bench.stderr)));
    assert_eq!((&answer["transport"], &answer["errors"]), (&"verbs".into(), &0.into()), "{answer}");
    let sent = packets_sent("rxe1") - before;
    assert!(sent > 300, "{sent} packets for 300 values");
}

#[test]
fn perftest_runs_across_a_wire_and_fails_when_it_loses_everything() {
    let before = bytes_sent("v0");
    let (client, server, printed) = write_bandwidth();
    assert_eq!((client, server), (Some(0), Some(0)), "{printed}");
    assert!(printed.contains(" 65536      100"), "{printed}");
    let sent = bytes_sent("v0") - before;
    assert!(sent > 100 * 65_536, "only {sent} bytes crossed the wire");

    wire(&["loss", "0", "100%"]);
    // While the peer's link address is remembered, perftest connects and then hangs: it asks for 7
    // retries, which soft-RoCE takes for endless. Forgotten, it cannot connect, and says so.
    assert!(run("ip", &["neigh", "flush", "all"]).status.success());
    let (client, server, printed) = write_bandwidth();
    wire(&["repair", "0"]);
    assert_eq!((client, server), (Some(1), Some(1)), "{printed}");
    assert!(printed.contains("Unable to Connect"), "{printed}");
}
