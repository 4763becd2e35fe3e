//! The descriptor of a region, as far as a peer may have it.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals};

use crate::error::{Error, Kind};
use crate::memory::Memory;
use crate::region::Rights;

/// The descriptor that a peer gets: for reading alone where it may do no more. `None` where a mapping
/// would allow more than the rights do, or where the file went out for the other purpose before: what was
/// sealed cannot be written, and what can be written cannot be sealed.
pub(super) fn shareable(
    memory: &Memory,
    file: BorrowedFd<'_>,
    rights: Rights,
) -> Result<Option<OwnedFd>, Error> {
    let system = |error: std::io::Error| {
        let fix = "mount /proc; see the limits of this process: `ulimit -n`";
        Error::new(Kind::System, "grant a region", error, fix)
    };
    // Held to the end: two grants at once for different purposes must not each find the other not there.
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

/// Seals the file against all writing but ours, which is mapped already.
fn only_readable(file: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    fcntl_add_seals(file, SealFlags::FUTURE_WRITE)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}
