//! The peer's snapshot: from a file, or by the user's own ssh.

use std::path::Path;

use node::Tree;

use crate::output;
use crate::output::Failure;

/// What the peer is like.
pub(super) fn fetch(host: &str) -> Result<Tree, Failure> {
    if remote::is_file(host) {
        return Tree::at(Path::new(host))
            .map_err(|error| Failure::failed(format!("--peer {error}")));
    }
    let shell = remote::Shell::on(host)
        .map_err(|error| Failure::usage(format!("--peer {error}, nor a snapshot's file")))?;
    output::progress(&format!("asking {host} by ssh…"));
    Ok(remote::snapshot(&shell, &output::progress)?)
}
