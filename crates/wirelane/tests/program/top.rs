//! `wirelane top`, in a real terminal (tmux) and for scripts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use tempfile::TempDir;

use super::*;

fn tree(name: &str) -> String {
    format!("{}/../node/tests/trees/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

/// A terminal: a private tmux server with a shell.
struct Terminal {
    folder: TempDir,
}

impl Terminal {
    fn open(columns: u32, rows: u32) -> Terminal {
        let terminal = Terminal { folder: tempfile::tempdir().expect("a folder") };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let shell = "exec env -u ENV -u NO_COLOR LANG=C.UTF-8 LC_ALL=C.UTF-8 PS1='READY> ' sh";
        terminal.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, shell]);
        terminal.wait_for("the shell", |screen| screen.contains("READY>"));
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.folder.path().join("socket")).args(["-f", "/dev/null", "-u"]);
        let output = tmux.args(arguments).output().expect("tmux runs");
        assert!(output.status.success(), "tmux {arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// The contents of the terminal.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn is(&self, what: &str) -> String {
        self.tmux(&["display-message", "-p", what]).trim().to_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a command.
    fn command(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.keys(&["Enter"]);
    }

    fn resize(&self, columns: u32, rows: u32) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    #[track_caller]
    fn wait_for(&self, what: &str, seen: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if seen(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < TIMEOUT, "{what} is not seen on:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The terminal's settings, as printed by stty.
    fn settings(&self, name: &str) -> String {
        let file = self.folder.path().join(name);
        self.command(&format!("stty -g >{0}.new && mv {0}.new {0}", file.display()));
        let begun = Instant::now();
        loop {
            if let Ok(settings) = std::fs::read_to_string(&file) {
                return settings;
            }
            assert!(begun.elapsed() < TIMEOUT, "the shell says nothing:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let socket = self.folder.path().join("socket");
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}

/// A machine in a folder: three ports, the third down, the others with counters that grow all the time.
struct Machine {
    folder: TempDir,
    over: Arc<AtomicBool>,
    growth: Option<JoinHandle<()>>,
}

impl Machine {
    fn start() -> Machine {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |path: &str, text: &str| write(folder.path(), path, text);
        file("proc/sys/kernel/hostname", "node-of-the-test\n");
        for number in 0..3 {
            let port = format!("sys/class/infiniband/mlx5_{number}/ports/1");
            let (state, phys) =
                if number == 2 { ("1: DOWN", "2: Polling") } else { ("4: ACTIVE", "5: LinkUp") };
            file(&format!("{port}/state"), state);
            file(&format!("{port}/phys_state"), phys);
            file(&format!("{port}/link_layer"), "InfiniBand");
            file(&format!("{port}/lid"), "0x7");
            file(&format!("{port}/rate"), "100 Gb/sec (4X EDR)");
            file(&format!("{port}/counters/symbol_error"), "0");
            file(&format!("{port}/counters/port_rcv_data"), "1000");
        }
        let over = Arc::new(AtomicBool::new(false));
        let (told, root) = (over.clone(), folder.path().to_owned());
        let growth = std::thread::spawn(move || {
            let mut step = 0_u64;
            while !told.load(Ordering::Relaxed) {
                step += 1;
                for (number, data) in [(0, 1_000_000), (1, 5_000_000)] {
                    let counters = format!("sys/class/infiniband/mlx5_{number}/ports/1/counters");
                    write(
                        &root,
                        &format!("{counters}/port_rcv_data"),
                        &(1000 + step * data).to_string(),
                    );
                }
                let wrong = "sys/class/infiniband/mlx5_1/ports/1/counters/symbol_error";
                write(&root, wrong, &(step % 60_000).to_string());
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Machine { folder, over, growth: Some(growth) }
    }

    fn root(&self) -> String {
        self.folder.path().display().to_string()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.growth.take().map(JoinHandle::join);
    }
}

/// Writes atomically, so that no reader sees a part.
fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    let new = root.join("new");
    std::fs::write(&new, text).expect("a file");
    std::fs::rename(new, file).expect("in its place");
}

/// The names of the ports from the top of a screen.
fn ports(screen: &str) -> Vec<&str> {
    let first = screen.lines().filter_map(|line| line.split_whitespace().next());
    first.filter(|word| word.starts_with("mlx5_")).collect()
}

const TIMEOUT: Duration = Duration::from_secs(60);
const PROGRAM: &str = env!("CARGO_BIN_EXE_wirelane");

#[test]
fn keys_work_and_the_terminal_is_restored() {
    let machine = Machine::start();
    let terminal = Terminal::open(120, 40);
    terminal.command("echo what was there before");
    // Otherwise the next command is echoed before the output of this one.
    terminal.wait_for("the output of echo", |screen| {
        screen.lines().any(|line| line == "what was there before")
    });
    let before = terminal.settings("before");
    terminal.command(&format!("{PROGRAM} top --root {} --interval 200ms", machine.root()));

    // Drawing: names, bars, errors per second.
    let drawn = |screen: &str| {
        let row = screen.lines().find(|line| line.starts_with("mlx5_1/1"));
        screen.contains("node-of-the-test") && row.is_some_and(|row| row.contains('█'))
    };
    let screen = terminal.wait_for("traffic", drawn);
    assert_eq!(ports(&screen), ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1"], "{screen}");
    assert_eq!(terminal.is("#{alternate_on}"), "1");

    // Sorting: by rate, by received bytes; then reversed.
    terminal.keys(&["s", "s"]);
    terminal.wait_for("the busiest first", |screen| ports(screen).first() == Some(&"mlx5_1/1"));
    terminal.keys(&["S"]);
    terminal.wait_for("the idlest first", |screen| ports(screen).first() == Some(&"mlx5_2/1"));

    // Filter.
    terminal.keys(&["/", "x", "5", "_", "0", "Enter"]);
    terminal.wait_for("one port", |screen| ports(screen) == ["mlx5_0/1"]);
    terminal.keys(&["/"]);
    terminal.keys(&["Escape"]);
    terminal.wait_for("all ports", |screen| ports(screen).len() == 3);

    // The first row is the port that is down: the doctor has findings on it.
    terminal.keys(&["Home", "Enter"]);
    // The terminal may have drawn a part of it only.
    let parts = ["[ports]", "the port is not active", "mlx5_2/ports/1/state: 1: DOWN", "fix:"];
    terminal.wait_for("the doctor", |screen| parts.iter().all(|part| screen.contains(part)));
    terminal.keys(&["Escape"]);
    terminal.wait_for("the tables", |screen| !screen.contains("[ports]"));

    // Resize.
    terminal.resize(80, 24);
    let fits = |screen: &str| {
        let lines: Vec<&str> = screen.lines().collect();
        lines.len() == 24 && lines[23].starts_with("q quit") && ports(screen).len() == 3
    };
    let screen = terminal.wait_for("the small screen", fits);
    for title in ["state", "Gb/s", "rx b/s", "tx b/s", "err/s", "cong/s"] {
        assert!(screen.contains(title), "`{title}` is missing on:\n{screen}");
    }
    terminal.resize(30, 8);
    terminal.wait_for("that it is too small", |screen| screen.contains("too small"));
    terminal.resize(80, 24);
    terminal.wait_for("the small screen", fits);

    // Pause.
    terminal.keys(&["p"]);
    terminal.wait_for("the pause", |screen| screen.contains("PAUSED"));

    // The terminal is restored.
    terminal.keys(&["q"]);
    terminal.wait_for("the shell", |screen| screen.trim_end().ends_with("READY>"));
    // Including the lines that scrolled away while the terminal was small.
    let all = terminal.tmux(&["capture-pane", "-p", "-S", "-"]);
    assert!(all.contains("\nwhat was there before\n"), "{all}");
    assert!(!all.contains("node-of-the-test") && !all.contains("q quit"), "{all}");
    assert_eq!(terminal.is("#{alternate_on} #{cursor_flag}"), "0 1");
    assert_eq!(terminal.settings("after"), before);
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_restored() {
    let terminal = Terminal::open(100, 30);
    let before = terminal.settings("before");
    let pid = terminal.folder.path().join("pid");
    let (file, tree) = (pid.display(), tree("ndr8"));
    terminal.command(&format!(
        "sh -c 'echo $$ >{file}; exec {PROGRAM} top --root {tree}'; echo it ended with $?"
    ));
    terminal.wait_for("the ports", |screen| screen.contains("mlx5_7/1"));
    let pid = std::fs::read_to_string(&pid).expect("a number");
    let kill = Command::new("kill").args(["-TERM", pid.trim()]).status().expect("kill runs");
    assert!(kill.success());
    terminal.wait_for("the shell", |screen| screen.contains("it ended with 0"));
    assert_eq!(terminal.is("#{alternate_on} #{cursor_flag}"), "0 1");
    assert_eq!(terminal.settings("after"), before);
}

#[test]
fn a_recording_is_replayed_and_stepped_through() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("samples").display().to_string();
    let recorded =
        ["top", "--json", "--count", "3", "--interval", "100ms", "--root", &tree("ndr8")];
    let output = run(&[&recorded[..], &["--record", &file]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let terminal = Terminal::open(80, 24);
    terminal.command(&format!("{PROGRAM} top --replay {file}"));
    terminal.wait_for("the end", |screen| screen.contains("replay ") && screen.contains("PAUSED"));
    terminal.keys(&["Left", "Left", "Left", "Left", "Left"]);
    terminal.wait_for("the first sample", |screen| screen.contains("replay 1/"));
    terminal.keys(&["Right"]);
    terminal.wait_for("the second sample", |screen| screen.contains("replay 2/"));
    terminal.keys(&["Enter"]);
    let words = "on that machine: wirelane doctor";
    terminal.wait_for("what to run there", |screen| screen.contains(words));
    terminal.keys(&["C-c"]);
    terminal.wait_for("the shell", |screen| !screen.contains("replay 2/"));
}

#[test]
fn without_a_terminal_it_names_the_options_for_scripts() {
    let output = run(&["top"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("--json") && text.contains("--once"), "{text}");
}

#[test]
fn once_is_a_table_or_an_object() {
    let root = tree("mlx5-roce");
    let table = run(&["top", "--once", "--interval", "100ms", "--root", &root]);
    assert_eq!(table.status.code(), Some(0), "{}", stderr(&table));
    assert!(stdout(&table).contains("PORT ") && stdout(&table).contains("active"));
    assert!(stdout(&table).contains("STATE   Gb/s  RX b/s  TX b/s  RX p/s"), "{}", stdout(&table));
    let output = run(&["top", "--once", "--json", "--interval", "100ms", "--root", &root]);
    let moment = json(&stdout(&output));
    let port = &moment["ports"][0];
    assert_eq!((&port["state"], &port["errors_per_second"]), (&"active".into(), &0.0.into()));
    assert_eq!(port["receive"]["bytes_per_second"], 0.0);
    assert!(moment["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{moment}");
    assert!(moment["time"].as_str().is_some_and(|time| time.ends_with('Z')));
}

#[test]
fn growing_counters_have_rates_and_others_are_missing() {
    let machine = Machine::start();
    let output =
        run(&["top", "--json", "--count", "3", "--interval", "300ms", "--root", &machine.root()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines: Vec<Value> = stdout(&output).lines().map(json).collect();
    assert_eq!(lines.len(), 3);
    for line in lines {
        let ports = line["ports"].as_array().expect("ports");
        let received = |port: usize| ports[port]["receive"]["bytes_per_second"].as_f64();
        assert!(received(1) > received(0) && received(0) > Some(0.0), "{line}");
        assert_eq!(received(2), Some(0.0));
        assert_eq!(ports[0]["transmit"]["bytes_per_second"], Value::Null, "nothing counts it");
        assert!(ports[1]["errors_per_second"].as_f64() > Some(0.0), "{line}");
    }
    let one = ["top", "--once", "--json", "--device", "mlx5_1,other*", "--root", &machine.root()];
    let ports = json(&stdout(&run(&one)))["ports"].clone();
    assert_eq!((ports.as_array().map(Vec::len), &ports[0]["device"]), (Some(1), &"mlx5_1".into()));
}

#[test]
fn a_replay_prints_the_same_as_the_live_view() {
    let machine = Machine::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("samples").display().to_string();
    let live = ["top", "--json", "--count", "3", "--interval", "100ms", "--root", &machine.root()];
    let live = run(&[&live[..], &["--record", &file]].concat());
    assert_eq!(live.status.code(), Some(0), "{}", stderr(&live));
    let replayed = run(&["top", "--json", "--replay", &file]);
    assert_eq!(replayed.status.code(), Some(0), "{}", stderr(&replayed));
    let (live, replayed) = (stdout(&live), stdout(&replayed));
    let first = |text: &str| text.lines().take(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(first(&replayed), first(&live));
    let again = run(&["top", "--json", "--count", "1", "--record", &file]);
    assert_eq!(again.status.code(), Some(3), "a file that is there is kept");
}

#[test]
fn a_recording_stops_at_its_limit_and_watching_continues() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("samples").display().to_string();
    let watch = ["top", "--json", "--count", "3", "--interval", "100ms", "--root", &tree("ndr8")];
    let output = run(&[&watch[..], &["--record", &file, "--record-max", "4KiB"]].concat());
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output).lines().count(), 3);
    assert!(stderr(&output).contains("--record-max"), "{}", stderr(&output));
    assert!(std::fs::metadata(&file).is_ok_and(|file| file.len() <= 4096));
}

#[test]
fn an_invalid_recording_is_refused_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("samples");
    let header = "{\"format\":\"wirelane samples 1\",\"host\":\"x\",\"start_ms\":1}\n";
    for (content, words) in [
        ("{}\n".to_owned(), "line 1"),
        (format!("{header}{{\"at_ms\":1}}\nnonsense\n"), "line 3"),
        (format!("{header}{{\"devices\":[{{\"ports\":7}}]}}\n"), "line 2"),
    ] {
        std::fs::write(&file, content).expect("a file");
        let output = run(&["top", "--json", "--replay", file.to_str().expect("a plain path")]);
        assert_eq!(output.status.code(), Some(3));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert_eq!(run(&["top", "--json", "--replay", "/nowhere/samples"]).status.code(), Some(3));
}

#[test]
fn a_closed_pipe_ends_the_stream_without_an_error() {
    let mut child = wirelane(&["top", "--json", "--interval", "100ms", "--root", &tree("rxe")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(lines.next().is_some_and(|line| line.is_ok()), "a line at once, not a full buffer");
    drop(lines);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

/// Reads lines of `top --json` until one satisfies the condition.
fn until(arguments: &[&str], is_it: impl Fn(&Value) -> bool) -> Value {
    let mut child = wirelane(arguments).stdout(Stdio::piped()).spawn().expect("the program runs");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines().take(300);
    let mut last = Value::Null;
    for line in lines {
        last = json(&line.expect("text"));
        if is_it(&last) {
            break;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    assert!(is_it(&last), "{last}");
    last
}

#[test]
fn a_store_and_a_peer_are_watched() {
    let server = Server::start(&[]);
    let kv = ["kv", "--server", &server.links];
    assert_eq!(run(&[&kv[..], &["put", "key", "value"]].concat()).status.code(), Some(0));
    let watch = ["top", "--json", "--interval", "200ms", "--root", &tree("rxe")];
    let watch = [&watch[..], &["--store", &server.address, "--peer", &server.links]].concat();
    let answered = |line: &Value| !line["probe"]["p99_ns"].is_null() && !line["store"].is_null();
    let line = until(&watch, answered);
    let (store, probe) = (&line["store"], &line["probe"]);
    assert_eq!((&store["keys"], &store["puts_per_second"]), (&1.0.into(), &0.0.into()));
    assert_eq!(store["links"]["shm"], 1.0, "the probe's own link");
    assert_eq!((&probe["transport"], &probe["why"]), (&"shm".into(), &Value::Null));
    assert!(probe["sent"].as_u64() > Some(0) && probe["p50_ns"].as_u64() > Some(0), "{probe}");
}

#[test]
fn a_peer_that_is_not_wirelane_is_reported() {
    let server = Server::start(&[]);
    // An HTTP server answers there.
    let watch = ["top", "--json", "--interval", "200ms", "--root", &tree("rxe")];
    let watch = [&watch[..], &["--peer", &server.address]].concat();
    let line = until(&watch, |line| !line["probe"]["why"].is_null());
    let why = line["probe"]["why"].as_str().unwrap_or_default();
    assert!(why.contains("not a Wirelane peer"), "{why}");
    assert_eq!(line["probe"]["sent"], 0);
}

#[test]
fn text_of_a_snapshot_cannot_change_the_direction() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("snapshot.json");
    let snapshot = std::fs::read_to_string(tree("ndr8")).expect("a snapshot");
    std::fs::write(&file, snapshot.replace(r#""ndr8\n""#, r#""a\u202eb\u0085c\n""#))
        .expect("a file");
    let root = file.to_str().expect("a plain path");
    let once = ["top", "--once", "--interval", "100ms", "--root", root];
    let text = stdout(&run(&once));
    assert!(text.starts_with("ab") && !text.contains(['\u{202e}', '\u{85}']), "{text:?}");
    let text = stdout(&run(&[&once[..], &["--json"]].concat()));
    assert!(!text.contains(['\u{202e}', '\u{85}']), "{text:?}");
    assert_eq!(json(&text)["host"], "a\u{202e}b\u{85}c");
}

#[test]
fn a_named_store_that_does_not_answer_is_reported() {
    let watch = ["top", "--json", "--interval", "200ms", "--root", &tree("rxe")];
    let watch = [&watch[..], &["--store", "127.0.0.1:1"]].concat();
    let line = until(&watch, |line| line["failed_collectors"][0]["collector"] == "store");
    assert!(
        line["failed_collectors"][0]["why"].as_str().is_some_and(|why| why.contains("127.0.0.1:1"))
    );
    assert_eq!(line["store"], Value::Null);
}
