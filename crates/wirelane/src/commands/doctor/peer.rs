//! The snapshot of the peer: from a file, or over the user's own ssh.

use std::path::Path;

use node::Tree;

use crate::output;
use crate::output::Failure;

/// Fetches it.
pub(super) fn fetch(host: &str) -> Result<Tree, Failure> {
    if remote::is_file(host) {
        return Tree::at(Path::new(host))
            .map_err(|error| Failure::failed(format!("--peer {error}")));
    }
    let shell = remote::Shell::on(host)
        .map_err(|error| Failure::usage(format!("--peer {error}, and not a snapshot file")))?;
    output::progress(&format!("reading {host} over ssh…"));
    Ok(remote::snapshot(&shell, &output::progress)?)
}
