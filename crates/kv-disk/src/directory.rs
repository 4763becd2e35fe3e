//! The data directory: locks it, and opens it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{FlockOperation, flock, fstatfs};

use crate::contents::{Contents, Layout};
use crate::error::{Error, ErrorKind};
use crate::identity::Identity;
use crate::index;
use crate::reader::Reader;
use crate::upgrade::{self, Upgraded};
use crate::writer::Writer;

/// A directory that this process alone may write to.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    /// Those that the last writer opened.
    contents: Mutex<Option<Arc<Contents>>>,
    /// The UUID of the store, from its first writer on.
    store_id: OnceLock<String>,
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
        Ok(Disk {
            // So that other programs find it, whatever their working directory.
            path: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            contents: Mutex::new(None),
            store_id: OnceLock::new(),
            _locks: [directory, lock_file],
        })
    }

    /// The format of the directory, if it is an earlier one: [`upgrade`](Disk::upgrade) it before you open it.
    pub fn earlier_format(&self) -> Result<Option<u32>, Error> {
        upgrade::earlier_format(&Layout::new(&self.path))
    }

    /// Upgrades a directory of an earlier format; `progress` receives the number of values copied and the total. If it is
    /// interrupted, the directory has its earlier format, and the next upgrade begins again.
    pub fn upgrade(&self, progress: impl FnMut(u64, u64)) -> Result<Option<Upgraded>, Error> {
        let layout = Layout::new(&self.path);
        match upgrade::earlier_format(&layout)? {
            Some(format) => upgrade::upgrade(&layout, format, progress).map(Some),
            None => Ok(None),
        }
    }

    /// Whether the index has tables of another version: then opening it for writing makes the index again, from all of the log.
    pub fn has_other_index(&self) -> bool {
        index::has_other_version(&Layout::new(&self.path).index())
    }

    /// Opens it for writing. Only one writer may be open at a time; readers are opened by it.
    pub fn writer(&self) -> Result<Writer, Error> {
        let layout = Layout::new(&self.path);
        // A directory of a newer format is refused before anything is changed.
        Identity::read(&self.path)?;
        upgrade::remove_left(&layout);
        let writer = Writer::open(layout)?;
        *self.contents.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(writer.contents.clone());
        match Identity::ensure(&self.path) {
            Ok(identity) => _ = self.store_id.set(identity.store),
            // A store on a full disk can still be read; the next start creates it.
            Err(error) if error.kind() == ErrorKind::Full => {}
            Err(error) => return Err(error),
        }
        Ok(writer)
    }

    /// The size of the log, with what is no longer needed of it.
    pub fn log_bytes(&self) -> u64 {
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        contents.as_ref().map_or(0, |contents| contents.log_bytes())
    }

    /// Opens a reader, if a writer was opened.
    pub fn reader(&self) -> Result<Option<Reader>, Error> {
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner).clone();
        contents.map(Reader::open).transpose()
    }

    /// The UUID of the store, once it was opened for writing. It stays with the directory; a backup does not have it.
    pub fn store_id(&self) -> Option<&str> {
        self.store_id.get().map(String::as_str)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the log, the index and the long values, in bytes.
    pub fn bytes(&self) -> u64 {
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let known = contents.map_or(0, |contents| {
            contents.log_bytes() + contents.long_bytes.load(Ordering::Relaxed)
        });
        let index = Layout::new(&self.path).index();
        let length = |path: &Path| path.metadata().map_or(0, |file| file.len());
        known + length(&index) + length(Path::new(&format!("{}-wal", index.display())))
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

/// Refuses a directory of another host: locks may not reach its other users, and SQLite needs memory that all
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

const LOCK: &str = "lock";
