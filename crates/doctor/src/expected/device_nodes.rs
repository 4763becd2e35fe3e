//! Device nodes in /dev/infiniband: programs must be able to read and write them.

use node::{FileMetadata, Process};

/// Whether a process may read and write a device node; `None`: its user is not known.
pub fn may_open(process: &Process, file: &FileMetadata) -> Option<bool> {
    let uid = process.uid?;
    let overrides =
        process.capabilities.is_some_and(|held| held.effective >> DAC_OVERRIDE & 1 == 1);
    if overrides || (uid == 0 && process.capabilities.is_none()) {
        return Some(true);
    }
    let shift = match () {
        () if uid == file.uid => 6,
        () if process.groups.contains(&file.gid) => 3,
        () => 0,
    };
    Some(file.mode >> shift & 0o6 == 0o6)
}

/// CAP_DAC_OVERRIDE.
const DAC_OVERRIDE: u32 = 1;
