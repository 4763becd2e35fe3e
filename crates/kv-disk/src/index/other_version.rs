//! An index with tables of another version: it is made again from the log.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::{APPLICATION, VERSION};

/// An index with tables of another version, moved aside while a new one is made from the log.
pub(crate) struct OtherIndex {
    path: PathBuf,
    aside: PathBuf,
}

impl OtherIndex {
    /// Moves an index of another version aside, if there is one. The caller knows that the log has everything: databases of formats
    /// 1 and 2 have no log.
    pub(crate) fn set_aside(path: &Path) -> std::io::Result<Option<Self>> {
        let aside = with_suffix(path, "-other");
        let other = OtherIndex { path: path.to_owned(), aside };
        match DatabaseHeader::read(path)? {
            Some(_) if has_other_version(path) => {
                let _ = std::fs::remove_file(with_suffix(path, "-shm"));
                // The database last: until then it is found again.
                move_if_there(&with_suffix(path, "-wal"), &with_suffix(&other.aside, "-wal"))?;
                std::fs::rename(path, &other.aside)?;
                Ok(Some(other))
            }
            // An attempt was interrupted: the new index goes on.
            _ if other.aside.exists() => Ok(Some(other)),
            _ => Ok(None),
        }
    }

    /// The new index has everything.
    pub(crate) fn remove(self) {
        for suffix in ["-wal", ""] {
            let _ = std::fs::remove_file(with_suffix(&self.aside, suffix));
        }
    }

    /// The log cannot be read: gives the index its name again, for the version of the program that can use it.
    pub(crate) fn restore(self) {
        for suffix in ["-shm", "-wal", ""] {
            let _ = std::fs::remove_file(with_suffix(&self.path, suffix));
        }
        let wals = [&self.aside, &self.path].map(|path| with_suffix(path, "-wal"));
        let _ = move_if_there(&wals[0], &wals[1]);
        let _ = std::fs::rename(&self.aside, &self.path);
    }
}

pub(crate) fn has_other_version(path: &Path) -> bool {
    let header = DatabaseHeader::read(path).ok().flatten();
    header.is_some_and(|header| header.version > 2 && header.version != VERSION)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    PathBuf::from(path)
}

fn move_if_there(from: &Path, to: &Path) -> std::io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What the file of one of our databases says of itself. Not read by SQLite, which would read its log too.
pub(crate) struct DatabaseHeader {
    pub(crate) version: i64,
}

impl DatabaseHeader {
    /// `None`: no file, or not one of our databases.
    pub(crate) fn read(path: &Path) -> std::io::Result<Option<Self>> {
        let mut header = [0; 72];
        match File::open(path).and_then(|mut file| file.read_exact(&mut header)) {
            Ok(()) => {}
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::UnexpectedEof => return Ok(None),
                _ => return Err(error),
            },
        }
        // The offsets of `user_version` and `application_id`.
        let word =
            |at: usize| header[at..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        let is_ours = i64::from(word(68)) == APPLICATION;
        Ok(is_ours.then(|| DatabaseHeader { version: i64::from(word(60)) }))
    }
}
