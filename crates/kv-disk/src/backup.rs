//! Backup, also while a store uses the directory, and restore.
//!
//! A backup is one file: a header, a record for each value as in the log, and at its end a record with their number. The bytes of
//! a long value follow its record in chunks, each after its checksum.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::CHUNK_BYTES;
use crate::change::{Body, Change};
use crate::check::Discard;
use crate::contents::Layout;
use crate::directory::Disk;
use crate::error::{Error, ErrorKind};
use crate::identity::Identity;
use crate::metadata::Metadata;
use crate::position::Position;
use crate::reader::Sink;
use crate::record::{HEADER_BYTES, Header, Record, RecordKind};
use crate::row::Row;
use crate::segment::parse;
use crate::snapshot::Snapshot;
use crate::writer::{DiskWriter, Writer};

/// Copies the values of a directory into a new file. `progress` receives the values copied and the total.
/// The copy is a consistent snapshot: writes during the backup are not in it. Returns the keys of damaged values, which are
/// left out.
pub fn back_up(
    directory: &Path,
    file: &Path,
    progress: impl FnMut(u64, u64),
) -> Result<Vec<Box<[u8]>>, Error> {
    let snapshot = Snapshot::open(directory, "back up")?;
    refuse_existing(file)?;
    let call = format!("write {}", file.display());
    let failed = |error: io::Error| Error::of_system(&call, &error);
    let part = PathBuf::from(format!("{}.part", file.display()));
    let _ = std::fs::remove_file(&part);
    let mut options = std::fs::OpenOptions::new();
    let created = options.write(true).create_new(true).mode(0o600).open(&part).map_err(failed)?;
    let mut backup = BackupWriter::new(created, call.clone());
    // Renamed when it is complete, so that a file of the final name always is.
    let copied = backup.write_all(&snapshot, progress).and_then(|damaged| {
        std::fs::rename(&part, file).map_err(failed)?;
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))
            .and_then(|parent| parent.sync_all())
            .map_err(failed)?;
        Ok(damaged)
    });
    if copied.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    copied
}

/// Restores a backup into a directory, which must not have a store. `progress` receives the bytes read and the total.
pub fn restore(file: &Path, directory: &Path, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    // Opening a pipe would wait for its writer.
    if !file.is_file() {
        let text = format!("restore {}: no such file, or not a regular one", file.display());
        return Err(Error::new(ErrorKind::Refused, text));
    }
    let mut backup = BackupReader::open(file)?;
    let disk = Disk::open(directory)?;
    let layout = Layout::new(disk.path());
    let long_values = layout.long_values();
    let wal = PathBuf::from(format!("{}-wal", layout.index().display()));
    if layout.directory.join("restore").exists() && !layout.has_store() {
        // Of a restore that was interrupted.
        let _ = std::fs::remove_dir_all(long_values.folder());
    }
    for left in [&layout.index(), &wal, &layout.log(), &long_values.folder().to_owned()] {
        refuse_existing(left)?;
    }
    let call = format!("restore {}", file.display());
    let failed = |error: io::Error| Error::of_system(&call, &error);
    // Made beside its place, so that a directory with a store always has all of it.
    let new = Layout::new(&layout.directory.join("restore"));
    let _ = std::fs::remove_dir_all(&new.directory);
    let restored = Writer::open(new.clone())
        .and_then(|mut writer| backup.read_all(&mut writer, progress))
        .and_then(|()| new.require_complete_index());
    let moved = restored.and_then(|()| {
        let rename = |from: &Path, to: &Path| std::fs::rename(from, to);
        rename(new.long_values().folder(), long_values.folder()).map_err(failed)?;
        // The store that was here: the restored one is another.
        Identity::remove(&layout.directory).map_err(failed)?;
        // From here on there is a store. Without the index it would be made again.
        rename(&new.log(), &layout.log()).map_err(failed)?;
        rename(&new.index(), &layout.index()).map_err(failed)?;
        File::open(&layout.directory).and_then(|directory| directory.sync_all()).map_err(failed)
    });
    let _ = std::fs::remove_dir_all(&new.directory);
    moved
}

struct BackupWriter {
    out: BufWriter<File>,
    /// The bytes written.
    at: u64,
    /// The bytes of a record.
    bytes: Vec<u8>,
    call: String,
}

