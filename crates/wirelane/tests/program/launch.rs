//! `wirelane launch` on hosts over a real ssh: success, failures, and that nothing is left.
//!
//! Uses `launch tensorflow`, because it starts any program once on each host, with its role in TF_CONFIG.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::ssh::{DEAD, Hosts};
use crate::{json, stderr, stdout};

/// Two hosts, and a folder for the test's files.
struct Stage {
    hosts: Hosts,
    folder: TempDir,
}

impl Stage {
    fn new() -> Stage {
        let hosts = Hosts::here(&["a", "b"]);
        ["a", "b"].iter().for_each(|host| hosts.give_wirelane(host));
        Stage { hosts, folder: tempfile::tempdir().expect("a folder") }
    }

    /// A shell script as the job's command.
    fn command(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.hosts.command(env!("CARGO_BIN_EXE_wirelane"));
        command.args(["launch", "tensorflow"]).args(options).args(["--", "sh", "-c", script]);
        command.env("XDG_STATE_HOME", self.folder.path()).current_dir(self.folder.path());
        command
    }

    fn launch(&self, options: &[&str], script: &str) -> Output {
        self.command(options, script).output().expect("the program runs")
    }

    /// An endless job on both hosts: the launcher and the job's id.
    fn endless(&self) -> (Child, String) {
        let script = "sleep 1000 & echo \"up $WIRELANE_JOB\"; wait";
        let mut launcher = self.command(&["--hosts", "a,b"], script);
        let mut launcher = launcher
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut lines = BufReader::new(launcher.stdout.take().expect("piped")).lines();
        let mut up = [lines.next(), lines.next()].map(|line| line.expect("a line").expect("text"));
        up.sort();
        let job = up[0].strip_prefix("a| up ").expect("a's line").to_owned();
        assert_eq!(up[1], format!("b| up {job}"));
        assert!(!running(&job).is_empty());
        (launcher, job)
    }
}

/// Processes of a job.
fn running(job: &str) -> Vec<String> {
    let mark = format!("WIRELANE_JOB={job}\0");
    let marked = |entry: fs::DirEntry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment)
            .contains(&mark)
            .then(|| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default())
    };
    fs::read_dir("/proc").expect("/proc").flatten().filter_map(marked).collect()
}

/// Folders of a job on its hosts.
fn folders(job: &str) -> Vec<String> {
    let entries = fs::read_dir("/tmp").expect("/tmp").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(job)).collect()
}

#[track_caller]
fn nothing_is_left(job: &str) {
    assert_eq!((running(job), folders(job)), (vec![], vec![]));
}

/// The job's id, as printed by the launcher.
fn job_of(output: &Output) -> String {
    let said = stderr(output);
    let line = said.lines().find_map(|line| line.strip_prefix("job ")).expect("the job is named");
    line.split(':').next().expect("an id").to_owned()
}

/// Asserts the exit code and that stderr has only this error.
#[track_caller]
fn complains(output: &Output, code: i32, words: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let complaints: Vec<&str> =
        said.lines().filter(|line| line.starts_with("wirelane: ")).collect();
    assert_eq!(complaints.len(), 1, "one line: {said}");
    for word in words {
        assert!(complaints[0].contains(word), "`{word}` is missing in: {said}");
    }
}

#[test]
fn a_job_runs_on_every_host_and_each_line_has_its_host() {
    let stage = Stage::new();
    let script = "echo out; echo err >&2; printf '%s' \"$TF_CONFIG\"";
    let output = stage.launch(&["--hosts", "a,b", "--log-dir", "logs"], script);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let printed = stdout(&output);
    for (host, index) in [("a", 0), ("b", 1)] {
        assert!(printed.contains(&format!("{host}| out\n")), "{printed}");
        assert!(said.contains(&format!("{host}| err\n")), "{said}");
        let task = format!("\"task\":{{\"index\":{index},\"type\":\"worker\"}}");
        let told = printed.lines().any(|line| {
            line.starts_with(&format!("{host}| {{\"cluster\"")) && line.contains(&task)
        });
        assert!(told, "{printed}");
    }
    assert!(said.contains("RDMA was not used, because a has no RDMA device"), "{said}");
    let job = job_of(&output);
    let logs = stage.folder.path().join("logs").join(&job);
    assert!(said.contains(&format!("logs: logs/{job}")), "{said}");
    let log = fs::read_to_string(logs.join("b.log")).expect("a log");
    assert!(log.contains("out\n") && log.contains("err\n"), "{log}");
    let plan = fs::read_to_string(logs.join("plan.txt")).expect("a plan");
    assert!(plan.contains("# on b, started once"), "{plan}");
    nothing_is_left(&job);
}

