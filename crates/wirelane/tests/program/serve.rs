//! `serve`: the greeting, options, ports and callers.

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
        .find_map(|line| Some(line.split("http://").nth(1)?.split_whitespace().next()?.to_owned()))
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
        for _ in 0..500 {
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
