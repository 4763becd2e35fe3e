//! The machine that is changed: the running one, or a folder with the same file tree.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use node::Tree;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Uid, openat, renameat, unlinkat};
use rustix::fs::{Gid, fchmod, fchown, fstat, mkdirat, statat};
use rustix::io::Errno;

use super::path::{FOLDER, FinalLink, ResolvedPath, resolve};
use super::{Content, Error, Reader, State};

/// The machine that changes apply to. No path leads out of its root.
#[derive(Debug)]
pub struct Machine {
    root: OwnedFd,
    path: PathBuf,
    live: bool,
    may_restart: bool,
}

impl Machine {
    /// The machine whose root is at this path; `/` is the running one.
    pub fn at(path: &Path) -> Result<Machine, Error> {
        let shown = path.display().to_string();
        // The root itself may be a link: it is what the user named.
        let root = openat(CWD, path, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty());
        let root = root.map_err(|errno| match errno {
            Errno::NOTDIR => Error::refused(format!(
                "{shown} is not a folder: a plan can be built for a snapshot, but nothing can be changed in it"
            )),
            errno => Error::call("open", &shown, errno),
        })?;
        // By whatever name: `/proc/self/root` is the running machine too.
        let same = |one: &rustix::fs::Stat, other: &rustix::fs::Stat| {
            (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
        };
        let live = match (fstat(&root), rustix::fs::stat("/")) {
            (Ok(root), Ok(running)) => same(&root, &running),
            _ => path == Path::new("/"),
        };
        Ok(Machine { root, path: path.to_owned(), live, may_restart: false })
    }

    /// Whether it is the running machine: only there modules can be loaded and drivers queried.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Allows or forbids restarting services that others use too.
    pub fn with_restarts(self, may_restart: bool) -> Machine {
        Machine { may_restart, ..self }
    }

    pub(super) fn may_restart(&self) -> bool {
        self.may_restart
    }

    /// A new reader, without cached values.
    pub fn reader(&self) -> Result<Reader<'_>, Error> {
        let tree = if self.is_live() { Ok(Tree::live(None)) } else { Tree::at(&self.path) };
        let tree = tree.map_err(|error| Error::failed(format!("read {error}")).caused_by(error))?;
        Ok(Reader { tree, machine: Some(self) })
    }

    /// The boot ID of the running machine.
    pub(super) fn boot(&self) -> Option<String> {
        if !self.is_live() {
            return None;
        }
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    }

