//! Resolves a path of a machine from its root, and never out of it.
//!
//! Links are read here, not by the kernel: `/etc -> /` in a folder means the folder itself.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// An open folder and a name in it, which need not exist.
pub(super) struct ResolvedPath {
    pub(super) folder: OwnedFd,
    pub(super) name: String,
}

/// What to do if the last component of a path is a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalLink {
    /// Follow it: files of /sys are reached by symlinks.
    Follow,
    /// Return an error: a file of ours that was replaced by a link is not ours any more.
    Refuse,
}

/// Resolves a path. Its parent folders must exist.
pub(super) fn resolve(
    root: &OwnedFd,
    path: &str,
    final_link: FinalLink,
) -> Result<ResolvedPath, Errno> {
    let mut left: Vec<String> = components(path);
    let mut folders: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            folders.pop();
            continue;
        }
        let here = folders.last().unwrap_or(root);
        match readlinkat(here, &name, Vec::new()) {
            Ok(_) if left.is_empty() && final_link == FinalLink::Refuse => return Err(Errno::LOOP),
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                let target = target.into_string().map_err(|_| Errno::ILSEQ)?;
                if target.starts_with('/') {
                    folders.clear();
                }
                left.extend(components(&target));
            }
            Err(Errno::INVAL | Errno::NOENT) if left.is_empty() => {
                let folder = match folders.pop() {
                    Some(folder) => folder,
                    None => root.try_clone().map_err(|_| Errno::MFILE)?,
                };
                return Ok(ResolvedPath { folder, name });
            }
            Err(Errno::INVAL) => folders.push(openat(here, &name, FOLDER, Mode::empty())?),
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::ISDIR)
}

/// A path's components, in reverse order.
fn components(path: &str) -> Vec<String> {
    let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
    names.map(str::to_owned).rev().collect()
}

/// Opens a folder only to resolve names in it.
pub(super) const FOLDER: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The kernel's limit.
const MAX_LINKS: usize = 40;
