//! Authentication and scopes with tokens.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kv_proto::v1::GetRequest;
use tempfile::TempDir;
use tonic::{Code, Request};

use super::grpc::{client, put, runtime};
use super::*;

/// A folder with token files: the server's, and one for each identity.
struct Tokens {
    folder: TempDir,
    lines: Vec<String>,
}

impl Tokens {
    /// Identities, each with its arguments of `token new`.
    fn new(identities: &[&[&str]]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut tokens = Tokens { folder, lines: Vec::new() };
        identities.iter().for_each(|identity| tokens.add(identity));
        tokens
    }

    fn add(&mut self, identity: &[&str]) {
        let made = run(&[&["token", "new"], identity].concat());
        assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
        let line = stdout(&made).trim_end().to_owned();
        self.write(identity[0], &line);
        self.lines.push(line);
        self.save();
    }

    /// Writes the server's file.
    fn save(&self) {
        self.write("server", &format!("# who may call\n{}\n", self.lines.join("\n")));
    }

    fn write(&self, name: &str, content: &str) {
        let file = self.file(name);
        std::fs::write(&file, content).expect("a file");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("a mode");
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a plain path").to_owned()
    }

    fn token(&self, name: &str) -> &str {
        let line = self.lines.iter().find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.split(' ').nth(1)).expect("a token")
    }

    fn serve(&self, more: &[&str]) -> Server {
        Server::start(
            &[&["--memory", "64MiB", "--token-file", &self.file("server")], more].concat(),
        )
    }

    /// `kv` as this identity.
    fn kv(&self, server: &Server, name: &str, words: &[&str]) -> Output {
        let file = self.file(name);
        run(&[&["kv", "--server", &server.links, "--token-file", &file], words].concat())
    }
}

#[track_caller]
fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    assert_eq!(text.trim_end().lines().count(), 1, "one line: {text}");
}

/// The HTTP status of a path, with curl and these options.
fn http(address: &str, path: &str, options: &[&str]) -> String {
    let url = format!("http://{address}{path}");
    let usual = ["-sS", "--max-time", "10", "-o", "/dev/null", "-w", "%{http_code}", &url];
    let curl = Command::new("curl").args(options).args(usual).output().expect("curl runs");
    stdout(&curl)
}

fn team() -> Tokens {
    Tokens::new(&[
        &["root"],
        &["reader", "--read-only"],
        &["team", "--prefix", "team/"],
        &["watcher", "--read-only", "--prefix", "team/"],
    ])
}

#[test]
fn a_public_address_without_credentials_is_refused_with_three_fixes() {
    for addresses in [["--listen", "0.0.0.0:50051"], ["--http", "0.0.0.0:8080"]] {
        let output = run(&[&["serve"][..], &addresses].concat());
        assert_eq!(output.status.code(), Some(2));
        let text = stderr(&output);
        for way in ["no authentication is configured", "--token-file FILE", "--allow-anonymous"] {
            assert!(text.contains(way), "`{way}` is missing in: {text}");
        }
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    }
}

#[test]
fn a_token_file_allows_a_public_address() {
    let tokens = team();
    let file = tokens.file("server");
    let server = Server::start_on("0.0.0.0:0", &["--memory", "64MiB", "--token-file", &file]);
    let port = server.links.rsplit(':').next().expect("a port");
    let local = format!("127.0.0.1:{port}");
    let root = tokens.file("root");
    done(&run(&["kv", "--server", &local, "--token-file", &root, "put", "a", "b"]));
    let without = run(&["kv", "--server", &local, "get", "a"]);
    refused(&without, &["(unauthenticated)", "pass --token-file FILE"]);
    assert!(server.greeting.iter().any(|line| line.contains("clients need a token")));
}

/// The command that `serve` prints works as it is printed.
#[test]
fn the_command_of_the_greeting_works() {
    let example = |server: &Server| {
        let line = server.greeting.iter().find_map(|line| line.strip_prefix("try   wirelane "));
        let script = format!("\"$0\" {}", line.expect("an example"));
        let shell = ["-c", &script, env!("CARGO_BIN_EXE_wirelane")];
        let output = Command::new("sh").args(shell).output().expect("sh runs");
        assert_eq!(output.status.code(), Some(0), "{script}: {}", stderr(&output));
        line.expect("an example").to_owned()
    };
    let tokens = team();
    assert!(example(&tokens.serve(&[])).ends_with("put hello world"));
    let limited = Tokens::new(&[&["reader", "--read-only"], &["root"]]);
    assert!(example(&limited.serve(&[])).ends_with(" ls"));
    let spaces = tokens.file("with spaces");
    std::fs::copy(tokens.file("server"), &spaces).expect("a copy");
    example(&Server::start_on("0.0.0.0:0", &["--memory", "64MiB", "--token-file", &spaces]));
    let key = tokens.file("cluster.key");
    tokens.write("cluster.key", &"a1".repeat(32));
    let settings = tokens.file("settings.yaml");
    let security = format!("security:\n  rdma:\n    key_file: {key}\n");
    std::fs::write(&settings, security).expect("a file");
    let everywhere = ["--memory", "64MiB", "--config", &settings];
    assert!(example(&Server::start_on("0.0.0.0:0", &everywhere)).contains("--config "));
}