    /// The missing parent folders of a file, the outermost first.
    pub(super) fn missing_folders(&self, path: &str) -> Vec<String> {
        let ends = path.match_indices('/').map(|(end, _)| end).filter(|end| *end > 0);
        let folders = ends.map(|end| &path[..end]);
        folders.filter(|folder| !self.exists(folder)).map(str::to_owned).collect()
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        let found = self.resolve(path, FinalLink::Follow);
        found.is_ok_and(|resolved| {
            statat(&resolved.folder, &resolved.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
        })
    }

    pub(super) fn create_folders(&self, folders: &[String]) -> Result<(), Error> {
        for folder in folders {
            let resolved = self.resolve(folder, FinalLink::Refuse)?;
            match mkdirat(&resolved.folder, &resolved.name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => sync(&resolved.folder),
                Err(errno) => return Err(Error::call("create the folder", folder, errno)),
            }
        }
        Ok(())
    }

    /// Removes those folders that are empty, the innermost first.
    pub(super) fn remove_folders(&self, folders: &[String]) {
        for folder in folders.iter().rev() {
            if let Ok(resolved) = self.resolve(folder, FinalLink::Refuse) {
                let _ = unlinkat(&resolved.folder, &resolved.name, AtFlags::REMOVEDIR);
            }
        }
    }

    /// The content, mode and owner of a file.
    pub(super) fn read_file(&self, path: &str) -> Result<State, Error> {
        let resolved = match resolve(&self.root, path, FinalLink::Refuse) {
            Err(Errno::NOENT) => return Ok(State::Absent),
            found => found.map_err(|errno| not_found(path, FinalLink::Refuse, errno))?,
        };
        let file = match openat(&resolved.folder, &resolved.name, READ, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(State::Absent),
            found => found.map_err(|errno| Error::call("read", path, errno))?,
        };
        if kind(&file) != Some(FileType::RegularFile) {
            return Err(Error::failed(format!("{path} is not a regular file: remove it first")));
        }
        let mut bytes = Vec::new();
        let read = File::from(file).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| Error::call("read", path, error))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(Error::failed(format!("{path} is too long to be saved for a revert")));
        }
        let (mode, owner) = mode_and_owner(&resolved);
        Ok(State::File { content: Content::from_bytes(bytes), mode: Some(mode), owner })
    }

    /// Replaces or removes a file atomically: readers see the old file or the new one.
    pub(super) fn set_file(&self, path: &str, state: &State) -> Result<(), Error> {
        let resolved = self.resolve(path, FinalLink::Refuse)?;
        let temporary = temporary_name(&resolved);
        // Left by an interrupted run.
        let _ = unlinkat(&resolved.folder, &temporary, AtFlags::empty());
        let set = match state {
            State::File { content, mode, owner } => {
                let (old_mode, old_owner) = mode_and_owner(&resolved);
                let mode = mode.unwrap_or(old_mode);
                replace(&resolved, &temporary, content.bytes(), mode, owner.or(old_owner))
                    .inspect_err(|_| {
                        let _ = unlinkat(&resolved.folder, &temporary, AtFlags::empty());
                    })
            }
            State::Absent => match unlinkat(&resolved.folder, &resolved.name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(errno.into()),
            },
            State::Values(_) => Err(std::io::ErrorKind::InvalidInput.into()),
        };
        set.map_err(|error| Error::call("write", path, error))?;
        sync(&resolved.folder);
        Ok(())
    }

    /// Removes the temporary file that an interrupted run has left.
    pub(super) fn remove_temporary(&self, path: &str) {
        if let Ok(resolved) = self.resolve(path, FinalLink::Refuse) {
            let _ = unlinkat(&resolved.folder, temporary_name(&resolved), AtFlags::empty());
        }
    }

    /// Writes a value to a file of /sys or /proc in one write, as drivers require.
    pub(super) fn set_value(&self, path: &str, value: &str) -> Result<(), Error> {
        let failed = |errno: Errno| Error::call(&format!("write {value:?} to"), path, errno);
        let resolved = self.resolve(path, FinalLink::Follow)?;
        let file = openat(&resolved.folder, &resolved.name, OLD, Mode::empty()).map_err(failed)?;
        if kind(&file) != Some(FileType::RegularFile) {
            return Err(failed(Errno::INVAL));
        }
        let line = format!("{value}\n");
        match rustix::io::write(&file, line.as_bytes()) {
            Ok(written) if written == line.len() => Ok(()),
            Ok(_) => Err(failed(Errno::IO)),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Writes bytes at an offset of a file: a register of a device's configuration space.
    pub(super) fn set_bytes(&self, path: &str, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let failed = |errno: Errno| Error::call("write to", path, errno);
        let resolved = self.resolve(path, FinalLink::Follow)?;
        let file =
            openat(&resolved.folder, &resolved.name, REGISTERS, Mode::empty()).map_err(failed)?;
        match rustix::io::pwrite(&file, bytes, at) {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) => Err(failed(Errno::IO)),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Opens a log for reading; `None` if there is none.
    pub(super) fn open_log(&self, path: &str) -> Result<Option<File>, Error> {
        let found = resolve(&self.root, path, FinalLink::Refuse)
            .and_then(|resolved| openat(&resolved.folder, &resolved.name, READ, Mode::empty()));
        match found {
            Ok(file) => {
                check_owner(path, &file)?;
                Ok(Some(File::from(file)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::ACCESS) => Err(Error::failed(format!(
                "{path} is readable only by root; run it again with sudo"
            ))),
            Err(errno) => Err(Error::call("read", path, errno)),
        }
    }

    /// Opens or creates a log for reading and appending, with mode 600.
    pub(super) fn create_log(&self, path: &str) -> Result<File, Error> {
        self.create_folders(&self.missing_folders(path))?;
        let resolved = self.resolve(path, FinalLink::Refuse)?;
        let file = openat(&resolved.folder, &resolved.name, APPEND, Mode::from_raw_mode(0o600));
        let file = file.map_err(|errno| Error::call("write to", path, errno))?;
        check_owner(path, &file)?;
        sync(&resolved.folder);
        Ok(File::from(file))
    }

    fn resolve(&self, path: &str, final_link: FinalLink) -> Result<ResolvedPath, Error> {
        resolve(&self.root, path, final_link).map_err(|errno| not_found(path, final_link, errno))
    }
}

/// The log's content is executed as root, so no other user may have been able to write it.
fn check_owner(path: &str, file: &OwnedFd) -> Result<(), Error> {
    let stat = fstat(file).map_err(|errno| Error::call("stat", path, errno))?;
    let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let mine = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
    if plain && mine && stat.st_mode & 0o022 == 0 {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{path} is not trusted: other users may have written it (owner {}, mode {:o}); inspect it, then give it to \
         root with mode 600, or move it away",
        stat.st_uid,
        stat.st_mode & 0o7777
    )))
}

fn not_found(path: &str, final_link: FinalLink, errno: Errno) -> Error {
    match errno {
        Errno::LOOP if final_link == FinalLink::Refuse => {
            Error::failed(format!("{path} is a link and is not overwritten: remove it first"))
        }
        errno => Error::call("find", path, errno),
    }
}

/// The name of a file until it is complete.
fn temporary_name(resolved: &ResolvedPath) -> String {
    format!(".{}.wirelane", resolved.name)
}

/// Writes a temporary file, syncs it, and renames it.
fn replace(
    resolved: &ResolvedPath,
    temporary: &str,
    bytes: &[u8],
    mode: u32,
    owner: Option<(u32, u32)>,
) -> std::io::Result<()> {
    let file = openat(&resolved.folder, temporary, NEW, Mode::from_raw_mode(0o600))?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    if let Some((uid, gid)) = owner {
        fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    fchmod(&file, Mode::from_raw_mode(mode))?;
    file.sync_all()?;
    Ok(renameat(&resolved.folder, temporary, &resolved.folder, &resolved.name)?)
}

/// Mode and owner of the existing file; the defaults for a new file if there is none.
fn mode_and_owner(resolved: &ResolvedPath) -> (u32, Option<(u32, u32)>) {
    match statat(&resolved.folder, &resolved.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => (stat.st_mode & 0o7777, Some((stat.st_uid, stat.st_gid))),
        Err(_) => (0o644, None),
    }
}

fn kind(file: &OwnedFd) -> Option<FileType> {
    fstat(file).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// Syncs a folder. Errors are ignored: file systems in memory do not support it.
fn sync(folder: &OwnedFd) {
    let flags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    if let Ok(folder) = openat(folder, ".", flags, Mode::empty()) {
        let _ = rustix::fs::fsync(&folder);
    }
}

/// Longer files are not replaced, since their content is kept in the journal.
const MAX_FILE_BYTES: u64 = 1 << 20;

const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);
const NEW: OFlags = PLAIN.union(OFlags::WRONLY).union(OFlags::CREATE).union(OFlags::EXCL);
const OLD: OFlags = PLAIN.union(OFlags::WRONLY).union(OFlags::TRUNC);
const REGISTERS: OFlags = PLAIN.union(OFlags::WRONLY);
const READ: OFlags = PLAIN.union(OFlags::RDONLY);
const APPEND: OFlags = PLAIN.union(OFlags::RDWR).union(OFlags::APPEND).union(OFlags::CREATE);
