//! The machine that is changed: the running one, or a folder that looks like one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use node::Tree;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Uid, openat, renameat, unlinkat};
use rustix::fs::{Gid, fchmod, fchown, fstat, mkdirat, statat};
use rustix::io::Errno;

use super::path::{FOLDER, Last, Spot, spot};
use super::{Content, Error, Look, State};

/// Where changes are made. No path leads out of its root.
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
                "{shown} is no folder: a plan can be made for a snapshot, but nothing can be changed in it"
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

    /// Whether it is the running machine: then modules can be loaded and drivers asked.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The same, where services that others use too may be restarted, on the user's request.
    pub fn with_restarts(self, may_restart: bool) -> Machine {
        Machine { may_restart, ..self }
    }

    pub(super) fn may_restart(&self) -> bool {
        self.may_restart
    }

    /// A fresh look at it: what was read before is read again.
    pub fn look(&self) -> Result<Look<'_>, Error> {
        let tree = if self.is_live() { Ok(Tree::live(None)) } else { Tree::at(&self.path) };
        let tree =
            tree.map_err(|error| Error::failed(format!("look at {error}")).caused_by(error))?;
        Ok(Look { tree, machine: Some(self) })
    }

    /// Which start of the machine this is; what no restart takes away has none.
    pub(super) fn boot(&self) -> Option<String> {
        if !self.is_live() {
            return None;
        }
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    }

    /// The folders on the way to a file that are not there, the outermost first.
    pub(super) fn missing_folders(&self, path: &str) -> Vec<String> {
        let ends = path.match_indices('/').map(|(end, _)| end).filter(|end| *end > 0);
        let folders = ends.map(|end| &path[..end]);
        folders.filter(|folder| !self.is_there(folder)).map(str::to_owned).collect()
    }

    pub(super) fn is_there(&self, path: &str) -> bool {
        let found = self.spot(path, Last::Follow);
        found.is_ok_and(|spot| statat(&spot.folder, &spot.name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    pub(super) fn make_folders(&self, folders: &[String]) -> Result<(), Error> {
        for folder in folders {
            let spot = self.spot(folder, Last::Refuse)?;
            match mkdirat(&spot.folder, &spot.name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => sync(&spot.folder),
                Err(errno) => return Err(Error::call("make the folder", folder, errno)),
            }
        }
        Ok(())
    }

    /// Removes folders that are empty, the innermost first; others stay.
    pub(super) fn remove_folders(&self, folders: &[String]) {
        for folder in folders.iter().rev() {
            if let Ok(spot) = self.spot(folder, Last::Refuse) {
                let _ = unlinkat(&spot.folder, &spot.name, AtFlags::REMOVEDIR);
            }
        }
    }

    /// A file as it is, every byte of it.
    pub(super) fn read_file(&self, path: &str) -> Result<State, Error> {
        let spot = match spot(&self.root, path, Last::Refuse) {
            Err(Errno::NOENT) => return Ok(State::Absent),
            found => found.map_err(|errno| not_found(path, Last::Refuse, errno))?,
        };
        let file = match openat(&spot.folder, &spot.name, READ, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(State::Absent),
            found => found.map_err(|errno| Error::call("read", path, errno))?,
        };
        if kind(&file) != Some(FileType::RegularFile) {
            return Err(Error::failed(format!("{path} is no plain file: remove it first")));
        }
        let mut bytes = Vec::new();
        let read = File::from(file).take(LONGEST + 1).read_to_end(&mut bytes);
        read.map_err(|error| Error::call("read", path, error))?;
        if bytes.len() as u64 > LONGEST {
            return Err(Error::failed(format!("{path} is too long to be kept for a revert")));
        }
        let (mode, owner) = rights(&spot);
        Ok(State::File { content: Content::of(bytes), mode: Some(mode), owner })
    }

    /// Makes a file what it shall be, at once: readers see the old one or the new one, whole.
    pub(super) fn set_file(&self, path: &str, state: &State) -> Result<(), Error> {
        let spot = self.spot(path, Last::Refuse)?;
        let beside = beside(&spot);
        // Left by a run that was cut off.
        let _ = unlinkat(&spot.folder, &beside, AtFlags::empty());
        let set = match state {
            State::File { content, mode, owner } => {
                let (old_mode, old_owner) = rights(&spot);
                let mode = mode.unwrap_or(old_mode);
                write_beside(&spot, &beside, content.bytes(), mode, owner.or(old_owner))
                    .inspect_err(|_| {
                        let _ = unlinkat(&spot.folder, &beside, AtFlags::empty());
                    })
            }
            State::Absent => match unlinkat(&spot.folder, &spot.name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(errno.into()),
            },
            State::Values(_) => Err(std::io::ErrorKind::InvalidInput.into()),
        };
        set.map_err(|error| Error::call("write", path, error))?;
        sync(&spot.folder);
        Ok(())
    }

    /// Removes what a run that was cut off has left beside a file.
    pub(super) fn remove_beside(&self, path: &str) {
        if let Ok(spot) = self.spot(path, Last::Refuse) {
            let _ = unlinkat(&spot.folder, beside(&spot), AtFlags::empty());
        }
    }

    /// Writes a value to a file of /sys or /proc, in one piece as drivers want it.
    pub(super) fn set_value(&self, path: &str, value: &str) -> Result<(), Error> {
        let failed = |errno: Errno| Error::call(&format!("write {value:?} to"), path, errno);
        let spot = self.spot(path, Last::Follow)?;
        let file = openat(&spot.folder, &spot.name, OLD, Mode::empty()).map_err(failed)?;
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

    /// Writes bytes into the middle of a file: a register of a device's configuration space.
    pub(super) fn set_bytes(&self, path: &str, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let failed = |errno: Errno| Error::call("write to", path, errno);
        let spot = self.spot(path, Last::Follow)?;
        let file = openat(&spot.folder, &spot.name, REGISTERS, Mode::empty()).map_err(failed)?;
        match rustix::io::pwrite(&file, bytes, at) {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) => Err(failed(Errno::IO)),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Opens a log of ours for reading, if it is there.
    pub(super) fn open_log(&self, path: &str) -> Result<Option<File>, Error> {
        let found = spot(&self.root, path, Last::Refuse)
            .and_then(|spot| openat(&spot.folder, &spot.name, READ, Mode::empty()));
        match found {
            Ok(file) => {
                ours(path, &file)?;
                Ok(Some(File::from(file)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::ACCESS) => Err(Error::failed(format!(
                "{path} is readable by root alone; run it again with sudo"
            ))),
            Err(errno) => Err(Error::call("read", path, errno)),
        }
    }

    /// Opens a log of ours for reading and appending, and makes it if need be. Others may not read it.
    pub(super) fn make_log(&self, path: &str) -> Result<File, Error> {
        self.make_folders(&self.missing_folders(path))?;
        let spot = self.spot(path, Last::Refuse)?;
        let file = openat(&spot.folder, &spot.name, APPEND, Mode::from_raw_mode(0o600));
        let file = file.map_err(|errno| Error::call("write to", path, errno))?;
        ours(path, &file)?;
        sync(&spot.folder);
        Ok(File::from(file))
    }

    fn spot(&self, path: &str, last: Last) -> Result<Spot, Error> {
        spot(&self.root, path, last).map_err(|errno| not_found(path, last, errno))
    }
}

/// What a log says is done as root: so nobody else may have written it.
fn ours(path: &str, file: &OwnedFd) -> Result<(), Error> {
    let stat = fstat(file).map_err(|errno| Error::call("look at", path, errno))?;
    let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let mine = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
    if plain && mine && stat.st_mode & 0o022 == 0 {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{path} could have been written by others (user {}, mode {:o}): it is not trusted; look at it, then give it to \
         root with mode 600, or move it away",
        stat.st_uid,
        stat.st_mode & 0o7777
    )))
}

fn not_found(path: &str, last: Last, errno: Errno) -> Error {
    match errno {
        Errno::LOOP if last == Last::Refuse => {
            Error::failed(format!("{path} is a link, which is not written over: remove it first"))
        }
        errno => Error::call("find", path, errno),
    }
}

/// What a file is called until it is whole.
fn beside(spot: &Spot) -> String {
    format!(".{}.wirelane", spot.name)
}

/// Writes a new file to the disk, then gives it the name.
fn write_beside(
    spot: &Spot,
    beside: &str,
    bytes: &[u8],
    mode: u32,
    owner: Option<(u32, u32)>,
) -> std::io::Result<()> {
    let file = openat(&spot.folder, beside, NEW, Mode::from_raw_mode(0o600))?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    if let Some((uid, gid)) = owner {
        fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    fchmod(&file, Mode::from_raw_mode(mode))?;
    file.sync_all()?;
    Ok(renameat(&spot.folder, beside, &spot.folder, &spot.name)?)
}

/// The rights and owner of the file that is there; those of any new file if there is none.
fn rights(spot: &Spot) -> (u32, Option<(u32, u32)>) {
    match statat(&spot.folder, &spot.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => (stat.st_mode & 0o7777, Some((stat.st_uid, stat.st_gid))),
        Err(_) => (0o644, None),
    }
}

fn kind(file: &OwnedFd) -> Option<FileType> {
    fstat(file).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// A folder's names are on the disk too. File systems of memory need and know no such thing.
fn sync(folder: &OwnedFd) {
    let flags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    if let Ok(folder) = openat(folder, ".", flags, Mode::empty()) {
        let _ = rustix::fs::fsync(&folder);
    }
}

/// Files of ours are short; what is longer is somebody's.
const LONGEST: u64 = 1 << 20;

const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);
const NEW: OFlags = PLAIN.union(OFlags::WRONLY).union(OFlags::CREATE).union(OFlags::EXCL);
const OLD: OFlags = PLAIN.union(OFlags::WRONLY).union(OFlags::TRUNC);
const REGISTERS: OFlags = PLAIN.union(OFlags::WRONLY);
const READ: OFlags = PLAIN.union(OFlags::RDONLY);
const APPEND: OFlags = PLAIN.union(OFlags::RDWR).union(OFlags::APPEND).union(OFlags::CREATE);