#[test]
fn a_token_is_refused_by_a_server_without_authentication() {
    let tokens = team();
    let server = Server::start(&["--memory", "64MiB"]);
    let words = ["(no_authentication)", "omit --token-file", "WIRELANE_TOKEN_FILE"];
    refused(&tokens.kv(&server, "root", &["get", "a"]), &words);
    let connect = ["connect", &server.links, "--no-measure", "--token-file", &tokens.file("root")];
    refused(&run(&connect), &words);
    let counted = "wirelane_listener_rejected_total{reason=\"no_authentication\"} 2";
    assert!(server.get("/metrics").contains(counted));
}

#[test]
fn each_token_has_exactly_its_scope() {
    let tokens = team();
    let server = tokens.serve(&[]);
    let kv = |name, words: &[&str]| tokens.kv(&server, name, words);
    done(&kv("root", &["put", "other/a", "1"]));
    done(&kv("team", &["put", "team/a", "2"]));
    assert_eq!(done(&kv("reader", &["get", "other/a"])).trim_end(), "1");
    assert_eq!(done(&kv("team", &["ls"])), "team/a\n");
    assert_eq!(done(&kv("reader", &["ls"])), "other/a\nteam/a\n");
    let may_not = ["permission denied", "token file"];
    refused(&kv("reader", &["put", "team/a", "3"]), &may_not);
    refused(&kv("team", &["put", "other/a", "3"]), &may_not);
    refused(&kv("team", &["get", "other/a"]), &may_not);
    refused(&kv("team", &["exists", "other/none"]), &may_not);
    refused(&kv("team", &["ls", "other"]), &may_not);
    refused(&kv("watcher", &["delete", "team/a"]), &may_not);
    assert_eq!(done(&kv("watcher", &["get", "team/a"])).trim_end(), "2");
    let large = tokens.file("large");
    std::fs::write(&large, vec![7; 100 << 20]).expect("a file");
    refused(&kv("reader", &["put", "large", "--file", &large]), &may_not);
    let link = ["connect", &server.links, "--no-measure", "--token-file", &tokens.file("team")];
    assert!(done(&run(&link)).contains("identity   team; control connection encrypted"));
}

#[test]
fn a_wrong_token_is_refused_and_counted_and_others_are_not_affected() {
    let tokens = team();
    let server = tokens.serve(&[]);
    let unknown_callers = Tokens::new(&[&["root"]]);
    let words = ["put", "a", "b"];
    let fix = "the line of --token-file must be in the server's token file";
    refused(&unknown_callers.kv(&server, "root", &words), &["(wrong_key)", fix]);
    done(&tokens.kv(&server, "root", &words));
    runtime().block_on(async {
        let mut client = client(&server).await;
        let mut show = async |token: &str| {
            let mut get = Request::new(GetRequest { key: "a".into(), ..GetRequest::default() });
            let header = format!("Bearer {token}").parse().expect("a header");
            get.metadata_mut().insert("authorization", header);
            client.get(get).await.map(|got| got.into_inner().value)
        };
        let wrong = show(unknown_callers.token("root")).await.expect_err("it is not known");
        assert_eq!(wrong.code(), Code::Unauthenticated);
        assert_eq!(show(tokens.token("reader")).await.expect("it may read"), "b");
        let scope = show(tokens.token("team")).await.expect_err("another key");
        assert_eq!(scope.code(), Code::PermissionDenied);
        let none = client.put(put("a", "b")).await.expect_err("no token");
        assert_eq!(none.code(), Code::Unauthenticated);
    });
    let root = format!("authorization: Bearer {}", tokens.token("root"));
    let curl = ["-sS", "-H", &root, &format!("http://{}/metrics", server.address)];
    let metrics = stdout(&Command::new("curl").args(curl).output().expect("curl runs"));
    for line in [
        "wirelane_access_rejected_total{reason=\"wrong_token\"} 1",
        "wirelane_access_rejected_total{reason=\"scope\"} 1",
        "wirelane_access_rejected_total{reason=\"no_credentials\"} 1",
        "wirelane_access_rejected_total{reason=\"rate\"} 0",
        "wirelane_listener_rejected_total{reason=\"wrong_key\"} 1",
    ] {
        assert!(metrics.contains(line), "`{line}` is missing in: {metrics}");
    }
}

