//! What a host is like.

use std::path::Path;
use std::time::Duration;

use node::Tree;

use super::ask::Limits;
use super::error::Error;
use super::program::{Progress, wirelane};
use super::shell::Shell;

/// Whether a name is a snapshot's file instead of a host. A host may be called like a folder that happens to be here.
pub fn is_file(name: &str) -> bool {
    name.contains('/') || Path::new(name).is_file()
}

/// By a snapshot that `wirelane` takes there.
pub fn snapshot(shell: &Shell, progress: Progress<'_>) -> Result<Tree, Error> {
    let answer =
        wirelane(shell, &["snapshot", "-"], LIMITS, progress)?.done("wirelane snapshot -")?;
    let wrong = |source| Error::Answer { host: shell.host().to_owned(), source };
    Tree::parse(&answer.json()?).map_err(|error| wrong(error.into()))
}

/// As long as a snapshot may be.
const LIMITS: Limits = Limits { time: Duration::from_secs(60), bytes: 64 << 20 };
