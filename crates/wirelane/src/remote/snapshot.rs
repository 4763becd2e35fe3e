//! What a host is like.

use std::path::Path;
use std::time::Duration;

use node::Tree;

use super::ask::Limits;
use super::program::wirelane;
use super::shell::Shell;
use crate::output::Failure;

/// Whether a name is a snapshot's file instead of a host. A host may be called like a folder that happens to be here.
pub(crate) fn is_file(name: &str) -> bool {
    name.contains('/') || Path::new(name).is_file()
}

/// By a snapshot that `wirelane` takes there.
pub(crate) fn snapshot(shell: &Shell) -> Result<Tree, Failure> {
    let answer = wirelane(shell, &["snapshot", "-"], LIMITS)?.done("wirelane snapshot -")?;
    Tree::parse(&answer.json()?).map_err(|error| {
        Failure::failed(format!("what {} sent is no snapshot: {error}", shell.host()))
    })
}

/// As long as a snapshot may be.
const LIMITS: Limits = Limits { time: Duration::from_secs(60), bytes: 64 << 20 };
