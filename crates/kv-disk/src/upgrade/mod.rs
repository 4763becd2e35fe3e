//! Upgrades a directory of formats 1 and 2, in which an SQLite database had the values too.
//!
//! The new contents are made in a folder beside the database, which stays as it is until they are complete. Then the new
//! index replaces the database, in one step: before it the directory has the old format, and an upgrade begins again; after
//! it the new one. A second name of the old database is its backup.

mod sqlite_log;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row, params};

use crate::change::{Body, Change};
use crate::contents::Layout;
use crate::error::{Error, ErrorKind};
use crate::index::{DatabaseHeader, pragma};
use crate::metadata::Metadata;
use crate::writer::{DiskWriter, Writer};
use crate::{CHUNK_BYTES, metadata};

/// The result of an upgrade.
#[derive(Debug)]
pub struct Upgraded {
    /// The format of the directory before.
    pub from: u32,
    /// The number of values.
    pub values: u64,
    /// Keys whose values were damaged before: reads of them still say so.
    pub damaged: Vec<Box<[u8]>>,
    /// The old database.
    pub backup: PathBuf,
}

/// The format of a directory, if it is an earlier one.
pub(crate) fn earlier_format(layout: &Layout) -> Result<Option<u32>, Error> {
    // What is damaged is refused by what reads it next.
    let header = DatabaseHeader::read(&layout.index()).ok().flatten();
    let format = header.and_then(|header| u32::try_from(header.version).ok());
    Ok(format.filter(|format| EARLIER.contains(format)))
}

/// Upgrades a directory; `progress` receives the number of values copied and the total.
pub(crate) fn upgrade(
    layout: &Layout,
    format: u32,
    mut progress: impl FnMut(u64, u64),
) -> Result<Upgraded, Error> {
    let database = layout.index();
    let call = format!("upgrade {} from format {format}", layout.directory.display());
    let failed = |error: io::Error| Error::of_system(&call, &error);
    sqlite_log::check(&database)?;
    // What an earlier attempt left.
    let new = Layout::new(&layout.directory.join("upgrade"));
    for left in [&new.directory, &layout.log(), &layout.long_values().folder().to_owned()] {
        remove_folder(left).map_err(failed)?;
    }
    let Copied { values, damaged } = {
        let old = OldDatabase::open(&database, format)?;
        let mut writer = Writer::open(new.clone())?;
        let copied = old.copy_to(&mut writer, &mut progress)?;
        // The new index is complete when the writer is closed.
        drop(writer);
        new.require_complete_index()?;
        copied
    };
    let backup = layout.directory.join(format!("wirelane.format-{format}.db"));
    let _ = fs::remove_file(&backup);
    fs::hard_link(&database, &backup).map_err(failed)?;
    let long_values = (new.long_values(), layout.long_values());
    fs::rename(long_values.0.folder(), long_values.1.folder()).map_err(failed)?;
    fs::rename(new.log(), layout.log()).map_err(failed)?;
    sync(&layout.directory).map_err(failed)?;
    fs::rename(new.index(), &database).map_err(failed)?; // from here on the format is the new one
    sync(&layout.directory).map_err(failed)?;
    remove_folder(&new.directory).map_err(failed)?;
    Ok(Upgraded { from: format, values, damaged, backup })
}

