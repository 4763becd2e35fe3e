//! The source of a value: the command line, a file, or stdin. Only a value that fits into one request is kept in
//! memory; a longer one is read while it is sent. Nothing is read before the store's limit is known.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;

use access::files::InputFile;
use kv_client::{Client, PutOptions, Stored};

use super::key::Key;
use crate::output;
use crate::output::Failure;

/// Where a value comes from, before it is read.
pub(super) enum Input {
    /// The command line.
    Bytes(Vec<u8>),
    /// A file of any kind, from its current position.
    File { file: File, name: String },
}

/// A value of known length.
pub(super) enum Source {
    /// In memory.
    Bytes(Vec<u8>),
    /// In a file, from its current position.
    File { file: File, length: u64, name: String },
}

impl Input {
    /// From a file of any kind.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = InputFile::open(path).and_then(InputFile::into_file);
        let file = file.map_err(|error| read_failed(&name, &error))?;
        Ok(Input::File { file, name })
    }

    /// From stdin.
    pub(super) fn stdin() -> Result<Self, Failure> {
        let name = "stdin".to_owned();
        if output::closed::stdin() {
            let text = "read stdin: it is closed — redirect it from a file, or from /dev/null for an empty value";
            return Err(Failure::failed(text.to_owned()));
        }
        let file = io::stdin().as_fd().try_clone_to_owned();
        let file = File::from(file.map_err(|error| read_failed(&name, &error))?);
        Ok(Input::File { file, name })
    }

    /// Whether reading it may wait for another process.
    pub(super) fn may_wait(&self) -> bool {
        match self {
            Input::Bytes(_) => false,
            Input::File { file, .. } => !file.metadata().is_ok_and(|metadata| metadata.is_file()),
        }
    }

    /// Reads it, or finds its length, up to the longest value that the store accepts.
    pub(super) fn read(self, max: u64) -> Result<Source, Failure> {
        match self {
            Input::Bytes(bytes) => Ok(Source::Bytes(bytes)),
            Input::File { file, name } => Source::from_file(file, name, max),
        }
    }
}

impl Source {
    fn from_file(mut file: File, name: String, max: u64) -> Result<Self, Failure> {
        let failed = |error: io::Error| read_failed(&name, &error);
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Failure::usage(format!("read {name}: is a directory — pass a file")));
        }
        let length = match metadata.is_file() {
            true => metadata.len().saturating_sub(file.stream_position().map_err(failed)?),
            false => 0,
        };
        // Files of the kernel (/proc) report length 0, but may have contents.
        if length > MAX_IN_MEMORY_BYTES {
            return Ok(Source::File { file, length, name });
        }
        let mut bytes = Vec::new();
        (&file).take(MAX_IN_MEMORY_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        match bytes.len() as u64 > MAX_IN_MEMORY_BYTES {
            false => Ok(Source::Bytes(bytes)),
            true => spool(&bytes, &file, name, max),
        }
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::File { length, .. } => *length,
        }
    }

    /// Stores it as the value of a key.
    pub(super) fn store(
        self,
        client: &mut Client,
        key: &Key,
        options: &PutOptions,
    ) -> Result<Stored, Failure> {
        let (mut file, length, name) = match self {
            Source::Bytes(bytes) => return Ok(client.put(key.bytes(), &bytes, options)?),
            Source::File { file, length, name } => (file, length, name),
        };
        let bar = output::bar(length, "storing");
        let mut writer = client.create(key.bytes(), length, options)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        while writer.missing() > 0 {
            let length = writer.missing().min(CHUNK_BYTES as u64) as usize;
            let read =
                file.read(&mut chunk[..length]).map_err(|error| read_failed(&name, &error))?;
            if read == 0 {
                return Err(Failure::failed(format!(
                    "read {name}: the file was truncated while it was read ({} bytes are missing) — try again",
                    writer.missing()
                )));
            }
            writer.write(&chunk[..read])?;
            bar.inc(read as u64);
        }
        let stored = writer.commit()?;
        bar.finish_and_clear();
        Ok(stored)
    }
}

/// Copies a stream to a temporary file: the store needs the length before the value. A stream without end stops at the
/// longest value that the store accepts.
fn spool(begin: &[u8], rest: &File, name: String, max: u64) -> Result<Source, Failure> {
    let failed = |error: io::Error| {
        Failure::failed(format!(
            "copy {name} to a temporary file to find its length: {error} — set TMPDIR to a directory with \
             more space"
        ))
    };
    let mut file = tempfile::tempfile().map_err(failed)?;
    file.write_all(begin).map_err(failed)?;
    let begin = begin.len() as u64;
    let mut allowed = rest.take(max.saturating_sub(begin).saturating_add(1));
    let length = begin + io::copy(&mut allowed, &mut file).map_err(failed)?;
    if length > max {
        return Err(Failure::failed(format!(
            "read {name}: longer than the store's longest value, {max} bytes — store it in parts, or start the server \
             with a larger --max-value or --memory"
        )));
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(Source::File { file, length, name })
}

fn read_failed(name: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("read {name}: {error}"))
}

/// Longer values are read while they are sent.
const MAX_IN_MEMORY_BYTES: u64 = 4 << 20;
const CHUNK_BYTES: usize = 1 << 20;
