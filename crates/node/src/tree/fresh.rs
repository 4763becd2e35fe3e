//! Reads that are not kept, for callers that read the same folder again and again.
//!
//! Small files, read as they are now. A folder is opened once for all its files, and each file costs an open, a read and
//! a close. What was refused with EINVAL is remembered by the tree all the same, and not asked again.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Source, Tree, seen};
use crate::Seen;

/// A folder that is looked into now.
#[derive(Debug)]
pub(crate) struct Fresh<'t> {
    tree: &'t Tree,
    path: String,
    /// Of a file system: the folder. A snapshot is as it was.
    handle: Option<OwnedFd>,
    /// Names of files here that were refused with EINVAL before.
    refused: BTreeSet<String>,
}

impl<'t> Fresh<'t> {
    /// The folder, if it is there.
    pub(crate) fn open(tree: &'t Tree, path: String) -> Option<Fresh<'t>> {
        let refused = tree.looks.borrow().refused_in(&path);
        let handle = match &tree.source {
            Source::Kept(_) => None,
            Source::Folder(folder) => Some(folder.open_folder(&path).ok()?),
        };
        Some(Fresh { tree, path, handle, refused })
    }

    /// The names in it, in no order; at most so many, and none that are not text.
    pub(crate) fn names(&self, most: usize) -> Vec<String> {
        let Some(handle) = &self.handle else { return self.kept_names(most) };
        let Ok(entries) = Dir::read_from(handle) else { return Vec::new() };
        let entries = entries.map_while(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| name != "." && name != "..").take(most).collect()
    }

    fn kept_names(&self, most: usize) -> Vec<String> {
        let Source::Kept(kept) = &self.tree.source else { return Vec::new() };
        let mut names = kept.resolve_names(&self.path).into_value().unwrap_or_default();
        names.truncate(most);
        names
    }

    /// A short file's text, without the white space around it.
    pub(crate) fn text(&self, name: &str) -> Seen<String> {
        if self.refused.contains(name) {
            return Seen::Refused(Errno::INVAL.raw_os_error());
        }
        let path = || format!("{}/{name}", self.path);
        let bytes = match (&self.handle, &self.tree.source) {
            (Some(handle), _) => match read_short(handle, name) {
                // A link, which leads to where the tree allows.
                Err(Errno::LOOP) => self.tree.read(&path()),
                other => seen(other),
            },
            (None, Source::Kept(kept)) => kept.resolve_file(&path()),
            (None, Source::Folder(_)) => Seen::Absent,
        };
        if bytes == Seen::Refused(Errno::INVAL.raw_os_error()) {
            self.tree.looks.borrow_mut().keep_file(&path(), &bytes);
        }
        bytes.and_then(|bytes| match String::from_utf8(bytes) {
            Ok(text) => Seen::Value(text.trim().to_owned()),
            Err(error) => Seen::odd(&String::from_utf8_lossy(error.as_bytes())),
        })
    }
}

/// A file of /sys answers with all it has at once. What has more is not a number or a state.
fn read_short(folder: &OwnedFd, name: &str) -> Result<Vec<u8>, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let mut buffer = [0; LONGEST];
    match rustix::io::read(&file, &mut buffer) {
        Ok(LONGEST) => Err(Errno::FBIG),
        // A number is never empty: a fifo that nobody writes to is, and is none.
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

/// More than any number, state or rate has.
const LONGEST: usize = 256;