/// Removes what an upgrade left that was interrupted at its end.
pub(crate) fn remove_left(layout: &Layout) {
    let _ = remove_folder(&layout.directory.join("upgrade"));
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// A database of an earlier format.
struct OldDatabase {
    connection: Connection,
    format: u32,
}

/// What was copied.
struct Copied {
    values: u64,
    /// The keys of damaged values.
    damaged: Vec<Box<[u8]>>,
}

/// A row of it.
struct OldRow {
    key: Vec<u8>,
    metadata: Metadata,
    /// The value_id of its chunks, if it has any.
    chunks: Option<u64>,
    value: Vec<u8>,
    is_intact: bool,
}

impl OldDatabase {
    fn open(path: &Path, format: u32) -> Result<Self, Error> {
        let call = format!("open {}", path.display());
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let failed = |error| Error::of(&call, &error);
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        // So that the file alone has everything: it becomes the backup.
        let busy: i64 = connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .map_err(failed)?;
        if busy != 0 || pragma(&connection, "user_version").map_err(failed)? != i64::from(format) {
            let text = format!("{call}: in use by another program — end it");
            return Err(Error::new(ErrorKind::InUse, text));
        }
        Ok(OldDatabase { connection, format })
    }

    /// Copies all values.
    fn copy_to(
        &self,
        writer: &mut Writer,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Copied, Error> {
        let failed = |error| Error::of("read the old database", &error);
        let (chunks, runs) = match self.format {
            1 => ("pieces", "epoch"),
            _ => ("chunks", "number"),
        };
        let query = |text: &str| {
            self.connection.query_row(text, [], |row| row.get::<_, Option<i64>>(0)).map_err(failed)
        };
        let total = query("SELECT count(*) FROM kv")?.unwrap_or(0) as u64;
        // At least 0: the first run of the new contents is a later one.
        let last_run = query(&format!("SELECT max({runs}) FROM runs"))?.unwrap_or(0) as u64;
        writer.begin_run(last_run)?;
        let select = format!(
            "SELECT key, version, expires, length, {chunks}, sum, value FROM kv ORDER BY id"
        );
        let mut statement = self.connection.prepare(&select).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let (mut values, mut damaged, mut batch, mut bytes) = (0, Vec::new(), Vec::new(), 0);
        while let Some(row) = rows.next().map_err(failed)? {
            let mut row = OldRow::read(row).map_err(failed)?;
            if row.is_intact && row.chunks.is_some() {
                row.is_intact = self.copy_chunks(&row, chunks, writer)?;
            }
            if !row.is_intact {
                damaged.push(row.key.clone().into_boxed_slice());
            }
            bytes += row.value.len() + row.key.len();
            batch.push(row);
            values += 1;
            if bytes >= BATCH_BYTES || batch.len() >= BATCH_ROWS {
                save(writer, &batch)?;
                progress(values, total);
                batch.clear();
                bytes = 0;
            }
        }
        save(writer, &batch)?;
        progress(values, total);
        Ok(Copied { values, damaged })
    }

    /// Copies the chunks of a long value; returns whether they are intact.
    fn copy_chunks(&self, row: &OldRow, table: &str, writer: &mut Writer) -> Result<bool, Error> {
        let failed = |error| Error::of("read the old database", &error);
        let value_id = row.chunks.unwrap_or(0);
        let select =
            format!("SELECT number, sum, bytes FROM {table} WHERE owner = ? ORDER BY number");
        let mut statement = self.connection.prepare_cached(&select).map_err(failed)?;
        let mut rows = statement.query(params![value_id as i64]).map_err(failed)?;
        let (mut next, mut left) = (0, row.metadata.length);
        while let Some(chunk) = rows.next().map_err(failed)? {
            let number: u32 = chunk.get(0).map_err(failed)?;
            let sum: u32 = chunk.get(1).map_err(failed)?;
            let bytes = chunk.get_ref(2).and_then(|bytes| Ok(bytes.as_blob()?)).map_err(failed)?;
            let fits = number == next && bytes.len() as u64 == left.min(CHUNK_BYTES as u64);
            if !fits || sum != chunk_sum(value_id, number, bytes) {
                writer.discard_chunks(value_id);
                return Ok(false);
            }
            writer.save(&[Change::Chunk { value_id, number, bytes }])?;
            (next, left) = (next + 1, left - bytes.len() as u64);
        }
        if left > 0 {
            writer.discard_chunks(value_id);
        }
        Ok(left == 0)
    }
}

fn save(writer: &mut Writer, rows: &[OldRow]) -> Result<(), Error> {
    for row in rows.iter().filter(|row| !row.is_intact) {
        let Metadata { version, expires, length } = row.metadata;
        writer.save_damaged(&row.key, version, expires, length)?;
    }
    let intact = rows.iter().filter(|row| row.is_intact);
    let changes: Vec<Change<'_>> = intact.map(OldRow::change).collect();
    writer.save(&changes)
}

impl OldRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let number = |at| row.get::<_, i64>(at).map(|number| number as u64);
        let optional = |at| row.get::<_, Option<i64>>(at).map(|n| n.map(|number| number as u64));
        let key: Vec<u8> = row.get(0)?;
        let metadata = Metadata { version: number(1)?, expires: optional(2)?, length: number(3)? };
        let chunks = optional(4)?;
        let value: Vec<u8> = row.get::<_, Option<Vec<u8>>>(6)?.unwrap_or_default();
        let is_complete = chunks.is_some() || value.len() as u64 == metadata.length;
        let is_intact =
            is_complete && row.get::<_, u32>(5)? == row_sum(&key, &metadata, chunks, &value);
        Ok(OldRow { key, metadata, chunks, value, is_intact })
    }

    fn change(&self) -> Change<'_> {
        let metadata::Metadata { version, expires, length } = self.metadata;
        let body = match self.chunks {
            Some(value_id) => Body::Chunks(value_id),
            None => Body::Inline(&self.value),
        };
        Change::Put { shard: None, key: &self.key, version, expires, length, body }
    }
}

/// The checksum of a row in these formats.
fn row_sum(key: &[u8], metadata: &Metadata, chunks: Option<u64>, value: &[u8]) -> u32 {
    let mut head = [0; 40];
    let numbers = [
        metadata.version,
        metadata.expires.map_or(0, |expires| expires | 1 << 63),
        metadata.length,
        chunks.map_or(0, |value_id| value_id | 1 << 63),
        key.len() as u64,
    ];
    for (bytes, number) in head.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    let sum = crc32c::crc32c(&head);
    crc32c::crc32c_append(crc32c::crc32c_append(sum, key), value)
}

/// The checksum of a chunk in these formats.
fn chunk_sum(value_id: u64, number: u32, bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&value_id.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &number.to_le_bytes());
    crc32c::crc32c_append(sum, bytes)
}

const EARLIER: std::ops::RangeInclusive<u32> = 1..=2;
const BATCH_BYTES: usize = 4 << 20;
const BATCH_ROWS: usize = 10_000;
