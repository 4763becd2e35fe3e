//! A segment: a file of the log. It begins with a header; records follow.
//!
//! The header says where the segment before ends: what follows there was never acknowledged (a sync failed).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::position::Position;
use crate::record::{HEADER_BYTES, Header};

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// Where its records end.
    end: AtomicU32,
    /// Where those of the segment before end; `None`: the header is damaged.
    pub(crate) previous_end: Option<u32>,
}

/// A record that was read from a segment.
pub(crate) struct ReadRecord<'b> {
    pub(crate) header: Header,
    pub(crate) key: &'b [u8],
    pub(crate) body: &'b [u8],
}

impl Segment {
    /// Creates a segment; its header is on the disk when this returns.
    pub(crate) fn create(directory: &Path, number: u32, previous_end: u32) -> io::Result<Self> {
        let path = path(directory, number);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path)?;
        let header = header(number, previous_end);
        let written = file
            .write_all_at(&header, 0)
            .and_then(|()| file.sync_all())
            .and_then(|()| File::open(directory)?.sync_all());
        if let Err(error) = written {
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        let (end, previous_end) = (AtomicU32::new(START), Some(previous_end));
        Ok(Segment { number, path, file, end, previous_end })
    }

    /// Opens a segment. `None`: it was not created completely.
    pub(crate) fn open(directory: &Path, number: u32, write: bool) -> io::Result<Option<Self>> {
        let path = path(directory, number);
        let file = OpenOptions::new().read(true).write(write).open(&path)?;
        let length = file.metadata()?.len().min(u64::from(u32::MAX)) as u32;
        let mut bytes = [0; START as usize];
        let has_header = length >= START;
        if has_header {
            file.read_exact_at(&mut bytes, 0)?;
        }
        let previous_end = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        let previous_end = (bytes == header(number, previous_end)).then_some(previous_end);
        if previous_end.is_none() && length <= START {
            return Ok(None);
        }
        Ok(Some(Segment { number, path, file, end: AtomicU32::new(length), previous_end }))
    }

    /// The numbers of the segments of a directory, in order.
    pub(crate) fn list(directory: &Path) -> io::Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            numbers.extend(number.and_then(|number| u32::from_str_radix(number, 16).ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Where its records end; before it is known, the length of the file.
    pub(crate) fn end(&self) -> u32 {
        self.end.load(Relaxed)
    }

    pub(crate) fn set_end(&self, end: u32) {
        self.end.store(end, Relaxed);
    }

    /// Reads `bytes` bytes at an offset, and the record in them. `Ok(None)`: there is no intact one; the body is not
    /// verified.
    pub(crate) fn read<'b>(
        &self,
        offset: u32,
        bytes: usize,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<Option<ReadRecord<'b>>> {
        buffer.resize(bytes, 0);
        match self.file.read_exact_at(buffer, u64::from(offset)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(parse(buffer, Position { segment: self.number, offset }))
    }
}

impl Segment {
    /// The same without waiting for the disk. `Err` with `WouldBlock`: it is not in the page cache.
    pub(crate) fn read_cached<'b>(
        &self,
        offset: u32,
        bytes: usize,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<Option<ReadRecord<'b>>> {
        buffer.resize(bytes, 0);
        let slices = &mut [io::IoSliceMut::new(buffer)];
        let read = preadv2(&self.file, slices, u64::from(offset), ReadWriteFlags::NOWAIT);
        match read {
            Ok(read) if read == bytes => {}
            // A part of it is not there, or the file system cannot tell.
            Ok(_) | Err(Errno::AGAIN | Errno::OPNOTSUPP) => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(parse(buffer, Position { segment: self.number, offset }))
    }
}

/// The record at the start of these bytes, if it is complete and its header and key are intact.
pub(crate) fn parse(bytes: &[u8], at: Position) -> Option<ReadRecord<'_>> {
    let first = bytes.first_chunk::<HEADER_BYTES>()?;
    let header = Header::parse(first)?;
    let body = HEADER_BYTES + header.key_bytes;
    let (key, body) = (bytes.get(HEADER_BYTES..body)?, bytes.get(body..body + header.body_bytes)?);
    (bytes.len() >= header.record_bytes() && header.is_intact(at, first, key))
        .then_some(ReadRecord { header, key, body })
}

fn path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number:08x}{SUFFIX}"))
}

fn header(number: u32, previous_end: u32) -> [u8; START as usize] {
    let mut bytes = [0; START as usize];
    bytes[..8].copy_from_slice(b"WLKVLOG\x03");
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    bytes[12..16].copy_from_slice(&previous_end.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..60]);
    bytes[60..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Where records begin.
pub(crate) const START: u32 = 64;
const SUFFIX: &str = ".log";
