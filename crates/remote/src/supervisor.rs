//! Keeps a job on one host, by one ssh that lives as long as the job, or by a shell on this machine.
//!
//! What runs there is `supervisor.sh`. It takes orders from its input, so that it ends with us however we end: in order, by
//! Ctrl-C, by `kill -9`, or because the network fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use jobs::job::shell_word;
use jobs::proof::Look;

use super::error::Error;
use super::shell::Shell;

/// One host's supervisor.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    /// Dropped: its input ends, and so does the job there.
    orders: Option<Sender<Vec<u8>>>,
}

/// What a supervisor reports.
#[derive(Debug, PartialEq)]
pub enum SupervisorEvent {
    /// It has its folder, and takes orders.
    Ready,
    /// It cannot do its work, and why.
    Refused(String),
    /// The job printed a line.
    Line(Stream, String),
    /// What it was ordered to run has ended, with this code.
    Exit(i32),
    /// What the host's counters read.
    Counters(Look),
    /// Its outputs are closed: it is no more.
    Gone,
}

/// Which of its outputs a job wrote a line to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// stdout.
    Out,
    /// stderr.
    Err,
}

impl Supervisor {
    /// Starts one for a job whose folder there shall be `folder`. Events go to `report`, from threads of its own, as long as
    /// it returns true.
    pub fn start(
        shell: &Shell,
        job: &str,
        folder: &str,
        report: impl Fn(SupervisorEvent) -> bool + Clone + Send + 'static,
    ) -> Result<Supervisor, Error> {
        let mut command =
            shell.command(&["ServerAliveInterval=15", "ServerAliveCountMax=3"], &begin());
        // Ctrl-C in a terminal is for us alone: we end things in order.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| Error::start(shell, source))?;
        let orders = orders(&mut child);
        listen(&mut child, &mark(job), report);
        let supervisor = Supervisor { child, orders: Some(orders) };
        let text = script(job, folder);
        supervisor.order(format!("{}\n{text}", text.len()).into_bytes());
        Ok(supervisor)
    }

    /// Writes a file into the job's folder.
    pub fn file(&self, name: &str, text: &str) {
        self.order(format!("file {name} {}\n{text}", text.len()).into_bytes());
    }

    /// Runs a file of the folder; [`SupervisorEvent::Exit`] tells its end.
    pub fn run(&self, name: &str) {
        self.order(format!("run {name}\n").into_bytes());
    }

    /// Reads the host's counters; [`SupervisorEvent::Counters`] brings them.
    pub fn look(&self) {
        self.order(b"look\n".to_vec());
    }

    /// Says that we are still here.
    pub fn keep_alive(&self) {
        self.order(b"alive\n".to_vec());
    }

    /// Ends the job there. What it reports until it is gone still comes.
    pub fn end(&mut self) {
        self.orders = None;
    }

