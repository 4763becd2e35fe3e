//! Keeps a job running on one host, by one ssh connection for the whole job, or by a local shell.
//!
//! On the host runs `supervisor.sh`. It reads commands from its input, so that it ends when this process ends, whatever the cause: normal exit,
//! Ctrl-C, `kill -9`, or a network failure.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use jobs::environment::shell_word;
use jobs::traffic::CounterSample;

use super::error::Error;
use super::shell::Shell;

/// One host's supervisor.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    /// `None`: its input is closed, which ends the job there.
    commands: Option<Sender<Vec<u8>>>,
}

/// An event of a supervisor.
#[derive(Debug, PartialEq)]
pub enum SupervisorEvent {
    /// The folder exists, and commands are accepted.
    Ready,
    /// It cannot start: the reason.
    Refused(String),
    /// The job printed a line.
    Line(Stream, String),
    /// The file that it ran has ended with this code.
    Exit(i32),
    /// The values of the host's counters.
    Counters(CounterSample),
    /// Its output is closed: it has ended, or the connection was lost.
    Closed,
}

/// The output stream of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// stdout.
    Out,
    /// stderr.
    Err,
}

impl Supervisor {
    /// Starts a supervisor for a job that uses `folder` there. Its threads pass events to `report` as long as
    /// that returns true.
    pub fn start(
        shell: &Shell,
        job: &str,
        folder: &str,
        report: impl Fn(SupervisorEvent) -> bool + Clone + Send + 'static,
    ) -> Result<Supervisor, Error> {
        let mut command =
            shell.command(&["ServerAliveInterval=15", "ServerAliveCountMax=3"], &begin());
        // Ctrl-C in a terminal must reach this process only, which shuts down in order.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| Error::start(shell, source))?;
        let commands = commands(&mut child);
        listen(&mut child, &mark(job), report);
        let supervisor = Supervisor { child, commands: Some(commands) };
        let text = script(job, folder);
        supervisor.send(format!("{}\n{text}", text.len()).into_bytes());
        Ok(supervisor)
    }

    /// Writes a file into the job's folder.
    pub fn file(&self, name: &str, text: &str) {
        self.send(format!("file {name} {}\n{text}", text.len()).into_bytes());
    }

    /// Runs a file of the folder; [`SupervisorEvent::Exit`] reports its end.
    pub fn run(&self, name: &str) {
        self.send(format!("run {name}\n").into_bytes());
    }

    /// Reads the host's counters; [`SupervisorEvent::Counters`] reports them.
    pub fn read_counters(&self) {
        self.send(b"counters\n".to_vec());
    }

    /// Sends a sign of life.
    pub fn keep_alive(&self) {
        self.send(b"alive\n".to_vec());
    }

    /// Ends the job there. Events until its end are still reported.
    pub fn end(&mut self) {
        self.commands = None;
    }

    /// Waits for its end; returns false at the deadline, after closing the connection, which ends it too.
    pub fn wait(&mut self, until: Instant) -> bool {
        loop {
            if let Ok(Some(_)) = self.child.try_wait() {
                return true;
            }
            if Instant::now() >= until {
                // The process may have ended meanwhile.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn send(&self, command: Vec<u8>) {
        if let Some(commands) = &self.commands {
            // If it has ended, `Closed` is reported.
            let _ = commands.send(command);
        }
    }
}

/// Commands are written by a separate thread, since the pipe may stay full while a host hangs.
fn commands(child: &mut Child) -> Sender<Vec<u8>> {
    let (sender, receiver) = channel::<Vec<u8>>();
    if let Some(mut input) = child.stdin.take() {
        std::thread::spawn(move || {
            while let Ok(command) = receiver.recv() {
                if input.write_all(&command).and_then(|()| input.flush()).is_err() {
                    return;
                }
            }
        });
    }
    sender
}

fn listen(
    child: &mut Child,
    mark: &str,
    report: impl Fn(SupervisorEvent) -> bool + Clone + Send + 'static,
) {
    if let Some(output) = child.stderr.take() {
        let report = report.clone();
        std::thread::spawn(move || {
            each_line(output, |line| report(SupervisorEvent::Line(Stream::Err, line)));
        });
    }
    if let Some(output) = child.stdout.take() {
        let mut reader = Reader { mark: mark.to_owned(), ..Reader::default() };
        std::thread::spawn(move || {
            each_line(output, |line| reader.read(line).into_iter().all(&report));
            report(SupervisorEvent::Closed);
        });
    }
}

/// Calls `take` for each line as long as it returns true. A line longer than the limit is split.
fn each_line(output: impl Read, mut take: impl FnMut(String) -> bool) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while (&mut output).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).is_ok_and(|read| read > 0)
    {
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if !take(String::from_utf8_lossy(&line).into_owned()) {
            return;
        }
        line.clear();
    }
}