#[test]
fn the_outcome_of_a_job_is_printed_as_json() {
    let stage = Stage::new();
    let output = stage.launch(&["--hosts", "a", "--json"], "echo printed");
    let told = json(&stdout(&output));
    assert_eq!((&told["outcome"], &told["mode"]), (&"done".into(), &"tcp".into()));
    assert_eq!(told["traffic"]["rdma"], serde_json::Value::Null);
    assert!(Path::new(told["logs"].as_str().expect("a folder")).join("a.log").is_file());
    assert!(stderr(&output).contains("a| printed\n"));
}

#[test]
fn output_that_cannot_be_written_is_an_error_after_the_job() {
    let stage = Stage::new();
    let full = fs::File::options().write(true).open("/dev/full").expect("a full device");
    let mut command = stage.command(&["--hosts", "a"], "echo lost; touch done");
    let output = command.stdout(full).output().expect("the program runs");
    complains(&output, 3, &["not all of its output", "stdout", "No space left", "logs: "]);
    assert!(stage.folder.path().join("done").exists(), "the job was not ended");
}

#[test]
fn variables_are_exported_to_the_job() {
    let stage = Stage::new();
    let options = ["--hosts", "a,b", "-x", "ONE=it's 1", "-x", "TWO"];
    let mut command = stage.command(&options, "echo \"$ONE $TWO\"");
    let output = command.env("TWO", "two").output().expect("the program runs");
    let mut lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a| it's 1 two", "b| it's 1 two"], "{}", stderr(&output));
    assert_eq!(stage.launch(&["--hosts", "a", "-x", "1=2"], "true").status.code(), Some(2));
}

#[test]
fn a_dry_run_prints_what_would_run_and_starts_nothing() {
    let stage = Stage::new();
    let output = stage.launch(&["--hosts", "a,b", "--dry-run"], "touch started");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = stdout(&output);
    for words in
        ["# on a, started once", "# on b,", "export TF_CONFIG=", "exec sh -c 'touch started'"]
    {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    assert!(!stage.folder.path().join("started").exists());
}

/// A dry run is for planning, also where ssh does not work yet.
#[test]
fn a_dry_run_needs_no_ssh() {
    let stage = Stage::new();
    let hosts = format!("a,{DEAD}");
    let output = stage.launch(&["--hosts", &hosts, "--dry-run"], "touch started");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains(&format!("# on {DEAD}, started once")), "{}", stdout(&output));
    let note = format!("{DEAD} is assumed to be like this machine");
    assert!(stderr(&output).contains(&note), "{}", stderr(&output));
    let output = stage.launch(&["--hosts", &hosts, "--dry-run", "--json"], "touch started");
    assert!(json(&stdout(&output))["notes"].to_string().contains(&note), "{}", stdout(&output));
}

#[test]
fn a_parameter_server_runs_beside_a_worker() {
    let stage = Stage::new();
    let script = r#"echo "$TF_CONFIG" | grep -o '"type":"[a-z]*"'"#;
    let options = ["--hosts", "a,b", "--ps", "1", "--ps-with-workers"];
    let output = stage.launch(&options, script);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = stdout(&output);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["a| \"type\":\"worker\"", "b-ps| \"type\":\"ps\"", "b| \"type\":\"worker\""]
    );
    nothing_is_left(&job_of(&output));
}

#[test]
fn rdma_is_refused_where_a_host_has_none_before_anything_starts() {
    let stage = Stage::new();
    let output = stage.launch(&["--hosts", "a,b", "--mode", "rdma"], "touch started");
    complains(&output, 1, &["a: no RDMA device can be used", "nothing was started"]);
    assert!(!stage.folder.path().join("started").exists());
}

#[test]
fn a_dead_host_is_named_and_nothing_starts() {
    let stage = Stage::new();
    let hosts = format!("a,{DEAD}");
    let output = stage.launch(&["--hosts", &hosts], "touch started");
    complains(&output, 3, &["ssh to dead", "try `ssh dead true`"]);
    assert!(!stage.folder.path().join("started").exists());
}