    /// Whether it is no more, within a time; the connection is then cut, which ends it too.
    pub fn wait(&mut self, until: Instant) -> bool {
        loop {
            if let Ok(Some(_)) = self.child.try_wait() {
                return true;
            }
            if Instant::now() >= until {
                // It may have ended by itself meanwhile.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn order(&self, order: Vec<u8>) {
        if let Some(orders) = &self.orders {
            // One that is gone closes its outputs, which is reported.
            let _ = orders.send(order);
        }
    }
}

/// A pipe may be full for as long as a host stands still: orders are written by a thread of their own.
fn orders(child: &mut Child) -> Sender<Vec<u8>> {
    let (sender, receiver) = channel::<Vec<u8>>();
    if let Some(mut input) = child.stdin.take() {
        std::thread::spawn(move || {
            while let Ok(order) = receiver.recv() {
                if input.write_all(&order).and_then(|()| input.flush()).is_err() {
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
            report(SupervisorEvent::Gone);
        });
    }
}

/// As long as `take` returns true. A line without end is cut into several.
fn each_line(output: impl Read, mut take: impl FnMut(String) -> bool) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while (&mut output).take(LONGEST_LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if !take(String::from_utf8_lossy(&line).into_owned()) {
            return;
        }
        line.clear();
    }
}

/// Separates what the supervisor reports from what the job prints.
#[derive(Debug, Default)]
struct Reader {
    mark: String,
    /// An empty line, which may be the one that the supervisor begins with.
    is_held: bool,
    /// Lines of a look, while there is one.
    look: Option<String>,
}

impl Reader {
    fn read(&mut self, line: String) -> Vec<SupervisorEvent> {
        if let Some(word) = line.strip_prefix(&self.mark) {
            self.is_held = false;
            return self.word(word.trim()).into_iter().collect();
        }
        if let Some(look) = &mut self.look {
            if look.len() < LONGEST_LOOK {
                look.push_str(&line);
                look.push('\n');
            }
            return Vec::new();
        }
        let mut lines = Vec::new();
        if std::mem::replace(&mut self.is_held, line.is_empty()) {
            lines.push(SupervisorEvent::Line(Stream::Out, String::new()));
        }
        if !line.is_empty() {
            lines.push(SupervisorEvent::Line(Stream::Out, line));
        }
        lines
    }

    fn word(&mut self, word: &str) -> Option<SupervisorEvent> {
        match word.split_once(' ').unwrap_or((word, "")) {
            ("ready", _) => Some(SupervisorEvent::Ready),
            ("refused", why) => Some(SupervisorEvent::Refused(why.to_owned())),
            ("exit", code) => Some(SupervisorEvent::Exit(code.parse().unwrap_or(UNKNOWN_CODE))),
            ("looking", _) => {
                self.look = Some(String::new());
                None
            }
            ("seen", _) => {
                Some(SupervisorEvent::Counters(Look::parse(&self.look.take().unwrap_or_default())))
            }
            _ => None,
        }
    }
}

/// What stands before each word of a job's supervisor.
fn mark(job: &str) -> String {
    format!("\u{1}wirelane-{job} ")
}

/// Takes the script from the input: the user's shell there may be of another kind, and must understand this line alone.
fn begin() -> String {
    let line = "IFS= read -r length && eval \"$(dd bs=1 count=\"$length\" 2>/dev/null)\"";
    format!("exec sh -c {}", shell_word(line))
}

fn script(job: &str, folder: &str) -> String {
    format!(
        "job={}\ndir={}\nlook() {{\n  {}\n}}\n{SUPERVISOR}",
        shell_word(job),
        shell_word(folder),
        Look::COMMAND
    )
}

const SUPERVISOR: &str = include_str!("supervisor.sh");
/// What a shell has for a command that failed, where nobody knows how.
const UNKNOWN_CODE: i32 = 1;
const LONGEST_LINE: u64 = 64 << 10;
/// A thousand virtual functions with a hundred counters each.
const LONGEST_LOOK: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;

    /// A supervisor on this machine, its folder, and what it says.
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
    fn a_command_runs_in_a_folder_of_the_jobs_own_and_its_end_is_reported() {
        let job = id("runs");
        let (mut supervisor, folder, rx) = supervisor(&job);
        assert_eq!(next(&rx), SupervisorEvent::Ready);
        supervisor.file("two-words", "echo \"$WIRELANE_JOB\"; echo; printf 'no end'; exit 7\n");
        supervisor.run("two-words");
        assert_eq!(next(&rx), out(&job));
        assert_eq!(next(&rx), out(""));
        assert_eq!(next(&rx), out("no end"));
        assert_eq!(next(&rx), SupervisorEvent::Exit(7));
        supervisor.look();
        let SupervisorEvent::Counters(look) = next(&rx) else { panic!("a look") };
        assert_ne!(look, Look::default(), "there is a net device at least");
        assert!(Path::new(&folder).is_dir());
        supervisor.end();
        assert_eq!(next(&rx), SupervisorEvent::Gone);
        assert!(supervisor.wait(Instant::now() + Duration::from_secs(60)));
        assert!(!Path::new(&folder).exists() && !is_running(&job));
    }

    #[test]
    fn whatever_runs_on_ends_with_the_supervisors_input() {
        let job = id("ends");
        let (mut supervisor, folder, rx) = supervisor(&job);
        assert_eq!(next(&rx), SupervisorEvent::Ready);
        // One that has left its parent, and one that does not heed.
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
    fn one_that_dropped_its_environment_ends_too() {
        let job = id("bare");
        let (mut supervisor, folder, rx) = supervisor(&job);
        assert_eq!(next(&rx), SupervisorEvent::Ready);
        supervisor.file("bare", "env -i sh -c 'echo $$; exec sleep 1000'\n");
        supervisor.run("bare");
        let SupervisorEvent::Line(Stream::Out, pid) = next(&rx) else { panic!("its number") };
        supervisor.end();
        assert!(supervisor.wait(Instant::now() + Duration::from_secs(60)));
        assert!(!Path::new(&folder).exists() && !Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_folder_that_is_there_already_is_somebody_elses() {
        let job = id("taken");
        let folder = std::env::temp_dir().join(format!("wirelane-test-{job}"));
        std::fs::create_dir(&folder).expect("a folder");
        let (mut supervisor, _, rx) = supervisor(&job);
        let refused =
            (0..2).map(|_| next(&rx)).any(|what| matches!(what, SupervisorEvent::Refused(_)));
        assert!(refused);
        assert!(supervisor.wait(Instant::now() + Duration::from_secs(60)));
        std::fs::remove_dir(&folder).expect("it is left alone");
    }
}
