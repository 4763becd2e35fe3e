//! A file system of another host, mounted by NFS.

use node::{Mount, Tree};

use super::{Error, State, program};

/// What is mounted there.
pub(super) fn read(tree: &Tree, point: &str) -> State {
    let mounts = Mount::read_all(tree);
    State::all(Mount::at(&mounts, point).map_or(NOTHING.to_owned(), shown), 1)
}

/// Mounts it, if that is wanted; else unmounts it. The helper is called by its own name: `mount` would leave it
/// behind when it is ended for taking too long.
pub(super) fn set(
    source: &str,
    point: &str,
    options: &str,
    wanted: Option<&str>,
) -> Result<(), Error> {
    if wanted.is_some_and(|wanted| wanted.starts_with(source)) {
        // Once, and no two minutes of trying again.
        return program::run("mount.nfs", &[source, point, "-o", &format!("{options},retry=0")]);
    }
    program::run("umount", &[point])
}

/// A mount as text: its source and its transport.
pub(super) fn told(source: &str, transport: &str) -> String {
    format!("{source} by {transport}")
}

fn shown(mount: &Mount) -> String {
    let transport = match mount.kind.as_str() {
        "nfs" | "nfs4" => mount.option("proto").unwrap_or("tcp"),
        kind => kind,
    };
    told(&mount.source, transport)
}

const NOTHING: &str = "nothing";
