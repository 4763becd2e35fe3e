//! Space that is kept for a disk that gets full. Without any, nothing could be deleted: a deletion is written to the log,
//! and space is freed by copying what is still needed.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

/// A file of zeros beside the index.
#[derive(Debug)]
pub(crate) struct DiskReserve {
    path: PathBuf,
    /// Its length; 0 if the file system cannot allocate space.
    bytes: u64,
    /// Its length now.
    held: u64,
}

impl DiskReserve {
    /// Takes the reserve in a directory, if there is space for it.
    pub(crate) fn open(directory: &Path) -> Self {
        let total =
            statvfs(directory).map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
        let bytes = (total / MAX_PART).clamp(MIN_BYTES, MAX_BYTES);
        let mut reserve = DiskReserve { path: directory.join("reserve"), bytes, held: 0 };
        reserve.take(bytes);
        reserve
    }

    /// Whether values may be written. If not, takes the reserve again, if there is space now.
    pub(crate) fn is_sufficient(&mut self) -> bool {
        self.held >= self.bytes || self.take(self.bytes)
    }

    /// Whether it has its length.
    pub(crate) fn is_held(&self) -> bool {
        self.held >= self.bytes
    }

    /// Gives the space to the log and the index; returns whether there was any.
    pub(crate) fn release(&mut self) -> bool {
        std::mem::take(&mut self.held) > 0 && fs::remove_file(&self.path).is_ok()
    }

    fn take(&mut self, bytes: u64) -> bool {
        let open = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&self.path)
            .map_err(|_| Errno::IO);
        match open.and_then(|file| fallocate(file, FallocateFlags::empty(), 0, bytes)) {
            Ok(()) => self.held = bytes,
            Err(error) => {
                // What was allocated is needed more than a part of a reserve.
                let _ = fs::remove_file(&self.path);
                self.held = 0;
                if matches!(error, Errno::OPNOTSUPP | Errno::NOSYS) {
                    self.bytes = 0;
                }
            }
        }
        self.held >= self.bytes.min(bytes)
    }
}

/// Enough for deletions and for the index, which then frees space.
const MAX_BYTES: u64 = 16 << 20;
const MIN_BYTES: u64 = 1 << 20;
/// Of a small disk, a quarter.
const MAX_PART: u64 = 4;