impl BackupWriter {
    fn new(file: File, call: String) -> Self {
        BackupWriter {
            out: BufWriter::with_capacity(1 << 20, file),
            at: 0,
            bytes: Vec::new(),
            call,
        }
    }

    /// Returns the keys of damaged values.
    fn write_all(
        &mut self,
        snapshot: &Snapshot,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Vec<Box<[u8]>>, Error> {
        self.write(&MAGIC)?;
        let (total, mut buffer, mut values) = (snapshot.values(), Vec::new(), 0);
        let mut damaged = Vec::new();
        snapshot.rows(|key, row| {
            match self.write_value(snapshot, key, row, &mut buffer)? {
                true => values += 1,
                false => damaged.push(key.into()),
            }
            progress(values, total.max(values));
            Ok(())
        })?;
        progress(values, values);
        let (kind, version) = (RecordKind::Run, snapshot.run);
        let end = Record {
            kind,
            shard: None,
            key: &[],
            version,
            expires: None,
            length: values,
            body: &[],
        };
        self.write_record(&end, true)?;
        let failed = |error: io::Error| Error::of_system(&self.call, &error);
        self.out.flush().and_then(|()| self.out.get_ref().sync_all()).map_err(failed)?;
        Ok(damaged)
    }

    /// `false`: the value cannot be read.
    fn write_value(
        &mut self,
        snapshot: &Snapshot,
        key: &[u8],
        row: Result<Row, Error>,
        buffer: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let Ok(row) = row else { return Ok(false) };
        let Metadata { version, expires, length } = row.metadata;
        let is_long = row.long.is_some();
        let kind = if is_long { RecordKind::LongValue } else { RecordKind::Value };
        let head = Record { kind, shard: row.shard, key, version, expires, length, body: &[] };
        if is_long {
            // All of it, before any of it is written.
            if snapshot.read(key, &row, buffer, &mut Discard).is_err() {
                return Ok(false);
            }
            self.write_record(&head, false)?;
        }
        let mut sink = BackupSink { backup: self, result: Ok(()), bytes: Vec::new(), is_long };
        let read = snapshot.read(key, &row, buffer, &mut sink);
        let BackupSink { result, bytes, .. } = sink;
        result?;
        match (read, is_long) {
            (Ok(()), true) => Ok(true),
            (Ok(()), false) => {
                self.write_record(&Record { body: &bytes, ..head }, false)?;
                Ok(true)
            }
            // It was readable a moment ago, and a part of it is written.
            (Err(error), true) => Err(error),
            (Err(_), false) => Ok(false),
        }
    }

    fn write_record(&mut self, record: &Record<'_>, is_last: bool) -> Result<(), Error> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        record.encode(&mut bytes, position(self.at), 1, is_last);
        let written = self.write(&bytes);
        self.bytes = bytes;
        written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|error| Error::of_system(&self.call, &error))
    }
}

/// Receives a value that is copied.
struct BackupSink<'b> {
    backup: &'b mut BackupWriter,
    result: Result<(), Error>,
    /// A short value.
    bytes: Vec<u8>,
    is_long: bool,
}

impl Sink for BackupSink<'_> {
    fn begin(&mut self, _: &Metadata) -> bool {
        true
    }

    fn bytes(&mut self, _: u64, bytes: &[u8]) {
        if !self.is_long {
            self.bytes.extend_from_slice(bytes);
        } else if self.result.is_ok() {
            let sum = crc32c::crc32c(bytes).to_le_bytes();
            let written = self.backup.write(&sum).and_then(|()| self.backup.write(bytes));
            self.result = written;
        }
    }
}

struct BackupReader {
    file: BufReader<File>,
    at: u64,
    length: u64,
    path: PathBuf,
}

/// A record of a backup, without what follows it.
struct BackupRecord {
    header: Header,
    key: Vec<u8>,
    body: Vec<u8>,
}

impl BackupReader {
    fn open(path: &Path) -> Result<Self, Error> {
        let call = format!("restore {}", path.display());
        let failed = |error: io::Error| Error::of_system(&call, &error);
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let file = BufReader::with_capacity(1 << 20, file);
        let mut reader = BackupReader { file, at: 0, length, path: path.to_owned() };
        let mut magic = [0; MAGIC.len()];
        match reader.read(&mut magic) {
            Ok(()) if magic == MAGIC => Ok(reader),
            _ => {
                let text = format!(
                    "{call}: not a backup of this version — restore it with the version that wrote it"
                );
                Err(Error::new(ErrorKind::Refused, text))
            }
        }
    }

