//! Snapshots of hosts.

use std::path::Path;
use std::time::Duration;

use node::Tree;

use super::command::Limits;
use super::error::Error;
use super::program::{Progress, wirelane};
use super::shell::Shell;

/// Whether a name is a snapshot's file instead of a host. A host may have the same name as a local folder.
pub fn is_file(name: &str) -> bool {
    name.contains('/') || Path::new(name).is_file()
}

/// Takes a snapshot with `wirelane` on the host.
pub fn snapshot(shell: &Shell, progress: Progress<'_>) -> Result<Tree, Error> {
    let answer =
        wirelane(shell, &["snapshot", "-"], LIMITS, progress)?.success("wirelane snapshot -")?;
    let unusable = |source| Error::Answer { host: shell.host().to_owned(), source };
    Tree::parse(&answer.json()?).map_err(|error| unusable(error.into()))
}

/// For a snapshot.
const LIMITS: Limits = Limits { time: Duration::from_secs(60), bytes: 64 << 20 };