/// Separates the supervisor's reports from the job's output.
#[derive(Debug, Default)]
struct Reader {
    mark: String,
    /// The last line was empty; it may be the one that precedes each report.
    has_empty_line: bool,
    /// The counters' lines, while they are being received.
    counters: Option<String>,
}

impl Reader {
    fn read(&mut self, line: String) -> Vec<SupervisorEvent> {
        if let Some(report) = line.strip_prefix(&self.mark) {
            self.has_empty_line = false;
            return self.report(report.trim()).into_iter().collect();
        }
        if let Some(counters) = &mut self.counters {
            if counters.len() < MAX_COUNTERS_BYTES {
                counters.push_str(&line);
                counters.push('\n');
            }
            return Vec::new();
        }
        let mut lines = Vec::new();
        if std::mem::replace(&mut self.has_empty_line, line.is_empty()) {
            lines.push(SupervisorEvent::Line(Stream::Out, String::new()));
        }
        if !line.is_empty() {
            lines.push(SupervisorEvent::Line(Stream::Out, line));
        }
        lines
    }

    fn report(&mut self, report: &str) -> Option<SupervisorEvent> {
        match report.split_once(' ').unwrap_or((report, "")) {
            ("ready", _) => Some(SupervisorEvent::Ready),
            ("refused", reason) => Some(SupervisorEvent::Refused(reason.to_owned())),
            ("exit", code) => Some(SupervisorEvent::Exit(code.parse().unwrap_or(UNKNOWN_CODE))),
            ("counters-begin", _) => {
                self.counters = Some(String::new());
                None
            }
            ("counters-end", _) => Some(SupervisorEvent::Counters(CounterSample::parse(
                &self.counters.take().unwrap_or_default(),
            ))),
            _ => None,
        }
    }
}

/// The prefix of each report of a job's supervisor.
fn mark(job: &str) -> String {
    format!("\u{1}wirelane-{job} ")
}

/// Reads the script from the input: the user's login shell may not be a POSIX shell, and interprets only this line.
fn begin() -> String {
    let line = "IFS= read -r length && eval \"$(dd bs=1 count=\"$length\" 2>/dev/null)\"";
    format!("exec sh -c {}", shell_word(line))
}

fn script(job: &str, folder: &str) -> String {
    format!(
        "job={}\ndir={}\nread_counters() {{\n  {}\n}}\n{SUPERVISOR}",
        shell_word(job),
        shell_word(folder),
        CounterSample::COMMAND
    )
}