#[test]
fn http_requires_the_same_tokens_and_metrics_may_be_open() {
    let tokens = team();
    let server = tokens.serve(&["--metrics", "127.0.0.1:0"]);
    let line = server.greeting.iter().find(|line| line.starts_with("HTTP")).expect("a line");
    let open = line.split("open: http://").nth(1).and_then(|rest| rest.split('/').next());
    let open = open.expect("an address");
    let bearer = |name: &str| format!("authorization: Bearer {}", tokens.token(name));
    let status = "/api/v1/transport/status";
    for path in ["/metrics", status] {
        assert_eq!(http(&server.address, path, &[]), "401");
        assert_eq!(http(&server.address, path, &["-H", "authorization: Bearer x"]), "401");
        assert_eq!(http(&server.address, path, &["-H", &bearer("reader")]), "200");
        assert_eq!(http(&server.address, path, &["-H", &bearer("team")]), "403");
        let basic = |name: &str| format!("{name}:{}", tokens.token("reader"));
        assert_eq!(http(&server.address, path, &["-u", &basic("reader")]), "200");
        assert_eq!(http(&server.address, path, &["-u", &basic("root")]), "401");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(http(&server.address, path, &[]), "200");
    }
    assert_eq!(http(open, "/metrics", &[]), "200");
    for path in ["/healthz", status] {
        assert_eq!(http(open, path, &[]), "404");
    }
}

