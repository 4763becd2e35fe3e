//! The store: `serve` in one process, `kv` in others.

use std::path::Path;
use std::process::Output;
use std::time::Instant;

use tempfile::TempDir;

use super::exposition::Scrape;
use super::lifecycle::until;
use super::*;

/// A store, and the transport to it.
struct Store {
    server: Server,
    transport: &'static str,
}

impl Store {
    fn start(transport: &'static str, memory: &str) -> Self {
        Store { server: Server::start(&["--memory", memory]), transport }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let way = ["kv", "--server", &self.server.links, "--transport", self.transport];
        wirelane(&[&way, arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// Runs a command that must succeed with an empty stderr; returns its output.
    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{arguments:?}");
        stdout(&output)
    }

    /// Runs a command that must fail with this code and one line with these words.
    #[track_caller]
    fn refused(&self, arguments: &[&str], code: i32, words: &[&str]) {
        refused(&self.run(arguments), code, words);
    }
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(stdout(output), "", "nothing on stdout");
    assert_eq!(text.trim_end().lines().count(), 1, "one line: {text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

fn each(test: impl Fn(&Store)) {
    for transport in ["shm", "tcp"] {
        test(&Store::start(transport, "64MiB"));
    }
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("a plain path").to_owned()
}

#[test]
fn get_prints_what_put_stored() {
    each(|store| {
        assert_eq!(store.ok(&["put", "key", "value"]), "");
        assert_eq!(store.ok(&["get", "key"]), "value");
        assert_eq!(store.ok(&["put", "key", "", "--json"]).matches("version").count(), 1);
        assert_eq!(store.ok(&["get", "key"]), "", "a value of no bytes is a value");
        assert_eq!(store.ok(&["exists", "key"]), "");
        assert_eq!(store.ok(&["put", "key", "-5"]), "");
        assert_eq!(store.ok(&["put", "key", "--", "--dashed"]), "");
        assert_eq!(store.ok(&["get", "key"]), "--dashed");
        assert_eq!(store.ok(&["get", "key", "--offset", "2", "--length", "4"]), "dash");
        store.refused(&["get", "key", "--offset", "99"], 1, &["8 bytes", "--offset is 99"]);
        assert_eq!(store.ok(&["delete", "key"]), "");
        store.refused(&["get", "key"], 1, &["no such key: key"]);
        store.refused(&["delete", "key"], 1, &["no such key: key"]);
        store.refused(&["stat", "key"], 1, &["no such key: key"]);
        assert_eq!(store.run(&["exists", "key"]).status.code(), Some(1));
    });
}

#[test]
fn a_value_ends_with_a_newline_on_a_terminal_only() {
    let store = Store::start("tcp", "64MiB");
    for (value, shown) in [("value", "value\r\n"), ("line\n", "line\r\n"), ("", "")] {
        store.ok(&["put", "key", value]);
        assert_eq!(store.ok(&["get", "key"]), value);
        let program = env!("CARGO_BIN_EXE_wirelane");
        let get = format!("{program} kv --server {} get key", store.server.links);
        let mut script = Command::new("script");
        script.args(["-qec", &get, "/dev/null"]).stdin(Stdio::null());
        let output = script.output().expect("script runs");
        assert_eq!((output.status.code(), &*stdout(&output)), (Some(0), shown));
    }
}

#[test]
fn get_prints_json_with_the_encoding() {
    each(|store| {
        let stored = json(&store.ok(&["put", "key", "a\u{85}\u{202e}\n\"é", "--json"]));
        let printed = store.ok(&["get", "key", "--json"]);
        assert!(!printed.contains(['\u{85}', '\u{202e}']), "{printed}");
        let got = json(&printed);
        assert_eq!((&got["key"], &got["length"]), (&"key".into(), &stored["length"]));
        assert_eq!(got["version"], stored["version"]);
        assert_eq!(
            (&got["encoding"], &got["value"]),
            (&"utf-8".into(), &"a\u{85}\u{202e}\n\"é".into())
        );
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("binary"), [0xff, 0, 1]).expect("a file");
        store.ok(&["put", "binary", "-f", &path(&folder, "binary")]);
        let got = json(&store.ok(&["get", "binary", "--json"]));
        assert_eq!((&got["encoding"], &got["value"]), (&"base64".into(), &"/wAB".into()));
        let part = json(&store.ok(&["get", "binary", "--json", "--offset", "2"]));
        assert_eq!((&part["encoding"], &part["value"]), (&"utf-8".into(), &"\u{1}".into()));
        assert_eq!(part["length"], 3, "of the whole value");
        store.refused(&["get", "none", "--json"], 1, &["no such key"]);
        assert_eq!(store.run(&["get", "key", "--json", "-o", "x"]).status.code(), Some(2));
    });
}

#[test]
fn common_spellings_work() {
    let store = Store::start("tcp", "64MiB");
    let kv = |arguments: &[&str]| {
        let output = run(&[&["kv"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    let url = format!("http://{}", store.server.links);
    kv(&["--server", &url, "set", "k", "v"]);
    assert_eq!(kv(&["--server", &url, "--deadline", "5s", "get", "k"]), "v");
    kv(&["--server", &url, "--deadline", "5000ms", "del", "k"]);
    assert_eq!(store.ok(&["ls"]), "");
    let secure = run(&["kv", "--server", "https://localhost", "get", "k"]);
    assert_eq!(secure.status.code(), Some(2));
}

#[test]
fn verbose_prints_the_transport() {
    each(|store| {
        let output = store.run(&["-v", "put", "key", "value"]);
        let text = stderr(&output);
        assert!(text.contains("stored key: 5 bytes, version "), "{text}");
        assert!(text.contains(&format!("over {} (", store.transport)), "{text}");
        for arguments in [&["get", "key"][..], &["stat", "key"], &["ls"], &["delete", "key"]] {
            let text = stderr(&store.run(&[arguments, &["-v"]].concat()));
            assert!(text.contains(&format!("over {} (", store.transport)), "{text}");
        }
    });
}

#[test]
fn stdin_files_and_pipes_are_stored() {
    let store = Store::start("shm", "64MiB");
    let folder = tempfile::tempdir().expect("a folder");
    let long: Vec<u8> = (0..9_000_000_u32).map(|at| (at / 7) as u8).collect();
    for (name, value) in [("empty", &long[..0]), ("short", &long[..77]), ("long", &long[..])] {
        std::fs::write(folder.path().join(name), value).expect("a file");
        let file = path(&folder, name);
        store.ok(&["put", "from-file", "-f", &file]);
        let shell = |script: &str| {
            let kv = format!("kv --server {} --transport shm", store.server.links);
            let program = env!("CARGO_BIN_EXE_wirelane");
            let script = script.replace("KV", &format!("{program} {kv}")).replace("FILE", &file);
            let status = Command::new("sh").args(["-c", &script]).status().expect("sh runs");
            assert!(status.success(), "{script}");
        };
        // Without a length, and with one.
        shell("cat FILE | KV put from-pipe -");
        shell("KV put redirected - <FILE");
        for key in ["from-file", "from-pipe", "redirected"] {
            assert!(store.run(&["get", key]).stdout == value, "{key}, {name}");
        }
    }
    store.refused(&["put", "k", "-f", "/nowhere/file"], 3, &["read /nowhere/file"]);
    store.refused(&["put", "k", "-f", "/"], 2, &["directory"]);
    assert_eq!(store.run(&["put", "k"]).status.code(), Some(2));
    assert_eq!(store.run(&["put", "k", "v", "-f", "x"]).status.code(), Some(2));
}

#[test]
fn a_file_longer_than_the_buffer_is_stored_and_read() {
    let value: Vec<u8> = (0..50_u32 << 20).map(|at| ((at / 5) ^ (at >> 13)) as u8).collect();
    for transport in ["shm", "tcp"] {
        let store = Store::start(transport, "64MiB");
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (path(&folder, "from"), path(&folder, "to"));
        std::fs::write(&from, &value).expect("a file");
        store.ok(&["--buffer", "16MiB", "put", "long", "-f", &from]);
        store.ok(&["--buffer", "16MiB", "get", "long", "-o", &to]);
        assert!(std::fs::read(&to).expect("a file") == value, "{transport}");
        let part = store.run(&["get", "long", "--offset", "30000000", "--length", "12345678"]);
        assert!(part.stdout == value[30_000_000..42_345_678], "{transport}");
        assert_eq!(files(folder.path()), ["from", "to"], "nothing is left beside them");
    }
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_is_replaced_only_by_a_whole_value() {
    let store = Store::start("shm", "64MiB");
    let folder = tempfile::tempdir().expect("a folder");
    let file = path(&folder, "file");
    std::fs::write(&file, "old").expect("a file");
    store.refused(&["get", "missing", "-o", &file], 1, &["no such key"]);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "old");
    store.ok(&["put", "key", "new"]);
    store.ok(&["get", "key", "-o", &file]);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "new");
    store.ok(&["get", "key", "-o", "/dev/null"]);
    store.refused(&["get", "key", "-o", "/nowhere/file"], 3, &["write /nowhere/file"]);
    assert_eq!(files(folder.path()), ["file"]);
}

#[test]
fn a_closed_pipe_ends_a_get() {
    let store = Store::start("shm", "64MiB");
    let folder = tempfile::tempdir().expect("a folder");
    let file = path(&folder, "file");
    std::fs::write(&file, vec![7; 20 << 20]).expect("a file");
    store.ok(&["put", "key", "-f", &file]);
    let mut child = store.command(&["get", "key"]).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut begin = [0; 10];
    child.stdout.take().expect("piped").read_exact(&mut begin).expect("some bytes");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_failed_condition_is_exit_code_1() {
    let store = Store::start("shm", "64MiB");
    let stored = json(&store.ok(&["put", "k", "one", "--if-absent", "--json"]));
    let version = stored["version"].to_string();
    assert_eq!((&stored["length"], &stored["replaced"]), (&3.into(), &false.into()));
    store.refused(&["put", "k", "two", "--if-absent"], 1, &["exists already", &version]);
    store.ok(&["put", "k", "three", "--if-version", &version]);
    store.refused(&["put", "k", "four", "--if-version", &version], 1, &["has version"]);
    store.refused(&["delete", "k", "--if-version", &version], 1, &["has version"]);
    store.refused(&["put", "new", "x", "--if-version", "7"], 1, &["no such key"]);
    assert_eq!(
        store.run(&["put", "k", "x", "--if-absent", "--if-version", "7"]).status.code(),
        Some(2)
    );
    assert_eq!(store.ok(&["get", "k"]), "three");
}

#[test]
fn a_value_expires() {
    let store = Store::start("shm", "64MiB");
    store.ok(&["put", "short", "lived", "--ttl", "300ms"]);
    store.ok(&["put", "long", "lived", "--ttl", "1h"]);
    let metadata = json(&store.ok(&["stat", "long", "--json"]));
    assert!(metadata["expires_in_ms"].as_u64().is_some_and(|left| left > 3_500_000), "{metadata}");
    assert!(store.ok(&["stat", "long"]).contains("in 0 h 59 min"));
    let begun = Instant::now();
    while store.run(&["exists", "short"]).status.code() == Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it lives on");
    }
    store.refused(&["get", "short"], 1, &["no such key"]);
    assert_eq!(store.run(&["put", "k", "v", "--ttl", "30"]).status.code(), Some(2));
}

#[test]
fn stat_and_ls_show_keys_and_sizes() {
    each(|store| {
        store.ok(&["mput", "b/2=22", "a=1", "b/1=1", "b/3=333"]);
        assert_eq!(store.ok(&["ls"]), "a\nb/1\nb/2\nb/3\n");
        assert_eq!(store.ok(&["ls", "b/"]), "b/1\nb/2\nb/3\n");
        assert_eq!(store.ok(&["ls", "c"]), "");
        let metadata = json(&store.ok(&["stat", "b/2", "--json"]));
        assert_eq!((&metadata["key"], &metadata["length"]), (&"b/2".into(), &2.into()));
        assert!(
            metadata["version"].as_u64().is_some() && metadata["expires_in_ms"].is_null(),
            "{metadata}"
        );
        let version = metadata["version"].to_string();
        let long = store.ok(&["ls", "-l", "b/2"]);
        assert_eq!(long, format!("2  {version}  never  b/2\n"));
        let rows = json(&store.ok(&["ls", "--json"]));
        assert_eq!(rows.as_array().map(Vec::len), Some(4));
        assert_eq!(rows[1]["key"], "b/1");
        let lines = store.ok(&["ls", "--unsorted", "--json"]);
        let mut keys: Vec<String> =
            lines.lines().map(|line| json(line)["key"].to_string()).collect();
        keys.sort();
        assert_eq!(keys, ["\"a\"", "\"b/1\"", "\"b/2\"", "\"b/3\""]);
    });
}

#[test]
fn many_keys_are_put_and_got_together() {
    each(|store| {
        store.ok(&["mput", "x=1", "y=two words", "z="]);
        assert_eq!(store.ok(&["mget", "y", "z", "x"]), "two words\n\n1\n");
        let output = store.run(&["mget", "x", "nothing", "y"]);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(stdout(&output), "1\ntwo words\n");
        assert!(stderr(&output).contains("no such key: nothing"));
        let rows = json(&store.ok(&["mget", "y", "z", "--json"]));
        assert_eq!(rows[0]["value_base64"], "dHdvIHdvcmRz");
        assert_eq!(rows[1]["value_base64"], "");
        let rows = json(&stdout(&store.run(&["mget", "nothing", "--json"])));
        assert!(rows[0]["value_base64"].is_null() && rows[0]["version"].is_null(), "{rows}");
        let folder = tempfile::tempdir().expect("a folder");
        store.ok(&["mput", "../a b=escapes"]);
        store.ok(&["mget", "x", "../a b", "-d", folder.path().to_str().expect("a plain path")]);
        assert_eq!(files(folder.path()), ["%2E.%2Fa%20b", "x"]);
        let output = store.run(&["mput", "x=2", "new=1", "--if-absent", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let rows = json(&stdout(&output));
        assert!(rows[0]["error"].as_str().is_some_and(|why| why.contains("exists")), "{rows}");
        assert!(rows[1]["version"].is_u64(), "{rows}");
        assert_eq!(store.ok(&["delete", "x", "y"]), "");
        store.refused(&["mput", "novalue"], 2, &["KEY=VALUE"]);
    });
}

#[test]
fn values_beyond_the_buffer_are_fetched_in_sequence() {
    let store = Store::start("shm", "64MiB");
    let (folder, out) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    std::fs::write(folder.path().join("file"), vec![b'x'; 3 << 20]).expect("a file");
    for key in ["a", "b", "c"] {
        store.ok(&["put", key, "-f", &path(&folder, "file")]);
    }
    let to = out.path().to_str().expect("a plain path");
    store.ok(&["--buffer", "4MiB", "mget", "a", "b", "c", "-d", to]);
    assert_eq!(files(out.path()), ["a", "b", "c"]);
    assert!(std::fs::read(out.path().join("c")).expect("a file") == vec![b'x'; 3 << 20]);
}

#[test]
fn binary_values_are_not_printed_in_a_list() {
    let store = Store::start("shm", "64MiB");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("binary"), [0xff, 0, 1]).expect("a file");
    store.ok(&["put", "binary", "-f", &path(&folder, "binary")]);
    store.refused(&["mget", "binary"], 2, &["not text", "--json", "--directory DIR"]);
    assert_eq!(store.run(&["get", "binary"]).stdout, [0xff, 0, 1]);
}

#[test]
fn keys_are_any_bytes() {
    let store = Store::start("shm", "64MiB");
    store.ok(&["--hex-key", "put", "ff000a", "value"]);
    store.ok(&["put", "schlüssel", "value"]);
    assert_eq!(store.ok(&["get", "--hex-key", "ff000a"]), "value");
    assert_eq!(store.ok(&["ls"]), "schlüssel\n\\xff\\x00\\x0a\n");
    let rows = json(&store.ok(&["ls", "--json"]));
    assert_eq!((&rows[0]["key"], &rows[1]["key_hex"]), (&"schlüssel".into(), &"ff000a".into()));
    store.refused(&["--hex-key", "get", "xyz"], 2, &["hexadecimal"]);
    store.refused(&["get", &"k".repeat(5 << 10)], 2, &["5120 bytes", "4096"]);
    store.refused(&["put", &"k".repeat(5 << 10), "v"], 2, &["5120 bytes", "4096"]);
    store.refused(&["get", ""], 2, &["empty"]);
    store.ok(&["put", &"k".repeat(4 << 10), "v"]);
}

#[test]
fn a_value_longer_than_the_store_is_refused() {
    let store = Store::start("shm", "8MiB");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("long"), vec![7; 9 << 20]).expect("a file");
    let file = path(&folder, "long");
    store.refused(&["put", "k", "-f", &file], 1, &["limit of 8388608 bytes", "--memory"]);
    store.refused(&["get", "k"], 1, &["no such key"]);
}

#[test]
fn an_unreachable_store_is_reported_with_the_fix() {
    let words = ["127.0.0.1:1", "refused", "wirelane serve --listen 127.0.0.1:1"];
    for command in [&["get", "k"][..], &["put", "k", "v"], &["ls"], &["bench"], &["exists", "k"]] {
        let way = ["kv", "--server", "127.0.0.1:1", "--transport", "tcp"];
        refused(&run(&[&way, command].concat()), 3, &words);
    }
    let both = run(&["kv", "--server", "127.0.0.1:1,127.0.0.1:2", "get", "k"]);
    refused(&both, 3, &["127.0.0.1:1", "127.0.0.1:2"]);
    let nowhere = run(&["kv", "--server", "nowhere.invalid:1", "get", "k"]);
    refused(&nowhere, 3, &["nowhere.invalid"]);
    // Missing RDMA is a refusal.
    let store = Store::start("verbs", "8MiB");
    store.refused(&["get", "k"], 1, &["this end has no RDMA"]);
    // A server that is not a store.
    let http = Store::start("shm", "8MiB").server;
    let other = run(&["kv", "--server", &http.address, "--deadline", "5", "get", "k"]);
    refused(&other, 3, &[&http.address]);
}

#[test]
fn the_next_server_is_used_and_older_spellings_work() {
    let store = Store::start("shm", "64MiB");
    store.ok(&["put", "k", "v"]);
    let links = &store.server.links;
    let several = format!("127.0.0.1:1,{links}");
    assert_eq!(stdout(&run(&["kv", "--server", &several, "get", "k"])), "v");
    let url = format!("http://{links}");
    let old = run(&["kv", "--server-addr", &url, "--buffer-mb", "8", "get", "k"]);
    assert_eq!(stdout(&old), "v", "{}", stderr(&old));
    let help = stdout(&run(&["kv", "--help"]));
    assert!(!help.contains("server-addr") && !help.contains("buffer-mb"), "{help}");
    assert!(help.contains("Exit codes:") && help.contains("--server"), "{help}");
}

#[test]
fn bench_verifies_values_and_prints_rates() {
    each(|store| {
        for (ratio, op, depth) in [("1.0", "get", "1"), ("0.0", "put", "16"), ("0.5", "mixed", "7")]
        {
            let ask = ["bench", "--ops", "3000", "--value-size", "4096", "--keys", "100", "--json"];
            let more =
                ["--read-ratio", ratio, "--depth", depth, "--clients", "2", "--dist", "zipf"];
            let report = json(&store.ok(&[&ask[..], &more].concat()));
            assert_eq!(report["transport"], store.transport);
            assert_eq!((&report["op"], &report["ops"]), (&op.into(), &3000.into()));
            assert_eq!((&report["value_size"], &report["clients"]), (&4096.into(), &2.into()));
            assert_eq!((&report["errors"], &report["dist"]), (&0.into(), &"zipf".into()));
            let verified = report["verified"].as_u64().expect("a number");
            match op {
                "get" => assert_eq!(verified, 3000),
                "put" => assert_eq!(verified, 0),
                _ => assert!((1000..2000).contains(&verified), "{report}"),
            }
            for field in ["seconds", "ops_per_s", "bytes_per_s", "server_cpu_s"] {
                assert!(report[field].as_f64().is_some_and(|n| n > 0.0), "{field}: {report}");
            }
            let latency = |field: &str| report["latency_us"][field].as_f64().expect("a number");
            let quantiles = ["p50", "p99", "p999", "max"].map(latency);
            assert!(quantiles[0] > 0.0 && quantiles.is_sorted(), "{report}");
            assert!(report["why"].as_str().is_some_and(|why| !why.is_empty()), "{report}");
        }
    });
}

/// A store that stops for a second delays the requests that are due then, and those behind them.
#[test]
fn a_stall_of_the_store_is_in_the_latency_of_a_fixed_rate() {
    let store = Store::start("tcp", "64MiB");
    let load = ["bench", "--rate", "100", "--duration", "5s", "--read-ratio", "1", "--keys", "10"];
    let mut bench = store.command(&[&load[..], &["--json"]].concat());
    let bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let hits = || Scrape::read(&store.server.get("/metrics")).value("wirelane_store_hits_total");
    until("it is at it", || hits() > 10.0);
    let stop = Duration::from_secs(1);
    store.server.signal("-STOP");
    std::thread::sleep(stop);
    store.server.signal("-CONT");
    let output = bench.wait_with_output().expect("it ends");
    let report = json(&stdout(&output));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!((&report["ops"], &report["errors"]), (&500.into(), &0.into()), "all that were due");
    assert_eq!(report["intended_ops_per_s"], 100.0);
    // 50 requests were due in the first half of the stop, and waited for the second. They are a tenth of all.
    let p99 = report["latency_us"]["p99"].as_f64().expect("a number");
    assert!(p99 >= stop.as_secs_f64() * 1e6 / 2.0, "{report}");
}

#[test]
fn a_fixed_rate_is_kept_by_all_clients_together() {
    let store = Store::start("shm", "64MiB");
    let load = ["bench", "--rate", "2000", "--ops", "1000", "--clients", "3", "--depth", "4"];
    let report = json(&store.ok(&[&load[..], &["--warmup", "0.1", "--json"]].concat()));
    assert_eq!((&report["ops"], &report["errors"]), (&1000.into(), &0.into()));
    // The last of them is due after 999 intervals.
    assert!(report["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.49), "{report}");
    let text = store.ok(&["bench", "--rate", "500", "--ops", "50"]);
    assert!(text.contains("ops/s of 500 intended"), "{text}");
    assert!(text.contains("latency from the intended start"), "{text}");
    let free = json(&store.ok(&["bench", "--ops", "50", "--json"]));
    assert!(free["intended_ops_per_s"].is_null(), "{free}");
}

#[test]
fn bench_reports_errors() {
    let store = Store::start("shm", "64MiB");
    store.ok(&["bench", "--fill-only", "--keys", "3", "--value-size", "1000"]);
    assert_eq!(store.ok(&["ls"]).lines().count(), 3);
    let text = store.ok(&["bench", "--duration", "0.2", "--warmup", "0.1", "--keys", "3"]);
    assert!(
        text.contains("ops/s") && text.contains("over shm (") && text.contains("0 errors"),
        "{text}"
    );
    let many =
        ["bench", "--keys", "40000", "--value-size", "4096", "--ops", "2000", "--read-ratio", "1"];
    let output = store.run(&many);
    assert_eq!(output.status.code(), Some(1), "not all of them have room");
    assert!(stderr(&output).contains("is missing: the store was too small"), "{}", stderr(&output));
    assert_eq!(store.run(&["bench", "--read-ratio", "1.5"]).status.code(), Some(2));
    store.refused(
        &["--buffer", "1MiB", "bench", "--value-size", "1MiB"],
        2,
        &["--value-size 1 MiB: the maximum of one request", "--buffer is 256 KiB"],
    );
    let long = ["bench", "--value-size", "65MiB", "--keys", "1"];
    store.refused(&long, 1, &["limit of 67108864 bytes", "--memory"]);
}

#[test]
fn a_closed_stdin_or_stdout_is_an_error() {
    let store = Store::start("tcp", "64MiB");
    store.ok(&["put", "k", "old"]);
    let shell = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_wirelane"), &store.server.links]);
        shell.output().expect("sh runs")
    };
    refused(&shell(r#"exec "$0" kv --server "$1" put k - <&-"#), 3, &["stdin", "closed"]);
    assert_eq!(store.ok(&["get", "k"]), "old", "it was not replaced");
    for command in ["ls", "ls --json", "ls --unsorted", "get k", "stat k"] {
        let script = format!(r#"exec "$0" kv --server "$1" {command} >&-"#);
        refused(&shell(&script), 3, &["stdout", "closed"]);
    }
    let empty = shell(r#"exec "$0" kv --server "$1" put k - </dev/null"#);
    assert_eq!((empty.status.code(), store.ok(&["get", "k"])), (Some(0), String::new()));
}

#[test]
fn a_value_without_end_stops_at_the_stores_limit() {
    let store = Store::start("tcp", "16MiB");
    let folder = tempfile::tempdir().expect("a folder");
    for input in [&["put", "k", "-f", "/dev/zero"][..], &["put", "k", "-"]] {
        let mut command = store.command(input);
        command.env("TMPDIR", folder.path());
        command.stdin(std::fs::File::open("/dev/zero").expect("it exists"));
        let output = command.output().expect("it runs");
        refused(&output, 3, &["longest value", "16777216 bytes", "--max-value"]);
    }
    assert_eq!(store.ok(&["ls"]), "");
}

#[test]
fn keys_that_change_the_direction_of_text_are_escaped() {
    let store = Store::start("tcp", "64MiB");
    store.ok(&["put", "a\u{202e}b", "v"]);
    for listed in [&["ls"][..], &["ls", "--unsorted"], &["ls", "-l"], &["ls", "--json"]] {
        let text = store.ok(listed);
        assert!(text.contains(r"a\u202eb") && !text.contains('\u{202e}'), "{listed:?}: {text}");
    }
}
