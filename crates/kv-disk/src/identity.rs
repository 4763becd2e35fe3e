//! Which store a directory belongs to, and its format: a small file of text.
//!
//! The index has a version of its own, since it can be made again from the log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};

/// The format of directories that this program reads and writes. Others are refused or upgraded.
pub(crate) const FORMAT: u32 = 3;

/// The identity of a store: it stays with its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// A random UUID. A directory made from a backup has another one.
    pub(crate) store: String,
}

impl Identity {
    /// Reads the identity of a directory, and creates it if there is none.
    pub(crate) fn ensure(directory: &Path) -> Result<Self, Error> {
        match Identity::read(directory)? {
            Some(identity) => Ok(identity),
            None => {
                let identity = Identity { store: random_uuid()? };
                identity.write(directory)?;
                Ok(identity)
            }
        }
    }

    /// Reads the identity of a directory, if it has one.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, Error> {
        let path = path(directory);
        let mut text = String::new();
        let read =
            File::open(&path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        match read {
            Ok(_) => Identity::parse(&text, &path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(damaged(&path)),
            Err(error) => Err(Error::of_system(&format!("read {}", path.display()), &error)),
        }
    }

    /// Removes the identity of a directory; durable when this returns.
    pub(crate) fn remove(directory: &Path) -> io::Result<()> {
        match fs::remove_file(path(directory)) {
            Ok(()) => File::open(directory)?.sync_all(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let (content, sum) = text.rsplit_once(SUM).ok_or_else(|| damaged(path))?;
        if sum.strip_suffix('\n') != Some(&checksum(content)) {
            return Err(damaged(path));
        }
        let value = |name: &str| {
            content.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        };
        let format = value("format").ok_or_else(|| damaged(path))?;
        if format != FORMAT.to_string() {
            let text = format!(
                "open {}: unsupported format {format}, this program supports format {FORMAT} — use the version that \
                 wrote it; nothing was changed",
                path.display()
            );
            return Err(Error::new(ErrorKind::Refused, text));
        }
        let store = value("store").ok_or_else(|| damaged(path))?;
        Ok(Identity { store: store.to_owned() })
    }

    /// Writes it; it is durable when this returns.
    fn write(&self, directory: &Path) -> Result<(), Error> {
        let path = path(directory);
        let failed =
            |error: io::Error| Error::of_system(&format!("write {}", path.display()), &error);
        let content = format!("format {FORMAT}\nstore {}\n", self.store);
        let text = format!("{content}{SUM}{}\n", checksum(&content));
        let part = path.with_extension("part");
        let mut options = OpenOptions::new();
        let created = options.write(true).create(true).truncate(true).mode(0o600).open(&part);
        created
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&part, &path))
            .and_then(|()| File::open(directory)?.sync_all())
            .map_err(failed)
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join("identity")
}

fn checksum(content: &str) -> String {
    format!("{:08x}", crc32c::crc32c(content.as_bytes()))
}

/// A random UUID, as RFC 9562 describes version 4.
fn random_uuid() -> Result<String, Error> {
    let mut bytes = [0; 16];
    let read = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    read.map_err(|error| Error::of_system("read random bytes", &error.into()))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    Ok(text)
}

#[cold]
fn damaged(path: &Path) -> Error {
    let text = format!(
        "read {0}: damaged — restore it from a copy of the directory, or remove it: the store then has another UUID, and \
         the same values",
        path.display()
    );
    Error::new(ErrorKind::Damaged, text)
}

/// Before the checksum of what precedes it.
const SUM: &str = "sum ";
const MAX_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_uuid_and_no_two_are_the_same() {
        let (one, other) = (random_uuid().unwrap(), random_uuid().unwrap());
        assert_ne!(one, other);
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!((parts, &one[14..15]), (vec![8, 4, 4, 4, 12], "4"));
    }
}