#[test]
fn a_host_without_the_program_is_named_and_a_wrong_path_too() {
    let stage = Stage::new();
    stage.hosts.give("a", "only-there", "#!/bin/sh\ntouch started\n");
    for program in ["only-there", "/no/such/program"] {
        let mut command = stage.hosts.command(env!("CARGO_BIN_EXE_wirelane"));
        command.env("XDG_STATE_HOME", stage.folder.path()).current_dir(stage.folder.path());
        command.args(["launch", "tensorflow", "--hosts", "a,b", "--", program]);
        let output = command.output().expect("the program runs");
        let host = if program == "only-there" { "b: " } else { "a: " };
        complains(&output, 1, &[host, program]);
    }
    assert!(!stage.folder.path().join("started").exists());
}

#[test]
fn a_rank_that_crashes_ends_the_others_and_its_code_is_the_jobs() {
    let stage = Stage::new();
    let script = "case $TF_CONFIG in *'\"index\":1'*) exit 7 ;; esac; sleep 1000";
    let output = stage.launch(&["--hosts", "a,b"], script);
    complains(&output, 7, &["b: the command failed with code 7"]);
    nothing_is_left(&job_of(&output));
    let script = "case $TF_CONFIG in *'\"index\":0'*) kill -9 $$ ;; esac; sleep 1000";
    let output = stage.launch(&["--hosts", "a,b"], script);
    complains(&output, 137, &["a: the command was ended by signal 9"]);
    nothing_is_left(&job_of(&output));
}

#[test]
fn a_lost_host_ends_the_job() {
    let stage = Stage::new();
    // The second host's sshd, its shell's ancestor, dies as with the host.
    let script = "case $TF_CONFIG in *'\"index\":0'*) sleep 1000 ;; esac; pid=$$; \
                  until grep -q sshd /proc/$pid/comm; do pid=$(cut -d' ' -f4 /proc/$pid/stat); done; \
                  kill -9 $pid; sleep 1000";
    let output = stage.launch(&["--hosts", "a,b"], script);
    complains(&output, 3, &["b: the connection was lost"]);
    gone_soon(&job_of(&output));
}

#[test]
fn ctrl_c_ends_everything_everywhere() {
    let stage = Stage::new();
    for signal in [Signal::INT, Signal::TERM] {
        let (launcher, job) = stage.endless();
        kill_process(Pid::from_child(&launcher), signal).expect("it runs");
        let output = launcher.wait_with_output().expect("it ends");
        complains(&output, 130, &["interrupted", "the job was ended"]);
        nothing_is_left(&job);
    }
}

/// As when it is piped into a pager: the pipe is full and not read.
#[test]
fn ctrl_c_works_while_the_output_is_not_read() {
    let stage = Stage::new();
    let script = "echo \"up $WIRELANE_JOB\"; while :; do echo and so on and so on; done";
    let mut launcher = stage.command(&["--hosts", "a"], script);
    let mut launcher =
        launcher.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program runs");
    let mut lines = BufReader::new(launcher.stdout.take().expect("piped"));
    let mut up = String::new();
    lines.read_line(&mut up).expect("text");
    let job = up.trim_end().strip_prefix("a| up ").expect("a line").to_owned();
    soon("the pipe is full", || {
        rustix::io::ioctl_fionread(lines.get_ref()).is_ok_and(|waiting| waiting > 60_000)
    });
    kill_process(Pid::from_child(&launcher), Signal::INT).expect("it runs");
    let mut ended = None;
    soon("it ends", || {
        ended = launcher.try_wait().expect("a child");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|ended| ended.code()), Some(130));
    nothing_is_left(&job);
}

#[track_caller]
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "not yet: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_launcher_that_is_killed_leaves_nothing_running() {
    let stage = Stage::new();
    let (mut launcher, job) = stage.endless();
    launcher.kill().expect("it runs");
    launcher.wait().expect("it ends");
    gone_soon(&job);
}

/// No launcher is left to wait for the hosts: they end the job themselves.
#[track_caller]
fn gone_soon(job: &str) {
    soon("nothing is left", || running(job).is_empty() && folders(job).is_empty());
}

#[test]
fn invalid_usage_is_reported() {
    let stage = Stage::new();
    let mut command = stage.hosts.command(env!("CARGO_BIN_EXE_wirelane"));
    let output =
        command.args(["launch", "mpi", "--hosts", "a"]).output().expect("the program runs");
    complains(&output, 2, &["no command"]);
    let mut command = stage.hosts.command(env!("CARGO_BIN_EXE_wirelane"));
    let words = ["launch", "mpi", "--hosts", "a", "--ps", "1", "--", "true"];
    complains(&command.args(words).output().expect("the program runs"), 2, &["--ps", "tensorflow"]);
    let output = stage.launch(&["--hosts", "a", "--np", "1"], "true");
    complains(&output, 2, &["--np is not for tensorflow"]);
}
