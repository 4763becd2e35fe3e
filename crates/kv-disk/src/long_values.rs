//! Long values: each in a file of its own, so that its bytes are written once and its space is free when it is replaced.
//!
//! A file has the value, a checksum of each chunk, and a trailer with the checksum of these. It has its name before it is
//! complete; the log refers to it when it is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::CHUNK_BYTES;

/// The folder of the files.
#[derive(Debug, Clone)]
pub(crate) struct LongValues {
    folder: PathBuf,
}

/// A long value that is being written.
#[derive(Debug)]
pub(crate) struct LongValueWriter {
    file: File,
    sums: Vec<u32>,
    length: u64,
}

/// A long value, open for reading.
#[derive(Debug)]
pub(crate) struct LongValue {
    number: u64,
    file: File,
}

impl LongValues {
    pub(crate) fn new(folder: PathBuf) -> Self {
        LongValues { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:016x}"))
    }

    /// The numbers of all files.
    pub(crate) fn list(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            numbers.extend(name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok()));
        }
        Ok(numbers)
    }

    pub(crate) fn create(&self, number: u64) -> io::Result<LongValueWriter> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        Ok(LongValueWriter { file: options.open(self.path(number))?, sums: Vec::new(), length: 0 })
    }

    /// Removes a file, if it is there; returns its length.
    pub(crate) fn remove(&self, number: u64) -> io::Result<u64> {
        let path = self.path(number);
        let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(bytes),
        }
    }

    /// Syncs the names of the files.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    /// Opens a value. `None`: it was replaced in the meantime.
    pub(crate) fn open(&self, number: u64) -> io::Result<Option<LongValue>> {
        match File::open(self.path(number)) {
            Ok(file) => Ok(Some(LongValue { number, file })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl LongValue {
    /// Reads a value of this length; `take` receives its bytes in order. `Ok(false)`: it is damaged.
    pub(crate) fn read(&self, length: u64, mut take: impl FnMut(u64, &[u8])) -> io::Result<bool> {
        let chunks = length.div_ceil(CHUNK_BYTES as u64) as usize;
        let mut sums = vec![0; chunks * 4 + TRAILER_BYTES];
        if !self.read_at(&mut sums, length)? {
            return Ok(false);
        }
        if sums[chunks * 4..] != trailer(self.number, length, &sums[..chunks * 4]) {
            return Ok(false);
        }
        let mut chunk = vec![0; CHUNK_BYTES.min(length as usize)];
        for (at, sum) in sums[..chunks * 4].chunks_exact(4).enumerate() {
            let offset = at as u64 * CHUNK_BYTES as u64;
            let chunk = &mut chunk[..(length - offset).min(CHUNK_BYTES as u64) as usize];
            if !self.read_at(chunk, offset)? || crc32c::crc32c(chunk).to_le_bytes() != sum {
                return Ok(false);
            }
            take(offset, chunk);
        }
        Ok(true)
    }

    /// `false`: the file is shorter.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<bool> {
        match self.file.read_exact_at(bytes, at) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl LongValueWriter {
    /// Writes a chunk: the next one, or one that was written before.
    pub(crate) fn write(&mut self, number: u32, bytes: &[u8]) -> io::Result<()> {
        let offset = u64::from(number) * CHUNK_BYTES as u64;
        self.file.write_all_at(bytes, offset)?;
        self.sums.truncate(number as usize);
        self.sums.push(crc32c::crc32c(bytes));
        self.length = offset + bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Writes what follows the value.
    pub(crate) fn finish(&self, number: u64) -> io::Result<()> {
        let mut bytes: Vec<u8> = self.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        let trailer = trailer(number, self.length, &bytes);
        bytes.extend_from_slice(&trailer);
        self.file.write_all_at(&bytes, self.length)
    }

    /// The bytes are on the disk when this returns; the name is not.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

fn trailer(number: u64, length: u64, sums: &[u8]) -> [u8; TRAILER_BYTES] {
    let mut bytes = [0; TRAILER_BYTES];
    bytes[..8].copy_from_slice(b"WLKVVAL\x03");
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..24].copy_from_slice(&length.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..24]), sums);
    bytes[24..28].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The number of a value that has no file: it is known to be damaged.
pub(crate) const NO_FILE: u64 = i64::MAX as u64;
const TRAILER_BYTES: usize = 32;
