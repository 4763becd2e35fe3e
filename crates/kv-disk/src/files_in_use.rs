//! The files that SQLite has open, and whether they still have their names: a file that was removed can be written and
//! synced without an error, and is gone when it is closed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};

/// The database and its log, as they were when they were opened.
#[derive(Debug)]
pub(crate) struct FilesInUse {
    database: NamedFile,
    /// SQLite creates it when the database is first used, and keeps it until the last connection is closed.
    log: Option<NamedFile>,
}

#[derive(Debug)]
struct NamedFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

impl FilesInUse {
    pub(crate) fn open(database: &Path) -> Result<Self, Error> {
        let file = NamedFile::open(database).map_err(|error| {
            let text =
                format!("open {}: {error} — check its owner and permissions", database.display());
            Error::new(ErrorKind::Failed, text)
        })?;
        let mut files = FilesInUse { database: file, log: None };
        files.check()?;
        Ok(files)
    }

    /// An error if one of them was removed, moved or replaced.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.database.check()?;
        match &self.log {
            Some(log) => log.check()?,
            None => {
                let mut log = self.database.path.as_os_str().to_owned();
                log.push("-wal");
                self.log = NamedFile::open(Path::new(&log)).ok();
            }
        }
        Ok(())
    }
}

impl NamedFile {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(NamedFile { path: path.to_owned(), id: id(path)? })
    }

    fn check(&self) -> Result<(), Error> {
        let cause = match id(&self.path) {
            Ok(id) if id == self.id => return Ok(()),
            Ok(_) => "another file has its name".to_owned(),
            Err(error) => error.to_string(),
        };
        let text = format!(
            "write to {}: the file in use was removed, moved or replaced ({cause}) — move it back; if it was removed, \
             copy the values that are needed with `wirelane kv get` before you restart the server",
            self.path.display()
        );
        Err(Error::new(ErrorKind::Failed, text))
    }
}

fn id(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|file| (file.dev(), file.ino()))
}
