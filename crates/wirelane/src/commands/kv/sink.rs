//! The destination of a value: stdout, or a file that is replaced atomically.

use std::fs::{self, File, Permissions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kv_client::{Reader, Value};
use tempfile::NamedTempFile;

use crate::output;
use crate::output::Failure;

/// Writes bytes.
pub(super) enum Sink {
    Stdout {
        /// Whether the last line is complete.
        ends_line: bool,
    },
    /// A temporary file in the same directory, renamed at the end.
    NewFile { file: NamedTempFile, path: PathBuf },
    /// A device or a pipe, which cannot be replaced.
    Special { file: File, path: PathBuf },
}

impl Sink {
    /// Stdout.
    pub(super) fn stdout() -> Self {
        Sink::Stdout { ends_line: true }
    }

    /// A file of this name.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| write_failed(path, &error);
        // The target of a symbolic link is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                let text = format!("write {}: is a directory — pass a file", path.display());
                return Err(Failure::usage(text));
            }
            Ok(metadata) if !metadata.is_file() => {
                let file = File::options().write(true).open(&path).map_err(failed)?;
                return Ok(Sink::Special { file, path });
            }
            _ => {}
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(".wirelane-")
            // As for every new file; the umask removes permissions.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .map_err(failed)?;
        Ok(Sink::NewFile { file, path })
    }

    /// Writes everything that a reader returns; `false` if stdout was closed.
    pub(super) fn write_all(&mut self, reader: &mut Reader<'_>) -> Result<bool, Failure> {
        let bar = output::bar(reader.length(), "reading");
        let mut bytes = Vec::new();
        while let Some(value) = reader.next_chunk()? {
            copy_out(&value, &mut bytes);
            // Frees its part of the client buffer.
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
            Sink::Stdout { ends_line } => {
                *ends_line = bytes.last().map_or(*ends_line, |last| *last == b'\n');
                return output::bytes(bytes);
            }
            Sink::NewFile { file, path } => (file.write_all(bytes), path),
            Sink::Special { file, path } => (file.write_all(bytes), path),
        };
        written.map_err(|error| write_failed(path, &error))?;
        Ok(true)
    }

    /// Completes the file. On a terminal the last line is completed too, so that the prompt is on its own line.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Sink::Stdout { ends_line: false } if io::stdout().is_terminal() => {
                output::bytes(b"\n").map(drop)
            }
            Sink::Stdout { .. } | Sink::Special { .. } => Ok(()),
            Sink::NewFile { file, path } => match file.persist(&path) {
                Ok(_) => Ok(()),
                Err(error) => Err(write_failed(&path, &error.error)),
            },
        }
    }
}

fn copy_out(value: &Value, bytes: &mut Vec<u8>) {
    bytes.resize(value.len(), 0);
    value.read(0, bytes);
}

fn write_failed(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("write {}: {error}", path.display()))
}
