//! `config`: files, presets, variables and the values in use.

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
        assert!(text.contains(pipe) && text.trim_end().lines().count() == 1, "{command:?}: {text}");
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
        std::fs::write(&file, format!("transport:\n  rdma_device: \"{name}\"\n")).expect("a file");
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
