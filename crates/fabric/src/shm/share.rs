//! The descriptor of a region that is passed to a peer.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals};

use crate::error::{Error, ErrorKind};
use crate::memory::Memory;
use crate::region::Rights;

/// The descriptor for a peer: read-only if it may only read. `None` if a mapping
/// would allow more than the rights do, or if the file was shared for the other purpose before: a
/// sealed file cannot be written, and a writable one cannot be sealed.
pub(super) fn shareable(
    memory: &Memory,
    file: BorrowedFd<'_>,
    rights: Rights,
) -> Result<Option<OwnedFd>, Error> {
    let system = |error: std::io::Error| {
        let fix = "mount /proc; see the limits of this process: `ulimit -n`";
        Error::new(ErrorKind::System, "grant a region", error, fix)
    };
    // Locked to the end, since two concurrent grants for different purposes must exclude each other.
    let Some(mut shared_for_writing) = memory.shared_for_writing() else { return Ok(None) };
    match (rights.read, rights.write, rights.atomic) {
        (true, true, _) => {
            *shared_for_writing = true;
            let seals = fcntl_get_seals(file).map_err(|error| system(error.into()))?;
            if seals.contains(SealFlags::FUTURE_WRITE) {
                return Ok(None);
            }
            file.try_clone_to_owned().map(Some).map_err(system)
        }
        (true, false, false) if !*shared_for_writing => {
            only_readable(file).map(Some).map_err(system)
        }
        _ => Ok(None),
    }
}

/// Seals the file against writing, except through our existing mapping.
fn only_readable(file: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    fcntl_add_seals(file, SealFlags::FUTURE_WRITE)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}
