//! The data directory: locks it, and opens its database.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, fstatfs};

use crate::error::{Error, ErrorKind};
use crate::log;
use crate::reader::Reader;
use crate::writer::Writer;

/// A directory that this process alone may write to.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    /// Locked until they are dropped; the kernel releases the locks if the process dies.
    _locks: [File; 2],
}

impl Disk {
    /// Locks a directory, and creates it if it does not exist.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let call = format!("use {} for data", path.display());
        let refused = |error: &io::Error| {
            let fix = "check its owner and permissions, or choose another directory";
            Error::new(ErrorKind::Refused, format!("{call}: {error} — {fix}"))
        };
        let is_new = |level: &&Path| !level.as_os_str().is_empty() && !level.exists();
        let new = path.ancestors().take_while(is_new).count();
        if new > 0 {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(path).map_err(|error| refused(&error))?;
        }
        let directory = File::open(path).map_err(|error| refused(&error))?;
        refuse_network(&directory, &call)?;
        let lock_file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK));
        let mut lock_file = lock_file.map_err(|error| refused(&error))?;
        // The directory itself: a lock file that is removed can be created and locked again. The file too, since earlier
        // versions of this program lock only that.
        for lock in [&directory, &lock_file] {
            match flock(lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(in_use(&call, &lock_file)),
                Err(error) => return Err(refused(&error.into())),
            }
        }
        // For the error message of another process; nothing else depends on it.
        let _ = lock_file.set_len(0).and_then(|()| writeln!(lock_file, "{}", std::process::id()));
        // New directories must exist after a power loss too: sync them and the parent of the topmost.
        for level in path.ancestors().take(1 + new.max(1)) {
            let level = if level.as_os_str().is_empty() { Path::new(".") } else { level };
            let _ = File::open(level).and_then(|directory| directory.sync_all());
        }
        Ok(Disk { path: path.to_owned(), _locks: [directory, lock_file] })
    }

    /// Opens the database for writing. Only one writer may be open at a time.
    pub fn writer(&self) -> Result<Writer, Error> {
        log::check(&database(&self.path))?;
        Writer::open(&database(&self.path))
    }

    /// Opens the database for reading, any number of times.
    pub fn reader(&self) -> Result<Reader, Error> {
        Reader::open(&database(&self.path))
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the database and its log, in bytes.
    pub fn bytes(&self) -> u64 {
        let length = |name: &str| self.path.join(name).metadata().map_or(0, |file| file.len());
        length(DATABASE) + length(&format!("{DATABASE}-wal"))
    }
}

/// The error for a directory that another process uses.
fn in_use(call: &str, lock_file: &File) -> Error {
    let mut owner = String::new();
    let _ = lock_file.take(20).read_to_string(&mut owner);
    let owner = owner.trim().parse::<u32>();
    let owner = owner.map_or("another process".to_owned(), |pid| format!("process {pid}"));
    let text = format!("{call}: in use by {owner} — stop it, or choose another directory");
    Error::new(ErrorKind::InUse, text)
}

/// Refuses a directory of another host: locks may not reach its other users, and SQLite's log needs memory that all
/// processes share.
fn refuse_network(directory: &File, call: &str) -> Result<(), Error> {
    const NFS: u64 = 0x6969;
    const SMB: [u64; 3] = [0x517b, 0xfe53_4d42, 0xff53_4d42];
    let kind = fstatfs(directory).map_or(0, |system| system.f_type as u64 & u64::from(u32::MAX));
    let name = match kind {
        NFS => "NFS",
        kind if SMB.contains(&kind) => "SMB",
        _ => return Ok(()),
    };
    let text = format!(
        "{call}: it is on {name}, where another host could change it unnoticed — choose a directory of a local disk"
    );
    Err(Error::new(ErrorKind::Refused, text))
}

/// The path of a directory's database.
pub(crate) fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

const LOCK: &str = "lock";
const DATABASE: &str = "wirelane.db";
