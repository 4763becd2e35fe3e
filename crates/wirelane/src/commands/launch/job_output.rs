//! The output of a job: printed with the host name before each line, and written to log files.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jobs::launch::{Launch, Tag};

use crate::output;
use crate::output::Failure;
use crate::output::write_queue::WriteQueue;
use remote::Stream;

/// Prints and logs lines.
pub(super) struct JobOutput {
    folder: PathBuf,
    /// Hosts in the order of their supervisors; the last may be the launcher of the ranks.
    sources: Vec<Source>,
    /// How the launcher tags the lines of its ranks, and the number of ranks of each host.
    tag: Option<Tag>,
    slots: Vec<u32>,
    /// With --json: the job's stdout goes to stderr.
    to_stderr: bool,
    terminal: WriteQueue<TerminalLine>,
    /// A line for which the queue of the terminal was full.
    pending: Option<TerminalLine>,
    /// Lines are dropped if the queue is full: they are only in the logs.
    drops_lines: bool,
    /// Why the first line that was not printed or logged was not.
    lost: Arc<OnceLock<String>>,
}

/// A line for the terminal.
struct TerminalLine {
    is_stdout: bool,
    text: String,
}

struct Source {
    name: String,
    log: File,
}

impl JobOutput {
    /// With logs in a directory for this job, in `folder` or the state directory.
    pub(super) fn open(
        launch: &Launch,
        folder: Option<&Path>,
        to_stderr: bool,
    ) -> Result<JobOutput, Failure> {
        let parent = match folder {
            Some(folder) => folder.to_owned(),
            None => state_folder()?,
        };
        let folder = parent.join(&launch.id);
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        created.map_err(|error| failed(&folder, &error))?;
        let launcher = launch
            .launcher
            .as_ref()
            .map(|launcher| (launcher_name(&launcher.command), launcher.tag));
        let hosts = launch.hosts.iter().map(|host| host.host.as_str());
        let names = hosts.chain(launcher.as_ref().map(|(name, _)| name.as_str()));
        let sources = names.map(|name| Source::open(name, &folder)).collect::<Result<_, _>>()?;
        let lost = Arc::new(OnceLock::new());
        let not_printed = lost.clone();
        let print = move |line| print(line, &not_printed);
        Ok(JobOutput {
            folder,
            sources,
            tag: launcher.map(|(_, tag)| tag),
            slots: launch.hosts.iter().map(|host| host.slots).collect(),
            to_stderr,
            terminal: WriteQueue::open("wirelane-printer", print)
                .map_err(|error| Failure::failed(format!("start a thread to print: {error}")))?,
            pending: None,
            drops_lines: false,
            lost,
        })
    }

    /// The directory of the logs.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a text beside the logs. Errors are only warnings.
    pub(super) fn write_file(&self, name: &str, text: &str) {
        if let Err(error) = std::fs::write(self.folder.join(name), text) {
            output::warning(&format!("write to {}: {error}", self.folder.display()));
        }
    }

    /// Adds a line of a source, by its number.
    pub(super) fn line(&mut self, source: usize, stream: Stream, line: &str) {
        let (source, line) = self.untag(source, line);
        let Some(source) = self.sources.get_mut(source) else { return };
        // A full disk must not end the job.
        if let Err(error) = writeln!(source.log, "{line}") {
            let _ = self.lost.set(format!("write the log of {}: {error}", source.name));
        }
        let text = format!("{}| {}", source.name, last_drawn(line));
        let is_stdout = stream == Stream::Out && !self.to_stderr;
        self.pending = self.terminal.put(TerminalLine { is_stdout, text }).err();
    }

    /// Whether the terminal is blocked (`| less`, Ctrl-S), so that no more lines should be added for now.
    pub(super) fn is_blocked(&mut self) -> bool {
        if let Some(line) = self.pending.take() {
            self.pending = self.terminal.put(line).err();
        }
        self.pending.is_some() && !self.drops_lines
    }

    /// From now on lines for which the queue is full are only in the logs.
    pub(super) fn drop_lines(&mut self) {
        self.drops_lines = true;
    }

    /// Waits until all lines are printed; false at the timeout.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        self.terminal.flush(timeout)
    }

    /// An error if a line could not be printed or logged.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Some(why) = self.lost.get() else { return Ok(()) };
        let text = "launch: the job succeeded, but not all of its output was written";
        Err(Failure::failed(format!("{text}: {why}; logs: {}", self.folder.display())))
    }

    /// The launcher prints the lines of all ranks with a tag: finds the host of a line, and removes the tag.
    fn untag<'l>(&self, source: usize, line: &'l str) -> (usize, &'l str) {
        let tagged = match self.tag {
            Some(tag) if source == self.slots.len() => tag.untag(line),
            _ => None,
        };
        let Some(tagged) = tagged else { return (source, line) };
        let mut first = 0u32;
        let host = self.slots.iter().position(|slots| {
            first = first.saturating_add(*slots);
            tagged.rank < first
        });
        (host.unwrap_or(source), tagged.text)
    }
}

fn print(line: TerminalLine, lost: &OnceLock<String>) {
    if !line.is_stdout {
        return output::coloured_note(&line.text);
    }
    // A closed stdout must not end the job.
    if let Err(failure) = output::coloured(&format!("{}\n", line.text)) {
        let _ = lost.set(failure.to_string());
    }
}

impl Source {
    fn open(name: &str, folder: &Path) -> Result<Source, Failure> {
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() || "-_.@".contains(letter) { letter } else { '_' }
        };
        let path = folder.join(format!("{}.log", name.chars().map(plain).collect::<String>()));
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|error| failed(&path, &error))?;
        Ok(Source { name: name.to_owned(), log })
    }
}

/// The name of the launcher, without its directory: `mpirun`.
pub(super) fn launcher_name(command: &[String]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    program.map_or_else(|| "launcher".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The text after the last carriage return: progress bars redraw their line.
fn last_drawn(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').next().unwrap_or(line)
}

/// The state directory of the user, or of the system for root.
fn state_folder() -> Result<PathBuf, Failure> {
    let named = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = match (named("XDG_STATE_HOME"), named("HOME")) {
        (Some(state), _) => state,
        (None, _) if rustix::process::geteuid().is_root() => PathBuf::from("/var/lib"),
        (None, Some(home)) => home.join(".local/state"),
        (None, None) => {
            return Err(Failure::failed(
                "no directory for logs: neither XDG_STATE_HOME nor HOME is set; pass --log-dir",
            ));
        }
    };
    Ok(state.join("wirelane/jobs"))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!(
        "write logs to {}: {error}; pass another directory with --log-dir",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_state_of_a_progress_bar_is_printed() {
        assert_eq!(last_drawn(" 10 %\r 50 %\r100 %\r"), "100 %");
        assert_eq!(last_drawn("plain"), "plain");
        assert_eq!(last_drawn(""), "");
    }
}
