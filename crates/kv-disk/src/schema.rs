//! The database: its tables, how connections are set up, and how it is known to be ours.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Kind};

/// Says that a database is ours: "WLKV".
const APPLICATION: i64 = 0x574c_4b56;
/// The format that this program writes. A higher one is refused, a lower one would be converted.
const FORMAT: i64 = 1;

/// `trash` has the owners of pieces that no row has: left by values that were replaced or deleted, and by values that
/// are not yet committed. Pieces are removed a few at a time, since a long value has many.
const TABLES: &str = "
    CREATE TABLE kv (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL UNIQUE,
        version INTEGER NOT NULL,
        expires INTEGER,
        length INTEGER NOT NULL,
        pieces INTEGER,
        sum INTEGER NOT NULL,
        value BLOB);
    CREATE INDEX expiring ON kv (expires) WHERE expires IS NOT NULL;
    CREATE INDEX long ON kv (pieces) WHERE pieces IS NOT NULL;
    CREATE TABLE pieces (
        id INTEGER PRIMARY KEY,
        owner INTEGER NOT NULL,
        number INTEGER NOT NULL,
        sum INTEGER NOT NULL,
        bytes BLOB NOT NULL);
    CREATE UNIQUE INDEX piece ON pieces (owner, number);
    CREATE TABLE trash (owner INTEGER PRIMARY KEY);
    CREATE TABLE runs (epoch INTEGER PRIMARY KEY);
";

/// Opens the database to write, and makes it if there is none.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, Error> {
    let call = format!("open {}", path.display());
    let fresh = !path.exists();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if fresh {
        ours_alone(path).map_err(|error| Error::new(Kind::Refused, format!("{call}: {error}")))?;
    }
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| Error::of(&call, &error))?;
    let failed = |error| Error::of(&call, &error);
    if !fresh {
        // Before anything is set: what is not ours is not touched.
        known(&connection, path)?;
    }
    // Pages of the values' own size: one of 4 KiB costs one page and little more.
    let settings = "
        PRAGMA page_size = 4096;
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        PRAGMA wal_autocheckpoint = 0;
        PRAGMA journal_size_limit = 134217728;
        PRAGMA cache_size = -65536;
        PRAGMA temp_store = MEMORY;";
    connection.execute_batch(settings).map_err(failed)?;
    if empty(&connection).map_err(failed)? {
        let made = format!(
            "BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; COMMIT;"
        );
        connection.execute_batch(&made).map_err(failed)?;
    }
    known(&connection, path)?;
    Ok(connection)
}

/// Makes an empty file that nobody else may read, whatever may be done with its directory. SQLite gives its log the
/// same rights.
pub(crate) fn ours_alone(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}

/// Opens the database to read.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let call = format!("open {}", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| Error::of(&call, &error))?;
    let settings = "PRAGMA query_only = ON; PRAGMA cache_size = -4096;";
    connection.execute_batch(settings).map_err(|error| Error::of(&call, &error))?;
    known(&connection, path)?;
    Ok(connection)
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))
}

/// Nothing was ever written to it: the process that made it died first.
fn empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// Refuses what another program, or a later version of this one, has written.
fn known(connection: &Connection, path: &Path) -> Result<(), Error> {
    let call = format!("open {}", path.display());
    let failed = |error| Error::of(&call, &error);
    if empty(connection).map_err(failed)? {
        return Ok(());
    }
    if number(connection, "application_id").map_err(failed)? != APPLICATION {
        let text =
            format!("{call}: it is a database of another program — choose another directory");
        return Err(Error::new(Kind::Refused, text));
    }
    let format = number(connection, "user_version").map_err(failed)?;
    if format != FORMAT {
        let text = format!(
            "{call}: it has format {format}, and this program knows format {FORMAT} — use the version that \
             wrote it; nothing was changed"
        );
        return Err(Error::new(Kind::Refused, text));
    }
    Ok(())
}