const SUPERVISOR: &str = include_str!("supervisor.sh");
/// Used if the exit code cannot be parsed.
const UNKNOWN_CODE: i32 = 1;
const MAX_LINE_BYTES: u64 = 64 << 10;
/// A thousand virtual functions with a hundred counters each.
const MAX_COUNTERS_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;

    /// A supervisor on this machine, its folder, and its events.
    fn supervisor(job: &str) -> (Supervisor, String, Receiver<SupervisorEvent>) {
        let (tx, rx) = sync_channel(1024);
        let folder = std::env::temp_dir().join(format!("wirelane-test-{job}"));
        let folder = folder.to_str().expect("a plain path").to_owned();
        let here = Shell::on("localhost").expect("a name");
        let report = move |event| tx.send(event).is_ok();
        let supervisor = Supervisor::start(&here, job, &folder, report).expect("a supervisor");
        (supervisor, folder, rx)
    }

    fn next(rx: &Receiver<SupervisorEvent>) -> SupervisorEvent {
        rx.recv_timeout(Duration::from_secs(60)).expect("an event")
    }

    fn out(text: &str) -> SupervisorEvent {
        SupervisorEvent::Line(Stream::Out, text.to_owned())
    }

    /// A job's id that no other test has.
    fn id(name: &str) -> String {
        format!("{name}{}", std::process::id())
    }

    fn is_running(job: &str) -> bool {
        let marked = |entry: std::fs::DirEntry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&format!("WIRELANE_JOB={job}\0"))
        };
        std::fs::read_dir("/proc").expect("/proc").flatten().any(marked)
    }

    #[test]
    fn a_file_runs_in_the_jobs_folder_and_its_end_is_reported() {
        let job = id("runs");
        let (mut supervisor, folder, rx) = supervisor(&job);
        assert_eq!(next(&rx), SupervisorEvent::Ready);
        supervisor.file("two-words", "echo \"$WIRELANE_JOB\"; echo; printf 'no end'; exit 7\n");
        supervisor.run("two-words");
        assert_eq!(next(&rx), out(&job));
        assert_eq!(next(&rx), out(""));
        assert_eq!(next(&rx), out("no end"));
        assert_eq!(next(&rx), SupervisorEvent::Exit(7));
        supervisor.read_counters();
        let SupervisorEvent::Counters(counters) = next(&rx) else { panic!("counters") };
        assert_ne!(counters, CounterSample::default(), "there is a net device at least");
        assert!(Path::new(&folder).is_dir());
        supervisor.end();
        assert_eq!(next(&rx), SupervisorEvent::Closed);
        assert!(supervisor.wait(Instant::now() + Duration::from_secs(60)));
        assert!(!Path::new(&folder).exists() && !is_running(&job));
    }

    #[test]
    fn processes_end_when_the_supervisors_input_is_closed() {
        let job = id("ends");
        let (mut supervisor, folder, rx) = supervisor(&job);
        assert_eq!(next(&rx), SupervisorEvent::Ready);
        // A process in another session, and one that ignores SIGTERM.
        supervisor.file(
            "stay",
            "(setsid sleep 1000 >/dev/null 2>&1 &)\ntrap '' TERM\necho up\nwhile :; do sleep 1; done\n",
        );
        supervisor.run("stay");
        assert_eq!(next(&rx), out("up"));
        assert!(is_running(&job));
        supervisor.end();
        assert!(supervisor.wait(Instant::now() + Duration::from_secs(60)));
        assert!(!Path::new(&folder).exists() && !is_running(&job));
    }

    #[test]
    fn a_process_without_the_jobs_environment_ends_too() {
        let job = id("bare");
        let (mut supervisor, folder, rx) = supervisor(&job);
        assert_eq!(next(&rx), SupervisorEvent::Ready);
        supervisor.file("bare", "env -i sh -c 'echo $$; exec sleep 1000'\n");
        supervisor.run("bare");
        let SupervisorEvent::Line(Stream::Out, pid) = next(&rx) else { panic!("a pid") };
        supervisor.end();
        assert!(supervisor.wait(Instant::now() + Duration::from_secs(60)));
        assert!(!Path::new(&folder).exists() && !Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn an_existing_folder_is_refused_and_kept() {
        let job = id("taken");
        let folder = std::env::temp_dir().join(format!("wirelane-test-{job}"));
        std::fs::create_dir(&folder).expect("a folder");
        let (mut supervisor, _, rx) = supervisor(&job);
        let refused =
            (0..2).map(|_| next(&rx)).any(|event| matches!(event, SupervisorEvent::Refused(_)));
        assert!(refused);
        assert!(supervisor.wait(Instant::now() + Duration::from_secs(60)));
        std::fs::remove_dir(&folder).expect("the folder is kept");
    }
}
