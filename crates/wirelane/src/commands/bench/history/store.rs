//! Where runs are kept: a folder with one document in each file, whose names sort by time.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use report::Document;

use super::super::report::{read_limited, write_whole};
use crate::output::Failure;

/// The folder.
#[derive(Debug)]
pub(in crate::commands::bench) struct Store {
    folder: PathBuf,
}

/// What is in it.
#[derive(Debug)]
pub(in crate::commands::bench) struct Past {
    /// From the oldest to the newest.
    pub(in crate::commands::bench) runs: Vec<Kept>,
    /// Files that could not be read, and why.
    pub(super) skipped: Vec<String>,
    pub(super) folder: PathBuf,
}

/// A run that was kept.
#[derive(Debug)]
pub(in crate::commands::bench) struct Kept {
    pub(super) id: String,
    pub(in crate::commands::bench) document: Document,
    pub(in crate::commands::bench) is_baseline: bool,
}

impl Store {
    /// The place for what programs keep: of the user, or of the machine for root.
    pub(in crate::commands::bench) fn of_the_user() -> Result<Store, String> {
        let named = |name| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let state = match (named("XDG_STATE_HOME"), named("HOME")) {
            (Some(state), _) => state,
            (None, _) if rustix::process::geteuid().is_root() => PathBuf::from("/var/lib"),
            (None, Some(home)) => home.join(".local/state"),
            (None, None) => {
                return Err(
                    "no place to keep results: neither XDG_STATE_HOME nor HOME is set".to_owned()
                );
            }
        };
        Ok(Store { folder: state.join("wirelane/bench") })
    }

    /// Keeps a run. Gives its ID.
    pub(in crate::commands::bench) fn save(&self, document: &Document) -> Result<String, String> {
        let text =
            serde_json::to_string(document).map_err(|error| format!("keep the result: {error}"))?;
        if text.len() > MAX_KEPT {
            return Err("keep the result: it is larger than 4 MiB".to_owned());
        }
        let kept = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        kept.map_err(|error| self.failed("make", &error))?;
        let (id, path) = self.free(document);
        write_whole(&path, text.as_bytes(), 0o600)
            .map_err(|error| self.failed("write into", &error))?;
        self.drop_oldest()?;
        Ok(id)
    }

    /// Reads all that can be read.
    pub(in crate::commands::bench) fn load(&self) -> Result<Past, String> {
        let baselines = self.baselines();
        let (mut runs, mut skipped) = (Vec::new(), Vec::new());
        for (id, path) in self.files()? {
            let text = read_limited(&path).map_err(|error| error.to_string());
            match text.and_then(|text| Document::parse(&text)) {
                Ok(document) => {
                    let is_baseline = baselines.contains(&id);
                    runs.push(Kept { id, document, is_baseline });
                }
                Err(why) => skipped.push(format!("{} is skipped: {why}", path.display())),
            }
        }
        Ok(Past { runs, skipped, folder: self.folder.clone() })
    }

    /// With these runs later ones are compared.
    pub(super) fn set_baselines(&self, ids: &[&str]) -> Result<(), String> {
        let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let written = write_whole(&self.folder.join(BASELINES), text.as_bytes(), 0o600);
        written.map_err(|error| self.failed("write into", &error))
    }

