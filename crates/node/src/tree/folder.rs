//! Files of a file system.
//!
//! A folder other than `/` may contain anything: links out of it, fifos, endless files. So links are resolved
//! here, inside the root; files are opened without blocking, and only regular ones are read.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{FileMetadata, sort_names};

/// The root that paths are under.
#[derive(Debug)]
pub(super) struct Folder {
    /// `None`: the machine's own root, where the kernel resolves links.
    root: Option<PathBuf>,
    /// The opened root, for `openat2`.
    handle: Option<OwnedFd>,
    host_sys: Option<PathBuf>,
}

impl Folder {
    pub(super) fn live(host_sys: Option<&Path>) -> Self {
        Folder { root: None, handle: None, host_sys: host_sys.map(Path::to_owned) }
    }

    pub(super) fn under(root: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(CWD, root, flags, Mode::empty()).ok();
        Folder { root: Some(root.to_owned()), handle, host_sys: None }
    }

    pub(super) fn is_live(&self) -> bool {
        self.root.is_none()
    }

    /// A whole file, if it is not too long.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let bytes = self.head(path, MAX_FILE_BYTES + 1)?;
        if bytes.len() as u64 > MAX_FILE_BYTES { Err(Errno::FBIG) } else { Ok(bytes) }
    }

    /// The first bytes of a file.
    pub(super) fn head(&self, path: &str, max: u64) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        // Files of /sys and /proc report no length: read to the end.
        self.open(path)?.take(max).read_to_end(&mut bytes).map_err(errno)?;
        Ok(bytes)
    }

    /// Opens a regular file without blocking. Outside the machine's own root the file type is checked first, since opening a
    /// device may have side effects (a tape is rewound).
    pub(super) fn open(&self, path: &str) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let real = self.host_path(path)?;
        if self.root.is_some() {
            let kind = FileType::from_raw_mode(rustix::fs::stat(&real)?.st_mode);
            if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
                return Err(Errno::INVAL);
            }
        }
        let file = rustix::fs::openat(CWD, real, flags, Mode::empty())?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        match kind {
            FileType::RegularFile => Ok(File::from(file)),
            FileType::Directory => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    /// Opens a folder, to read its files repeatedly. The kernel resolves links inside the root (`openat2`), if it is 5.6 or
    /// later and no seccomp filter forbids it.
    pub(super) fn open_folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Some(handle) = &self.handle {
            let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(handle, path, flags, Mode::empty(), inside) {
                Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
                other => return other,
            }
        }
        rustix::fs::openat(CWD, self.host_path(path)?, flags, Mode::empty())
    }

    /// The names in a folder; those that are not UTF-8 are left out.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>, Errno> {
        let entries = std::fs::read_dir(self.host_path(path)?).map_err(errno)?;
        let names =
            entries.take(MAX_NAMES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        sort_names(&mut names);
        Ok(names)
    }

    pub(super) fn real(&self, path: &str) -> Result<String, Errno> {
        match &self.root {
            Some(root) => walk(root, path).map(|(virtual_path, _)| virtual_path),
            None => {
                let path = self.host_path(path)?;
                let real = std::fs::canonicalize(&path).map_err(errno);
                let real = real.or_else(|errno| namespace(&path).ok_or(errno))?;
                self.seen_from_root(&real).ok_or(Errno::ILSEQ)
            }
        }
    }

    pub(super) fn metadata(&self, path: &str) -> Result<FileMetadata, Errno> {
        let stat = rustix::fs::stat(self.host_path(path)?)?;
        Ok(FileMetadata {
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
            major: rustix::fs::major(stat.st_rdev),
            minor: rustix::fs::minor(stat.st_rdev),
        })
    }

    /// The path in the file system for one of this tree's paths.
    pub(super) fn host_path(&self, path: &str) -> Result<PathBuf, Errno> {
        if let Some(root) = &self.root {
            return walk(root, path).map(|(_, real)| real);
        }
        // Limits are those of this process, in its own cgroup.
        if let Some(sys) = &self.host_sys
            && let Some(rest) = path.strip_prefix("/sys/")
            && !rest.starts_with("fs/cgroup")
        {
            return Ok(sys.join(rest));
        }
        Ok(PathBuf::from(path))
    }

    /// A path of the file system as a path of this tree: the host's `/sys` is `/sys` wherever it is mounted.
    fn seen_from_root(&self, real: &Path) -> Option<String> {
        let real = match &self.host_sys {
            Some(sys) => match real.strip_prefix(std::fs::canonicalize(sys).ok()?) {
                Ok(rest) => Path::new("/sys").join(rest),
                Err(_) => real.to_owned(),
            },
            None => real.to_owned(),
        };
        real.into_os_string().into_string().ok()
    }
}

