//! Uncached reads, for callers that read the same folder repeatedly.
//!
//! For small files. A folder is opened once for all its files, and each file costs an open, a read and
//! a close. The tree still remembers files that were refused with EINVAL, and does not read them again.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Source, Tree, to_reading};
use crate::Reading;

/// A folder whose files are read without the cache.
#[derive(Debug)]
pub(crate) struct FreshFolder<'t> {
    tree: &'t Tree,
    path: String,
    /// The opened folder; `None` in a snapshot.
    handle: Option<OwnedFd>,
    /// Names of files here that were refused with EINVAL before.
    refused: BTreeSet<String>,
}

impl<'t> FreshFolder<'t> {
    /// Opens the folder, if it exists.
    pub(crate) fn open(tree: &'t Tree, path: String) -> Option<FreshFolder<'t>> {
        let refused = tree.cache.borrow().refused_in(&path);
        let handle = match &tree.source {
            Source::Snapshot(_) => None,
            Source::Folder(folder) => Some(folder.open_folder(&path).ok()?),
        };
        Some(FreshFolder { tree, path, handle, refused })
    }

    /// At most `max` of its names, unordered, without those that are not UTF-8.
    pub(crate) fn names(&self, max: usize) -> Vec<String> {
        let Some(handle) = &self.handle else { return self.snapshot_names(max) };
        let Ok(entries) = Dir::read_from(handle) else { return Vec::new() };
        let entries = entries.map_while(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| name != "." && name != "..").take(max).collect()
    }

    fn snapshot_names(&self, max: usize) -> Vec<String> {
        let Source::Snapshot(files) = &self.tree.source else { return Vec::new() };
        let mut names = files.resolve_names(&self.path).into_value().unwrap_or_default();
        names.truncate(max);
        names
    }

    /// The text of a short file, trimmed.
    pub(crate) fn text(&self, name: &str) -> Reading<String> {
        if self.refused.contains(name) {
            return Reading::Refused(Errno::INVAL.raw_os_error());
        }
        let path = || format!("{}/{name}", self.path);
        let bytes = match (&self.handle, &self.tree.source) {
            (Some(handle), _) => match read_short(handle, name) {
                // A link, which the tree resolves.
                Err(Errno::LOOP) => self.tree.read(&path()),
                other => to_reading(other),
            },
            (None, Source::Snapshot(files)) => files.resolve_file(&path()),
            (None, Source::Folder(_)) => Reading::Absent,
        };
        if bytes == Reading::Refused(Errno::INVAL.raw_os_error()) {
            self.tree.cache.borrow_mut().store_file(&path(), &bytes);
        }
        bytes.and_then(|bytes| match String::from_utf8(bytes) {
            Ok(text) => Reading::Value(text.trim().to_owned()),
            Err(error) => Reading::invalid(&String::from_utf8_lossy(error.as_bytes())),
        })
    }
}

/// Reads with one call, which is enough for files of /sys. Longer files are not numbers or states.
fn read_short(folder: &OwnedFd, name: &str) -> Result<Vec<u8>, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let mut buffer = [0; MAX_FILE_BYTES];
    match rustix::io::read(&file, &mut buffer) {
        Ok(MAX_FILE_BYTES) => Err(Errno::FBIG),
        // A fifo without a writer reads as empty.
        Ok(0) if !is_regular(&file) => Err(Errno::INVAL),
        Ok(length) => Ok(buffer[..length].to_vec()),
        Err(Errno::AGAIN) => Err(Errno::INVAL),
        Err(errno) => Err(errno),
    }
}

fn is_regular(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// More than any number, state or rate needs.
const MAX_FILE_BYTES: usize = 256;
