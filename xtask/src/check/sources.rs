//! The source files and documents of this repository.

use std::fs;
use std::path::Path;

use crate::{Failure, shell};

/// A file with its text.
pub(super) struct Source {
    /// From the root of the repository.
    pub(super) path: String,
    pub(super) text: String,
}

/// Every file with one of these extensions, also uncommitted ones, without recorded machines and generated code.
pub(super) fn with_extensions(extensions: &[&str]) -> Result<Vec<Source>, Failure> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let list = shell::output(git.current_dir(shell::repository()))?;
    let mut paths: Vec<&str> = list.lines().filter(|path| wanted(path, extensions)).collect();
    paths.sort_unstable();
    paths.dedup();
    // A deleted file is listed until the deletion is committed.
    let exists = |path: &&str| shell::repository().join(path).is_file();
    paths.into_iter().filter(exists).map(read).collect()
}

fn wanted(path: &str, extensions: &[&str]) -> bool {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| extensions.contains(&extension))
        && !EXCLUDED.iter().any(|excluded| path.contains(excluded))
}

fn read(path: &str) -> Result<Source, Failure> {
    let text = fs::read_to_string(shell::repository().join(path));
    let text = text.map_err(|error| format!("read {path}: {error}"))?;
    Ok(Source { path: path.to_owned(), text })
}

/// The changelog has old names.
const EXCLUDED: &[&str] =
    &["/tests/trees/", "/generated/", "xtask/src/check/words.rs", "CHANGELOG.md"];