    fn baselines(&self) -> Vec<String> {
        let text = read_limited(&self.folder.join(BASELINES)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// IDs and files, from the oldest to the newest. A folder that is not there holds none.
    fn files(&self) -> Result<Vec<(String, PathBuf)>, String> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let paths = entries.take(MAX_LOOKED_AT).filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<(String, PathBuf)> =
            paths.filter_map(|path| Some((id_of(&path)?, path))).collect();
        files.sort();
        Ok(files)
    }

    /// A name that no run has yet: two may begin within a second.
    fn free(&self, document: &Document) -> (String, PathBuf) {
        let digits =
            document.when.chars().filter(char::is_ascii_digit).take(14).collect::<String>();
        let (day, time) = digits.split_at(digits.len().min(8));
        let id = format!("{day}-{time}-{}", document.kind.name());
        let path = |id: &str| self.folder.join(format!("{id}.json"));
        let more = (2..1000).map(|number| format!("{id}-{number}"));
        let mut ids = std::iter::once(id.clone()).chain(more);
        let free = ids.find(|id| !path(id).exists()).unwrap_or(id);
        let path = path(&free);
        (free, path)
    }

    /// Until what is left is few and small enough. Baselines stay.
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

impl Past {
    /// The run that is meant: by its ID, by a part of it that no other has, or the newest.
    pub(super) fn find(&self, id: &str) -> Result<&Kept, Failure> {
        if let Some(last) = self.runs.last().filter(|_| id == "last") {
            return Ok(last);
        }
        if let Some(run) = self.runs.iter().find(|run| run.id == id) {
            return Ok(run);
        }
        let meant: Vec<&Kept> = self.runs.iter().filter(|run| run.id.contains(id)).collect();
        match &meant[..] {
            [run] => Ok(run),
            [] => Err(Failure::no(format!(
                "no run is called {id}: `wirelane bench history` lists them"
            ))),
            [one, other, ..] => Err(Failure::usage(format!(
                "{id} may be {} or {}: write more of it",
                one.id, other.id
            ))),
        }
    }
}

/// The ID of a file that we may have written.
fn id_of(path: &Path) -> Option<String> {
    let id = path.file_name()?.to_str()?.strip_suffix(".json")?;
    let ours = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    (!id.is_empty() && id.len() < 64 && id.chars().all(ours)).then(|| id.to_owned())
}

const BASELINES: &str = "baselines";
const MAX_RUNS: usize = 500;
const MAX_BYTES: u64 = 64 << 20;
const MAX_KEPT: usize = 4 << 20;
const MAX_LOOKED_AT: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use report::RunKind;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store { folder: folder.path().join("a/b") };
        (folder, store)
    }

    fn run(second: usize) -> Document {
        let when =
            format!("2026-11-15T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60);
        Document::new(RunKind::Bw, when, "gpu1".to_owned())
    }

    #[test]
    fn runs_come_back_in_order_of_time() {
        let (_folder, store) = store();
        assert!(store.load().expect("nothing").runs.is_empty());
        for second in [7, 3, 3] {
            store.save(&run(second)).expect("kept");
        }
        let past = store.load().expect("runs");
        let ids: Vec<&str> = past.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids, ["20261115-000003-bw", "20261115-000003-bw-2", "20261115-000007-bw"]);
        assert_eq!(past.find("000007").expect("one").document, run(7));
        assert_eq!(past.find("last").expect("one").document, run(7));
        assert_eq!(past.find("20261115-000003-bw").expect("that very one").document, run(3));
        assert!(past.find("000003").is_err() && past.find("../../etc/passwd").is_err());
    }

    #[test]
    fn the_oldest_is_dropped_and_a_baseline_is_not() {
        let (_folder, store) = store();
        let first = store.save(&run(0)).expect("kept");
        store.set_baselines(&[&first]).expect("set");
        for second in 1..=MAX_RUNS + 1 {
            store.save(&run(second)).expect("kept");
        }
        let past = store.load().expect("runs");
        assert_eq!(past.runs.len(), MAX_RUNS);
        assert!(past.runs[0].is_baseline && past.runs[0].document == run(0));
        assert_eq!(past.runs[1].document, run(3));
    }

    #[test]
    fn what_cannot_be_read_is_named_and_skipped() {
        let (_folder, store) = store();
        store.save(&run(1)).expect("kept");
        let wrong = store.folder.join("20261115-000002-bw.json");
        fs::write(&wrong, "{\"format\": \"wirelane bench 1\", \"half").expect("a file");
        fs::write(store.folder.join("notes.txt"), "mine").expect("a file");
        let past = store.load().expect("runs");
        assert_eq!(past.runs.len(), 1);
        let [skipped] = &past.skipped[..] else { panic!("{:?}", past.skipped) };
        assert!(skipped.contains(wrong.to_str().expect("text")), "{skipped}");
    }
}
