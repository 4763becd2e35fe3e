//! What a job prints: shown with its host's name before each line, and kept in logs.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jobs::launch::{Launch, Tag};

use crate::output;
use crate::output::Failure;
use crate::output::write_queue::WriteQueue;
use remote::Stream;

/// Shows and keeps lines.
pub(super) struct JobOutput {
    folder: PathBuf,
    /// Hosts in the order of their supervisors; the last may be what starts the ranks.
    sources: Vec<Source>,
    /// How the last one marks its ranks' lines, and how many ranks each host has.
    tag: Option<Tag>,
    slots: Vec<u32>,
    /// The job's stdout goes to stderr: stdout is for one JSON document.
    is_apart: bool,
    terminal: WriteQueue<Shown>,
    /// What the terminal has no room for yet.
    behind: Option<Shown>,
    /// Nobody waits for the terminal any more.
    is_hurried: bool,
}

/// A line for the terminal.
struct Shown {
    is_answer: bool,
    text: String,
}

struct Source {
    name: String,
    log: File,
}

impl JobOutput {
    /// With logs in a folder of the job's own, in `folder` or where programs keep such things.
    pub(super) fn open(
        launch: &Launch,
        folder: Option<&Path>,
        is_apart: bool,
    ) -> Result<JobOutput, Failure> {
        let place = match folder {
            Some(folder) => folder.to_owned(),
            None => state_folder()?,
        };
        let folder = place.join(&launch.id);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| failed(&folder, &error))?;
        let head = launch.head.as_ref().map(|head| (head_name(&head.command), head.tag));
        let hosts = launch.hosts.iter().map(|host| host.host.as_str());
        let names = hosts.chain(head.as_ref().map(|(name, _)| name.as_str()));
        let sources = names.map(|name| Source::open(name, &folder)).collect::<Result<_, _>>()?;
        Ok(JobOutput {
            folder,
            sources,
            tag: head.map(|(_, tag)| tag),
            slots: launch.hosts.iter().map(|host| host.slots).collect(),
            is_apart,
            terminal: WriteQueue::open("wirelane-printer", print)
                .map_err(|error| Failure::failed(format!("start a thread to print: {error}")))?,
            behind: None,
            is_hurried: false,
        })
    }

    /// Where the logs are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps a text beside the logs. What cannot be kept does not end a job.
    pub(super) fn keep(&self, name: &str, text: &str) {
        if let Err(error) = std::fs::write(self.folder.join(name), text) {
            output::warning(&format!("write into {}: {error}", self.folder.display()));
        }
    }

    /// A line of a source, by its number.
    pub(super) fn line(&mut self, source: usize, stream: Stream, line: &str) {
        let (source, line) = self.whose(source, line);
        let Some(source) = self.sources.get_mut(source) else { return };
        // A full disk is no reason to end a job.
        let _ = writeln!(source.log, "{line}");
        let text = format!("{}| {}", source.name, last_drawn(line));
        let is_answer = stream == Stream::Out && !self.is_apart;
        self.behind = self.terminal.put(Shown { is_answer, text }).err();
    }

    /// Whether the terminal stands still (`| less`, Ctrl-S), so that nothing more should be said for now.
    pub(super) fn is_behind(&mut self) -> bool {
        if let Some(line) = self.behind.take() {
            self.behind = self.terminal.put(line).err();
        }
        self.behind.is_some() && !self.is_hurried
    }

    /// From now on what the terminal has no room for is in the logs alone.
    pub(super) fn hurry(&mut self) {
        self.is_hurried = true;
    }

    /// Whether all was shown, within a time.
    pub(super) fn flush(&self, patience: Duration) -> bool {
        self.terminal.flush(patience)
    }

    /// What starts the ranks prints for all of them, and marks whose line it is.
    fn whose<'l>(&self, source: usize, line: &'l str) -> (usize, &'l str) {
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

fn print(line: Shown) {
    match line.is_answer {
        // Who reads no more has seen enough, and the job goes on.
        true => drop(output::answer(&format!("{}\n", line.text))),
        false => output::note(&line.text),
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

/// What starts the ranks, without its folder: `mpirun`.
pub(super) fn head_name(command: &[String]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    program.map_or_else(|| "launcher".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Progress bars draw a line again and again: what a terminal would show of it in the end.
fn last_drawn(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').next().unwrap_or(line)
}

/// Of the user, or of the machine for root.
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
                "no place for logs: neither XDG_STATE_HOME nor HOME is set; name one by --log-dir",
            ));
        }
    };
    Ok(state.join("wirelane/jobs"))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!(
        "keep logs in {}: {error}; --log-dir names another folder",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_bar_is_shown_as_it_stands_in_the_end() {
        assert_eq!(last_drawn(" 10 %\r 50 %\r100 %\r"), "100 %");
        assert_eq!(last_drawn("plain"), "plain");
        assert_eq!(last_drawn(""), "");
    }
}