    fn read_all(
        &mut self,
        writer: &mut Writer,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let (mut batch, mut bytes, mut values) = (Vec::new(), 0, 0);
        loop {
            let record = self.read_record()?;
            let header = &record.header;
            match header.kind {
                RecordKind::Value => {
                    bytes += record.key.len() + record.body.len();
                    values += 1;
                    batch.push(record);
                }
                RecordKind::LongValue => {
                    values += 1;
                    self.read_long(&record, values, writer)?;
                }
                RecordKind::Run if header.length == values => {
                    save(writer, &batch)?;
                    writer.begin_run(header.version)?;
                    progress(self.at, self.length);
                    return Ok(());
                }
                _ => return Err(self.damaged()),
            }
            if bytes >= BATCH_BYTES || batch.len() >= BATCH_ROWS {
                save(writer, &batch)?;
                batch.clear();
                bytes = 0;
                progress(self.at, self.length);
            }
        }
    }

    fn read_record(&mut self) -> Result<BackupRecord, Error> {
        let at = position(self.at);
        let mut bytes = vec![0; HEADER_BYTES];
        self.read(&mut bytes)?;
        let header = bytes.first_chunk().and_then(Header::parse).ok_or_else(|| self.damaged())?;
        bytes.resize(header.record_bytes(), 0);
        self.read(&mut bytes[HEADER_BYTES..])?;
        let record = parse(&bytes, at).filter(|record| record.header.has_body(record.body));
        let record = record.ok_or_else(|| self.damaged())?;
        Ok(BackupRecord { header, key: record.key.to_vec(), body: record.body.to_vec() })
    }

    /// Reads the chunks of a long value, and saves it.
    fn read_long(
        &mut self,
        record: &BackupRecord,
        value_id: u64,
        writer: &mut Writer,
    ) -> Result<(), Error> {
        let Header { shard, version, expires, length, .. } = record.header;
        let mut chunk = vec![0; CHUNK_BYTES];
        let (mut left, mut number) = (length, 0);
        while left > 0 {
            let mut sum = [0; 4];
            self.read(&mut sum)?;
            let bytes = &mut chunk[..left.min(CHUNK_BYTES as u64) as usize];
            self.read(bytes)?;
            if crc32c::crc32c(bytes).to_le_bytes() != sum {
                return Err(self.damaged());
            }
            writer.save(&[Change::Chunk { value_id, number, bytes }])?;
            left -= bytes.len() as u64;
            number += 1;
        }
        let (key, body) = (&record.key[..], Body::Chunks(value_id));
        writer.save(&[Change::Put { shard, key, version, expires, length, body }])
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        self.at += bytes.len() as u64;
        match self.file.read_exact(bytes) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.damaged()),
            Err(error) => {
                Err(Error::of_system(&format!("restore {}", self.path.display()), &error))
            }
        }
    }

    fn damaged(&self) -> Error {
        let (path, at) = (self.path.display(), self.at);
        let text = format!(
            "restore {path}: damaged before byte {at} — use another backup; nothing was restored"
        );
        Error::new(ErrorKind::Damaged, text)
    }
}

fn save(writer: &mut Writer, batch: &[BackupRecord]) -> Result<(), Error> {
    let changes = batch.iter().map(|BackupRecord { header, key, body }| {
        let Header { shard, version, expires, length, .. } = *header;
        Change::Put { shard, key, version, expires, length, body: Body::Inline(body) }
    });
    writer.save(&changes.collect::<Vec<_>>())
}

/// A byte of the file, for the checksum of the record there.
fn position(at: u64) -> Position {
    Position { segment: (at >> 32) as u32, offset: at as u32 }
}

fn refuse_existing(file: &Path) -> Result<(), Error> {
    if file.exists() {
        let text =
            format!("write {}: file exists — choose another name, or remove it", file.display());
        return Err(Error::new(ErrorKind::Refused, text));
    }
    Ok(())
}

const MAGIC: [u8; 8] = *b"WLKVBAK\x03";
const BATCH_BYTES: usize = 4 << 20;
const BATCH_ROWS: usize = 10_000;
