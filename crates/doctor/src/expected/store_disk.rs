//! Where a store keeps its data, and how quickly that is synced.

use node::Mount;

/// With a slower p99 of saves, in seconds, a disk is slow: a rotating one, a throttled volume, or one that others use too.
pub const MAX_SAVE_P99: f64 = 0.05;

/// A store whose oldest write waits longer, in seconds, waits for its disk.
pub const MAX_WAIT: f64 = 10.0;

/// Why data in this file system does not survive what `--data-dir` is for; `None` if it does.
pub fn loses_data(mount: &Mount) -> Option<&'static str> {
    match mount.kind.as_str() {
        "tmpfs" | "ramfs" => Some("it is in memory: a restart of the machine loses everything"),
        "overlay" | "aufs" => {
            Some("it is the writable layer of a container: removing the container loses everything")
        }
        _ => None,
    }
}

/// The mount option that makes a sync return before the disk has the data.
pub fn without_barriers(mount: &Mount) -> Option<&str> {
    let ignores_sync = |option: &&String| matches!(option.as_str(), "nobarrier" | "barrier=0");
    mount.options.iter().find(ignores_sync).map(String::as_str)
}