/// Resolves `path` inside `root`: its path from there, and its path in the file system.
fn walk(root: &Path, path: &str) -> Result<(String, PathBuf), Errno> {
    let mut left: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
    let mut names: Vec<String> = Vec::new();
    let mut links = 0;
    while let Some(name) = left.pop() {
        match name.as_str() {
            "" | "." => continue,
            ".." => {
                names.pop();
                continue;
            }
            _ => names.push(name),
        }
        let real = under(root, &names);
        let kind = FileType::from_raw_mode(rustix::fs::lstat(&real)?.st_mode);
        if kind != FileType::Symlink {
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        let target = std::fs::read_link(&real).map_err(errno)?;
        let target = target.to_str().ok_or(Errno::ILSEQ)?;
        names.pop();
        if target.starts_with('/') {
            names.clear();
        }
        left.extend(target.split('/').rev().map(str::to_owned));
    }
    Ok((format!("/{}", names.join("/")), under(root, &names)))
}

/// The target of a namespace link, which is not a path: `/proc/self/ns/net:[4026531840]`.
fn namespace(real: &Path) -> Option<PathBuf> {
    let folder = real.parent().filter(|folder| folder.ends_with("ns"))?;
    Some(folder.join(std::fs::read_link(real).ok()?))
}

fn under(root: &Path, names: &[String]) -> PathBuf {
    let mut real = root.to_owned();
    real.extend(names);
    real
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// No file that is read is longer, not even `modules.builtin`.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;
/// As in the kernel.
const MAX_LINKS: usize = 40;
const MAX_NAMES: usize = 65536;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::under(dir.path());
        (dir, folder)
    }

    #[test]
    fn links_stay_inside_the_root() {
        let (dir, folder) = folder();
        std::fs::create_dir_all(dir.path().join("etc")).expect("a folder");
        std::fs::write(dir.path().join("etc/hostname"), "inside\n").expect("a file");
        symlink("/etc/hostname", dir.path().join("absolute")).expect("a link");
        symlink("../../../../etc/hostname", dir.path().join("relative")).expect("a link");
        assert_eq!(folder.read("/absolute"), Ok(b"inside\n".to_vec()));
        assert_eq!(folder.read("/relative"), Ok(b"inside\n".to_vec()));
        assert_eq!(folder.real("/relative"), Ok("/etc/hostname".to_owned()));
    }

    #[test]
    fn a_loop_of_links_is_refused() {
        let (dir, folder) = folder();
        symlink("b", dir.path().join("a")).expect("a link");
        symlink("a", dir.path().join("b")).expect("a link");
        assert_eq!(folder.read("/a"), Err(Errno::LOOP));
    }

    #[test]
    fn only_regular_files_of_limited_length_are_read() {
        let (dir, folder) = folder();
        std::fs::create_dir(dir.path().join("dir")).expect("a folder");
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).expect("a fifo");
        std::fs::write(dir.path().join("long"), vec![b'1'; 10 << 20]).expect("a file");
        assert_eq!(folder.read("/dir"), Err(Errno::ISDIR));
        assert_eq!(folder.read("/fifo"), Err(Errno::INVAL));
        assert_eq!(folder.read("/long"), Err(Errno::FBIG));
    }

    #[test]
    fn names_are_sorted_by_their_numbers() {
        let (dir, folder) = folder();
        for name in ["mlx5_10", "mlx5_2", "mlx5_1", "ib0"] {
            std::fs::write(dir.path().join(name), "").expect("a file");
        }
        let names = folder.names("/").expect("names");
        assert_eq!(names, ["ib0", "mlx5_1", "mlx5_2", "mlx5_10"]);
    }
}
