//! The database: its tables, the settings of connections, and the check of its format.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, ErrorKind};

/// SQLite's `application_id` of our databases: "WLKV".
const APPLICATION: i64 = 0x574c_4b56;
/// The format that this program reads and writes. Others are refused.
const FORMAT: i64 = 2;

/// A value of 4 KiB takes one page and little more.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// `unreferenced_chunks` has the owners of chunks that belong to no row: of values that were replaced or deleted, and of
/// values that are not yet committed. Chunks are removed a few at a time, since a long value has many.
const TABLES: &str = "
    CREATE TABLE kv (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL UNIQUE,
        version INTEGER NOT NULL,
        expires INTEGER,
        length INTEGER NOT NULL,
        chunks INTEGER,
        sum INTEGER NOT NULL,
        value BLOB);
    CREATE INDEX expiring ON kv (expires) WHERE expires IS NOT NULL;
    CREATE INDEX long ON kv (chunks) WHERE chunks IS NOT NULL;
    CREATE TABLE chunks (
        id INTEGER PRIMARY KEY,
        owner INTEGER NOT NULL,
        number INTEGER NOT NULL,
        sum INTEGER NOT NULL,
        bytes BLOB NOT NULL);
    CREATE UNIQUE INDEX chunk ON chunks (owner, number);
    CREATE TABLE unreferenced_chunks (owner INTEGER PRIMARY KEY);
    CREATE TABLE runs (number INTEGER PRIMARY KEY);
";

/// Opens the database for writing, and creates it if it does not exist.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, Error> {
    let call = format!("open {}", path.display());
    let fresh = !path.exists();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if fresh {
        create_private(path)
            .map_err(|error| Error::new(ErrorKind::Refused, format!("{call}: {error}")))?;
    }
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| Error::of(&call, &error))?;
    let failed = |error| Error::of(&call, &error);
    if !fresh {
        // Before any change: a database of another program is not modified.
        check_format(&connection, path)?;
    }
    let settings = format!(
        "
        PRAGMA page_size = {PAGE_BYTES};
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        PRAGMA wal_autocheckpoint = 0;
        PRAGMA journal_size_limit = 134217728;
        PRAGMA cache_size = -65536;
        PRAGMA temp_store = MEMORY;"
    );
    connection.execute_batch(&settings).map_err(failed)?;
    if is_empty(&connection).map_err(failed)? {
        let create = format!(
            "BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; COMMIT;"
        );
        connection.execute_batch(&create).map_err(failed)?;
    }
    check_format(&connection, path)?;
    Ok(connection)
}

/// Creates an empty file that only its owner may read, whatever the mode of the directory. SQLite gives its log the
/// same mode.
pub(crate) fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}

/// Opens the database for reading.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let call = format!("open {}", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| Error::of(&call, &error))?;
    let settings = "PRAGMA query_only = ON; PRAGMA cache_size = -4096;";
    connection.execute_batch(settings).map_err(|error| Error::of(&call, &error))?;
    check_format(&connection, path)?;
    Ok(connection)
}

fn pragma(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))
}

/// Whether the database has no tables: the process that created it died first.
fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// Refuses a database of another program, or of another format.
fn check_format(connection: &Connection, path: &Path) -> Result<(), Error> {
    let call = format!("open {}", path.display());
    let failed = |error| Error::of(&call, &error);
    if is_empty(connection).map_err(failed)? {
        return Ok(());
    }
    if pragma(connection, "application_id").map_err(failed)? != APPLICATION {
        let text = format!("{call}: the database is of another program — choose another directory");
        return Err(Error::new(ErrorKind::Refused, text));
    }
    let format = pragma(connection, "user_version").map_err(failed)?;
    if format != FORMAT {
        let text = format!(
            "{call}: unsupported format {format}, this program supports format {FORMAT} — use the version that \
             wrote it; nothing was changed"
        );
        return Err(Error::new(ErrorKind::Refused, text));
    }
    Ok(())
}
