//! The directory: who may use it, and what is opened in it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Kind};
use crate::log;
use crate::reader::Reader;
use crate::writer::Writer;

/// A directory that this process alone may write to.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    /// Held as long as this lives, and given up by the kernel if the process dies.
    _lock: File,
}

impl Disk {
    /// Takes a directory, and makes it if there is none.
    pub fn take(path: &Path) -> Result<Self, Error> {
        let call = format!("use {} for data", path.display());
        let refused = |error: &io::Error| {
            let fix = "choose another directory, or see who owns it";
            Error::new(Kind::Refused, format!("{call}: {error} — {fix}"))
        };
        let is_new = |level: &&Path| !level.as_os_str().is_empty() && !level.exists();
        let new = path.ancestors().take_while(is_new).count();
        if new > 0 {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(path).map_err(|error| refused(&error))?;
        }
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK));
        let mut lock = lock.map_err(|error| refused(&error))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut owner = String::new();
            let _ = (&lock).take(20).read_to_string(&mut owner);
            let owner = owner.trim().parse::<u32>();
            let owner = owner.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            let text =
                format!("{call}: {owner} uses it — stop that one, or choose another directory");
            return Err(Error::new(Kind::InUse, text));
        }
        // For whoever is refused; nothing depends on it.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        // A directory that is new must be there after a power loss too, and so must those above it that are.
        for level in path.ancestors().take(1 + new.max(1)) {
            let here = if level.as_os_str().is_empty() { Path::new(".") } else { level };
            let _ = File::open(here).and_then(|directory| directory.sync_all());
        }
        Ok(Disk { path: path.to_owned(), _lock: lock })
    }

    /// Opens the database to write. Only one at a time may be open.
    pub fn writer(&self) -> Result<Writer, Error> {
        log::examine(&database(&self.path))?;
        Writer::open(&database(&self.path))
    }

    /// Opens it to read, as often as wanted.
    pub fn reader(&self) -> Result<Reader, Error> {
        Reader::open(&database(&self.path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it takes on the disk.
    pub fn bytes(&self) -> u64 {
        let length = |name: &str| self.path.join(name).metadata().map_or(0, |file| file.len());
        length(DATABASE) + length(&format!("{DATABASE}-wal"))
    }
}

/// Where the database of a directory is.
pub(crate) fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

const LOCK: &str = "lock";
const DATABASE: &str = "wirelane.db";
