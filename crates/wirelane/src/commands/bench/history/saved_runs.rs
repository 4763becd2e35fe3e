//! Saved runs: a folder with one document per file; the file names sort by time.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use report::Document;

use super::super::report::read_limited;
use crate::output::{Failure, file};

/// The folder of saved runs.
#[derive(Debug)]
pub(in crate::commands::bench) struct SavedRuns {
    folder: PathBuf,
}

/// All saved runs.
#[derive(Debug)]
pub(in crate::commands::bench) struct History {
    /// From the oldest to the newest.
    pub(in crate::commands::bench) runs: Vec<SavedRun>,
    /// Files that could not be read, and why.
    pub(super) skipped: Vec<String>,
    pub(super) folder: PathBuf,
}

/// A saved run.
#[derive(Debug)]
pub(in crate::commands::bench) struct SavedRun {
    pub(super) id: String,
    pub(in crate::commands::bench) document: Document,
    pub(in crate::commands::bench) is_baseline: bool,
}

impl SavedRuns {
    /// The folder in the user's state directory, or for root in the system's.
    pub(in crate::commands::bench) fn of_user() -> Result<SavedRuns, String> {
        let directory = |name| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let state = match (directory("XDG_STATE_HOME"), directory("HOME")) {
            (Some(state), _) => state,
            (None, _) if rustix::process::geteuid().is_root() => PathBuf::from("/var/lib"),
            (None, Some(home)) => home.join(".local/state"),
            (None, None) => {
                return Err(
                    "cannot save results: neither XDG_STATE_HOME nor HOME is set".to_owned()
                );
            }
        };
        Ok(SavedRuns { folder: state.join("wirelane/bench") })
    }

    /// Saves a run. Returns its file.
    pub(in crate::commands::bench) fn save(&self, document: &Document) -> Result<PathBuf, String> {
        let text =
            serde_json::to_string(document).map_err(|error| format!("save the result: {error}"))?;
        if text.len() > MAX_DOCUMENT_BYTES {
            return Err("save the result: larger than 4 MiB".to_owned());
        }
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        created.map_err(|error| self.failed("create", &error))?;
        let path = self.unused_path(document);
        file::write(&path, text.as_bytes(), file::PRIVATE)
            .map_err(|error| self.failed("write into", &error))?;
        self.drop_oldest()?;
        Ok(path)
    }

    /// Reads all runs; skips files that cannot be read.
    pub(in crate::commands::bench) fn load(&self) -> Result<History, String> {
        let baselines = self.baselines();
        let (mut runs, mut skipped) = (Vec::new(), Vec::new());
        for (id, path) in self.files()? {
            let text = read_limited(&path).map_err(|error| error.to_string());
            match text.and_then(|text| Document::parse(&text)) {
                Ok(document) => {
                    let is_baseline = baselines.contains(&id);
                    runs.push(SavedRun { id, document, is_baseline });
                }
                Err(why) => skipped.push(format!("skipped {}: {why}", path.display())),
            }
        }
        Ok(History { runs, skipped, folder: self.folder.clone() })
    }

    /// Sets the runs that later ones are compared with.
    pub(super) fn set_baselines(&self, ids: &[&str]) -> Result<(), String> {
        let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let written = file::write(&self.folder.join(BASELINES), text.as_bytes(), file::PRIVATE);
        written.map_err(|error| self.failed("write into", &error))
    }

