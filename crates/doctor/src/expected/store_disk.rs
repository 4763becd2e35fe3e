//! Where a store keeps its data, and how quickly that is synced.

use node::Mount;

/// With a slower p99 of saves, in seconds, a disk is slow: a rotating one, a throttled volume, or one that others use too.
pub const MAX_SAVE_P99: f64 = 0.03;

/// With fewer saves a p99 says nothing.
pub const MIN_SAVES: u64 = 100;

/// A save that takes longer, in seconds, waits for a disk that does not answer.
pub const MAX_SAVE: f64 = 10.0;

/// Whether a restart of the machine loses what is in this file system.
pub fn is_in_memory(mount: &Mount) -> bool {
    matches!(mount.kind.as_str(), "tmpfs" | "ramfs")
}

/// Whether this is the writable layer of a container, which goes with it.
pub fn is_container_layer(mount: &Mount) -> bool {
    matches!(mount.kind.as_str(), "overlay" | "aufs")
}

/// The mount option that makes a sync return before the disk has the data.
pub fn without_barriers(mount: &Mount) -> Option<&str> {
    let ignores_sync = |option: &&String| matches!(option.as_str(), "nobarrier" | "barrier=0");
    mount.options.iter().find(ignores_sync).map(String::as_str)
}
