//! Where a value goes to: stdout, or a file that is there only when it is whole.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kv_client::{Reader, Value};
use tempfile::NamedTempFile;

use crate::output;
use crate::output::Failure;

/// Takes bytes.
pub(super) enum Sink {
    Stdout,
    /// A file beside the one meant, which it becomes in the end.
    New {
        file: NamedTempFile,
        path: PathBuf,
    },
    /// A device or a pipe, which nothing can take the place of.
    There {
        file: File,
        path: PathBuf,
    },
}

impl Sink {
    /// A file of this name.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let wrong = |error: io::Error| unwritable(path, &error);
        // What a link leads to is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&path) {
            Ok(facts) if facts.is_dir() => {
                let text = format!("write {}: it is a folder — name a file", path.display());
                return Err(Failure::usage(text));
            }
            Ok(facts) if !facts.is_file() => {
                let file = File::options().write(true).open(&path).map_err(wrong)?;
                return Ok(Sink::There { file, path });
            }
            _ => {}
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(".wirelane-")
            // As every new file: less what the user's mask takes away.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .map_err(wrong)?;
        Ok(Sink::New { file, path })
    }

    /// All that a reader has. `false`: whoever reads our stdout has seen enough.
    pub(super) fn drain(&mut self, reader: &mut Reader<'_>) -> Result<bool, Failure> {
        let bar = output::bar(reader.length(), "fetching");
        let mut bytes = Vec::new();
        while let Some(value) = reader.next_piece()? {
            copy_out(&value, &mut bytes);
            // Its memory is free for the pieces to come.
            drop(value);
            if !self.write(&bytes)? {
                return Ok(false);
            }
            bar.inc(bytes.len() as u64);
        }
        bar.finish_and_clear();
        Ok(true)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        let (written, path) = match self {
            Sink::Stdout => return output::bytes(bytes),
            Sink::New { file, path } => (file.write_all(bytes), path),
            Sink::There { file, path } => (file.write_all(bytes), path),
        };
        written.map_err(|error| unwritable(path, &error))?;
        Ok(true)
    }

    /// Everything is here.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Sink::Stdout | Sink::There { .. } => Ok(()),
            Sink::New { file, path } => match file.persist(&path) {
                Ok(_) => Ok(()),
                Err(error) => Err(unwritable(&path, &error.error)),
            },
        }
    }
}

fn copy_out(value: &Value, bytes: &mut Vec<u8>) {
    bytes.resize(value.len(), 0);
    value.read(0, bytes);
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("write {}: {error}", path.display()))
}