    fn baselines(&self) -> Vec<String> {
        let text = read_limited(&self.folder.join(BASELINES)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// IDs and files, from the oldest to the newest. Empty if the folder does not exist.
    fn files(&self) -> Result<Vec<(String, PathBuf)>, String> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let paths =
            entries.take(MAX_DIRECTORY_ENTRIES).filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<(String, PathBuf)> =
            paths.filter_map(|path| Some((id_of(&path)?, path))).collect();
        files.sort();
        Ok(files)
    }

    /// A file that no run has yet: two runs may start within a second.
    fn unused_path(&self, document: &Document) -> PathBuf {
        let digits =
            document.when.chars().filter(char::is_ascii_digit).take(14).collect::<String>();
        let (day, time) = digits.split_at(digits.len().min(8));
        let id = format!("{day}-{time}-{}", document.kind.name());
        let path = |id: &str| self.folder.join(format!("{id}.json"));
        let more = (2..1000).map(|number| format!("{id}-{number}"));
        let mut ids = std::iter::once(id.clone()).chain(more);
        let free = ids.find(|id| !path(id).exists()).unwrap_or(id);
        path(&free)
    }

    /// Deletes the oldest runs until the number and size are within the limits. Baselines stay.
    fn drop_oldest(&self) -> Result<(), String> {
        let baselines = self.baselines();
        let files = self.files()?;
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let mut bytes: u64 = files.iter().map(|(_, path)| size(path)).sum();
        let mut count = files.len();
        for (_, path) in files.iter().filter(|(id, _)| !baselines.contains(id)) {
            if count <= MAX_RUNS && bytes <= MAX_BYTES {
                break;
            }
            bytes -= size(path).min(bytes);
            count -= 1;
            fs::remove_file(path).map_err(|error| self.failed("drop the oldest of", &error))?;
        }
        Ok(())
    }

    fn failed(&self, what: &str, error: &io::Error) -> String {
        format!("{what} {}: {error}", self.folder.display())
    }
}

impl History {
    /// A run by its ID, by a unique part of it, or `last`.
    pub(super) fn find(&self, id: &str) -> Result<&SavedRun, Failure> {
        if let Some(last) = self.runs.last().filter(|_| id == "last") {
            return Ok(last);
        }
        if let Some(run) = self.runs.iter().find(|run| run.id == id) {
            return Ok(run);
        }
        let matches: Vec<&SavedRun> = self.runs.iter().filter(|run| run.id.contains(id)).collect();
        match &matches[..] {
            [run] => Ok(run),
            [] => Err(Failure::no(format!("no run {id}: list them with `wirelane bench history`"))),
            [one, other, ..] => Err(Failure::usage(format!(
                "{id} is ambiguous: it matches {} and {}",
                one.id, other.id
            ))),
        }
    }
}

/// The ID in a file name, if it has the form of ours.
fn id_of(path: &Path) -> Option<String> {
    let id = path.file_name()?.to_str()?.strip_suffix(".json")?;
    let ours = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    (!id.is_empty() && id.len() < 64 && id.chars().all(ours)).then(|| id.to_owned())
}

const BASELINES: &str = "baselines";
const MAX_RUNS: usize = 500;
const MAX_BYTES: u64 = 64 << 20;
const MAX_DOCUMENT_BYTES: usize = 4 << 20;
const MAX_DIRECTORY_ENTRIES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use report::RunKind;

    fn saved_runs() -> (tempfile::TempDir, SavedRuns) {
        let folder = tempfile::tempdir().expect("a folder");
        let saved_runs = SavedRuns { folder: folder.path().join("a/b") };
        (folder, saved_runs)
    }

    fn run(second: usize) -> Document {
        let when =
            format!("2026-11-15T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60);
        Document::new(RunKind::Bw, when, "gpu1".to_owned())
    }

    #[test]
    fn runs_are_loaded_in_order_of_time() {
        let (_folder, saved_runs) = saved_runs();
        assert!(saved_runs.load().expect("nothing").runs.is_empty());
        for second in [7, 3, 3] {
            saved_runs.save(&run(second)).expect("saved");
        }
        let history = saved_runs.load().expect("runs");
        let ids: Vec<&str> = history.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids, ["20261115-000003-bw", "20261115-000003-bw-2", "20261115-000007-bw"]);
        assert_eq!(history.find("000007").expect("one").document, run(7));
        assert_eq!(history.find("last").expect("one").document, run(7));
        assert_eq!(history.find("20261115-000003-bw").expect("an exact match").document, run(3));
        assert!(history.find("000003").is_err() && history.find("../../etc/passwd").is_err());
    }

    #[test]
    fn the_oldest_run_is_deleted_and_a_baseline_is_not() {
        let (_folder, saved_runs) = saved_runs();
        saved_runs.save(&run(0)).expect("saved");
        saved_runs.set_baselines(&["20261115-000000-bw"]).expect("set");
        for second in 1..=MAX_RUNS + 1 {
            saved_runs.save(&run(second)).expect("saved");
        }
        let history = saved_runs.load().expect("runs");
        assert_eq!(history.runs.len(), MAX_RUNS);
        assert!(history.runs[0].is_baseline && history.runs[0].document == run(0));
        assert_eq!(history.runs[1].document, run(3));
    }

    #[test]
    fn an_unreadable_file_is_skipped_and_reported() {
        let (_folder, saved_runs) = saved_runs();
        saved_runs.save(&run(1)).expect("saved");
        let wrong = saved_runs.folder.join("20261115-000002-bw.json");
        fs::write(&wrong, "{\"format\": \"wirelane bench 1\", \"half").expect("a file");
        fs::write(saved_runs.folder.join("notes.txt"), "mine").expect("a file");
        let history = saved_runs.load().expect("runs");
        assert_eq!(history.runs.len(), 1);
        let [skipped] = &history.skipped[..] else { panic!("{:?}", history.skipped) };
        assert!(skipped.contains(wrong.to_str().expect("text")), "{skipped}");
    }
}
