//! Where a value comes from: the command line, a file, or stdin. Only what fits into one request is held in
//! memory; the rest is read while it is sent.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;

use kv_client::{Client, PutOptions, Stored};

use super::key::Key;
use crate::output;
use crate::output::Failure;

/// A value of known length.
pub(super) enum Source {
    /// In memory.
    Bytes(Vec<u8>),
    /// In a file, from where it stands on.
    File { file: File, length: u64, name: String },
}

impl Source {
    /// From a file, whatever kind it is.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
        Self::of(file, name)
    }

    /// From stdin.
    pub(super) fn stdin() -> Result<Self, Failure> {
        let name = "stdin".to_owned();
        let file = io::stdin().as_fd().try_clone_to_owned();
        let file = File::from(file.map_err(|error| unreadable(&name, &error))?);
        Self::of(file, name)
    }

    fn of(mut file: File, name: String) -> Result<Self, Failure> {
        let wrong = |error: io::Error| unreadable(&name, &error);
        let facts = file.metadata().map_err(wrong)?;
        if facts.is_dir() {
            return Err(Failure::usage(format!("read {name}: it is a folder — name a file")));
        }
        let known = match facts.is_file() {
            true => facts.len().saturating_sub(file.stream_position().map_err(wrong)?),
            false => 0,
        };
        // Files of the kernel's say that they have no length, and have something to read all the same.
        if known > AT_ONCE {
            return Ok(Source::File { file, length: known, name });
        }
        let mut bytes = Vec::new();
        (&file).take(AT_ONCE + 1).read_to_end(&mut bytes).map_err(wrong)?;
        match bytes.len() as u64 > AT_ONCE {
            false => Ok(Source::Bytes(bytes)),
            true => spool(&bytes, &mut file, name),
        }
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::File { length, .. } => *length,
        }
    }

    /// Makes it a key's value.
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
        let mut piece = vec![0; PIECE];
        while writer.missing() > 0 {
            let most = writer.missing().min(PIECE as u64) as usize;
            let read = file.read(&mut piece[..most]).map_err(|error| unreadable(&name, &error))?;
            if read == 0 {
                return Err(Failure::failed(format!(
                    "read {name}: it became shorter while it was read ({} bytes are missing) — try again",
                    writer.missing()
                )));
            }
            writer.write(&piece[..read])?;
            bar.inc(read as u64);
        }
        let stored = writer.commit()?;
        bar.finish_and_clear();
        Ok(stored)
    }
}

/// A store wants to know the length first: what has none is kept in a file until its end is seen.
fn spool(begin: &[u8], rest: &mut File, name: String) -> Result<Source, Failure> {
    let wrong = |error: io::Error| {
        Failure::failed(format!(
            "keep {name} in a temporary file until its length is known: {error} — set TMPDIR to a folder with \
             more room"
        ))
    };
    let mut file = tempfile::tempfile().map_err(wrong)?;
    file.write_all(begin).map_err(wrong)?;
    let more = io::copy(rest, &mut file).map_err(wrong)?;
    file.seek(SeekFrom::Start(0)).map_err(wrong)?;
    Ok(Source::File { file, length: begin.len() as u64 + more, name })
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("read {name}: {error}"))
}

/// What is read into memory at once.
const AT_ONCE: u64 = 4 << 20;
const PIECE: usize = 1 << 20;