#[test]
fn sighup_reloads_the_token_file() {
    let mut tokens = team();
    let server = tokens.serve(&[]);
    let (mut told, file) = (tokens.lines.clone(), tokens.file("late"));
    tokens.add(&["late"]);
    assert_eq!(tokens.kv(&server, "late", &["ls"]).status.code(), Some(1));
    let until = |name: &str, words: &[&str], code: i32| {
        let limit = Instant::now() + Duration::from_secs(20);
        while tokens.kv(&server, name, words).status.code() != Some(code) {
            assert!(Instant::now() < limit, "{name} {words:?} does not come to {code}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    server.signal("-HUP");
    until("late", &["put", "a", "b"], 0);
    tokens.write("server", "late wrong\n");
    server.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    until("late", &["get", "a"], 0);
    told.retain(|line| !line.starts_with("root"));
    tokens.write("server", &told.join("\n"));
    server.signal("-HUP");
    until("late", &["get", "a"], 1);
    until("root", &["get", "a"], 1);
    until("reader", &["get", "a"], 0);
    assert!(std::path::Path::new(&file).exists());
}

#[test]
fn requests_above_the_rate_are_refused() {
    let tokens = team();
    let server = tokens.serve(&["--max-rate", "5"]);
    let keys: Vec<String> = (0..50).map(|n| format!("k{n}")).collect();
    let mut words = vec!["delete"];
    words.extend(keys.iter().map(String::as_str));
    let output = tokens.kv(&server, "root", &words);
    assert_ne!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("--max-rate"), "{}", stderr(&output));
    done(&tokens.kv(&server, "reader", &["ls"]));
}

#[test]
fn no_output_contains_a_token() {
    let tokens = team();
    let mut server = tokens.serve(&["--log-level", "trace"]);
    let mut said = server.greeting.join("\n");
    let command_line = std::fs::read(format!("/proc/{}/cmdline", server.child.id()));
    said += &String::from_utf8_lossy(&command_line.expect("it runs"));
    let mut add = |output: Output| said += &format!("{}{}", stdout(&output), stderr(&output));
    for name in ["root", "reader", "team"] {
        for words in [&["put", "team/a", "1"][..], &["get", "b"], &["ls"]] {
            let words = [words, &["--log-level", "trace", "--verbose"]].concat();
            add(tokens.kv(&server, name, &words));
        }
    }
    add(run(&["token", "check", &tokens.file("server")]));
    add(run(&["token", "check", "--json", &tokens.file("server")]));
    let connect = ["connect", &server.links, "--no-measure", "--json", "--log-level", "trace"];
    add(run(&[&connect[..], &["--token-file", &tokens.file("root")]].concat()));
    let root = format!("authorization: Bearer {}", tokens.token("root"));
    for path in ["/metrics", "/api/v1/transport/status"] {
        let url = format!("http://{}{path}", server.address);
        add(Command::new("curl").args(["-sS", "-H", &root, &url]).output().expect("curl runs"));
    }
    runtime().block_on(async {
        let mut client = client(&server).await;
        for name in ["root", "reader"] {
            let mut put = Request::new(put("a", "b"));
            let header = format!("Bearer {}", tokens.token(name)).parse().expect("a header");
            put.metadata_mut().insert("authorization", header);
            let _ = client.put(put).await;
        }
    });
    tokens.write("server", &format!("a {} invalid data\n", tokens.token("root")));
    add(run(&["serve", "--token-file", &tokens.file("server"), "--listen", "127.0.0.1:0"]));
    add(run(&["token", "check", &tokens.file("server")]));
    server.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    server.signal("-TERM");
    for line in server.log.by_ref() {
        said += &line.expect("text");
    }
    assert!(said.contains("TRACE") || said.contains("DEBUG"), "it was a talkative run");
    for name in ["root", "reader", "team", "watcher"] {
        let secret = tokens.token(name).strip_prefix("wlt_").expect("a mark");
        assert!(!said.contains(secret), "the token of {name} was shown");
    }
    assert!(!said.contains("wlt_"), "a part of a token was shown");
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let tokens = team();
    for mode in [0o640, 0o604] {
        let file = tokens.file("server");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("a mode");
        let output = run(&["serve", "--listen", "127.0.0.1:0", "--token-file", &file]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("can access the file (mode "), "{}", stderr(&output));
    }
    let none = run(&["kv", "--token-file", "/nowhere/token", "ls"]);
    assert_eq!(none.status.code(), Some(3));
    let variable = wirelane(&["kv", "ls"]).env("WIRELANE_TOKEN_FILE", "/nowhere/token").output();
    assert!(stderr(&variable.expect("the program runs")).contains("/nowhere/token"));
}

#[test]
fn new_tokens_differ_and_wrong_names_are_refused() {
    let [one, other] = [(); 2].map(|()| done(&run(&["token", "new", "ann", "--prefix", "a b/"])));
    assert_ne!(one, other);
    assert!(one.starts_with("ann wlt_") && one.ends_with(" prefix=a%20b/\n"), "{one}");
    for name in ["", "a b", "anonymous", "a:b", "a#b"] {
        assert_eq!(run(&["token", "new", name]).status.code(), Some(2), "{name}");
    }
    let tokens = team();
    let checked = done(&run(&["token", "check", &tokens.file("server")]));
    let words: Vec<Vec<&str>> =
        checked.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["root", "token", "everything"]);
    assert_eq!(words[3], ["watcher", "token", "read-only", "prefix=team/"]);
}

/// Forwards one connection to a server, and records the caller's bytes.
fn record(server: &Server) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let said = Arc::new(Mutex::new(Vec::new()));
    let (to, kept) = (server.links.clone(), said.clone());
    std::thread::spawn(move || {
        let (caller, _) = listener.accept().expect("a caller");
        let server = TcpStream::connect(to).expect("the server");
        let (mut back, mut answers) =
            (caller.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
        std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
        let (mut caller, mut server) = (caller, server);
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = caller.read(&mut bytes) {
            kept.lock().expect("whole").extend(&bytes[..count]);
            if server.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
    });
    (address, said)
}

#[test]
fn a_replayed_handshake_is_refused_and_counted_and_others_are_not_affected() {
    let tokens = team();
    let server = tokens.serve(&[]);
    let root = tokens.file("root");
    let (address, said) = record(&server);
    let kv = ["kv", "--transport", "shm", "--token-file", &root];
    done(&run(&[&kv[..], &["--server", &address, "put", "a", "b"]].concat()));
    let recorded = said.lock().expect("whole").clone();
    assert!(recorded.starts_with(b"WLC1"), "a handshake was recorded");
    let mut replay = TcpStream::connect(&server.links).expect("the server");
    replay.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    replay.write_all(&recorded).expect("it is taken");
    let mut answer = Vec::new();
    let _ = replay.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("WLC1") && text.contains("replayed handshake"), "{text}");
    assert_eq!(done(&tokens.kv(&server, "root", &["get", "a"])).trim_end(), "b");
    let bearer = format!("authorization: Bearer {}", tokens.token("root"));
    let url = format!("http://{}/api/v1/transport/status", server.address);
    let status = Command::new("curl").args(["-sS", "-H", &bearer, &url]).output();
    let status = json(&stdout(&status.expect("curl runs")));
    assert_eq!(status["listener"]["refused"]["replayed"], 1);
}
