//! A file system of another host, mounted over NFS.

use node::{Mount, Tree};

use super::{Error, State, program};

/// The mount at this point.
pub(super) fn read(tree: &Tree, point: &str) -> State {
    let mounts = Mount::read_all(tree);
    State::all(Mount::at(&mounts, point).map_or(NOTHING.to_owned(), describe_mount), 1)
}

/// Mounts or unmounts it. `mount.nfs` is called directly: killed after a timeout, `mount` would leave it
/// running.
pub(super) fn set(
    source: &str,
    point: &str,
    options: &str,
    wanted: Option<&str>,
) -> Result<(), Error> {
    if wanted.is_some_and(|wanted| is_mount_of(source, wanted)) {
        // One attempt, without retrying for two minutes.
        return program::run("mount.nfs", &[source, point, "-o", &format!("{options},retry=0")]);
    }
    program::run("umount", &[point])
}

/// Whether the text describes a mount of this source, by whatever transport.
fn is_mount_of(source: &str, text: &str) -> bool {
    text.strip_prefix(source).is_some_and(|rest| rest.starts_with(" by "))
}

/// A mount as text: its source and its transport.
pub(super) fn describe(source: &str, transport: &str) -> String {
    format!("{source} by {transport}")
}

fn describe_mount(mount: &Mount) -> String {
    let transport = match mount.kind.as_str() {
        "nfs" | "nfs4" => mount.option("proto").unwrap_or("tcp"),
        kind => kind,
    };
    describe(&mount.source, transport)
}

const NOTHING: &str = "nothing";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_path_is_another_source() {
        assert!(is_mount_of("h:/data", &describe("h:/data", "rdma")));
        assert!(!is_mount_of("h:/data", &describe("h:/data2", "rdma")));
        assert!(!is_mount_of("h:/data", NOTHING));
    }
}
