//! Where a path of a machine is, followed from its root and never out of it.
//!
//! Links are read here, not by the kernel: `/etc -> /` in a tree means the tree's own root.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// An open folder and a name in it, which may not be there.
pub(super) struct Spot {
    pub(super) folder: OwnedFd,
    pub(super) name: String,
}

/// What to do with a path's last name if it is a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// Go where it leads: files of /sys are reached by links.
    Follow,
    /// Say no: a file of ours that somebody has made a link is not ours any more.
    Refuse,
}

/// Follows a path. Folders on the way must be there.
pub(super) fn spot(root: &OwnedFd, path: &str, last: Last) -> Result<Spot, Errno> {
    let mut left: Vec<String> = names(path);
    let mut folders: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            folders.pop();
            continue;
        }
        let here = folders.last().unwrap_or(root);
        match readlinkat(here, &name, Vec::new()) {
            Ok(_) if left.is_empty() && last == Last::Refuse => return Err(Errno::LOOP),
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                let target = target.into_string().map_err(|_| Errno::ILSEQ)?;
                if target.starts_with('/') {
                    folders.clear();
                }
                left.extend(names(&target));
            }
            Err(Errno::INVAL | Errno::NOENT) if left.is_empty() => {
                let folder = match folders.pop() {
                    Some(folder) => folder,
                    None => root.try_clone().map_err(|_| Errno::MFILE)?,
                };
                return Ok(Spot { folder, name });
            }
            Err(Errno::INVAL) => folders.push(openat(here, &name, FOLDER, Mode::empty())?),
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::ISDIR)
}

/// A path's names, the first at the end.
fn names(path: &str) -> Vec<String> {
    let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
    names.map(str::to_owned).rev().collect()
}

/// A folder to look from.
pub(super) const FOLDER: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// As many as the kernel follows.
const MAX_LINKS: usize = 40;
