//! The files of this repository that people read.

use std::fs;
use std::path::Path;

use crate::{Failure, shell};

/// A file and what is in it.
pub(super) struct Source {
    /// From the root of the repository.
    pub(super) path: String,
    pub(super) text: String,
}

/// Every file with one of these endings, also those that are not committed yet, without what others wrote: recorded
/// machines, generated code, real error lines.
pub(super) fn with_extensions(endings: &[&str]) -> Result<Vec<Source>, Failure> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let list = shell::output(git.current_dir(shell::repository()))?;
    let mut paths: Vec<&str> = list.lines().filter(|path| wanted(path, endings)).collect();
    paths.sort_unstable();
    paths.dedup();
    // A file that was deleted is listed until that is committed.
    let there = |path: &&str| shell::repository().join(path).is_file();
    paths.into_iter().filter(there).map(read).collect()
}

fn wanted(path: &str, endings: &[&str]) -> bool {
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| endings.contains(&ending))
        && !OTHERS.iter().any(|others| path.contains(others))
}

fn read(path: &str) -> Result<Source, Failure> {
    let text = fs::read_to_string(shell::repository().join(path));
    let text = text.map_err(|error| format!("read {path}: {error}"))?;
    Ok(Source { path: path.to_owned(), text })
}

/// The changelog has old names too.
const OTHERS: &[&str] =
    &["/tests/trees/", "/generated/", "xtask/src/check/words.rs", "CHANGELOG.md"];
