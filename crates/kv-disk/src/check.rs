//! Checks the database and the checksum of every value.

use std::path::Path;

use crate::directory::database;
use crate::error::{Error, ErrorKind};
use crate::reader::{Reader, Sink, read_chunks};
use crate::row::{COLUMNS, Metadata, StoredRow};

/// The result of a check.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// The number of sound values.
    pub sound: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Keys whose values are damaged.
    pub damaged: Vec<Box<[u8]>>,
    /// Errors in the database itself, as SQLite reports them.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether there is no damage.
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.problems.is_empty()
    }
}

/// Checks the database of a directory, also while a store uses it. `progress` receives the number of values checked
/// and the total.
pub fn check(directory: &Path, mut progress: impl FnMut(u64, u64)) -> Result<CheckReport, Error> {
    let path = database(directory);
    if !path.exists() {
        let text = format!("check {}: the directory has no store", directory.display());
        return Err(Error::new(ErrorKind::Refused, text));
    }
    let mut report = CheckReport::default();
    let reader = Reader::open(&path)?;
    let failed = |error: rusqlite::Error| Error::of(&format!("check {}", path.display()), &error);
    let view = reader.connection();
    view.execute_batch("BEGIN").map_err(failed)?;
    {
        let mut statement = view.prepare("PRAGMA integrity_check(100)").map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        loop {
            let problem = match rows.next() {
                Ok(None) => break,
                Ok(Some(row)) => row.get(0).unwrap_or_default(),
                Err(error) => {
                    report.problems.push(format!("integrity check incomplete: {error}"));
                    break;
                }
            };
            if problem != "ok" {
                report.problems.push(problem);
            }
        }
    }
    let total = view.query_row("SELECT count(*) FROM kv", [], |row| row.get::<_, i64>(0));
    let total = total.map_or(0, |total| total as u64);
    let mut statement = view.prepare(&format!("SELECT key, {COLUMNS} FROM kv")).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    loop {
        match rows.next() {
            Ok(None) => break,
            Err(error) => {
                // The rows after it cannot be reached by this scan.
                report.problems.push(format!("cannot read all values: {error}"));
                break;
            }
            Ok(Some(row)) => {
                let key = row.get_ref(0).and_then(|key| Ok(key.as_blob()?)).unwrap_or_default();
                match check_value(view, row, key) {
                    Ok(length) => {
                        report.sound += 1;
                        report.bytes += length;
                    }
                    Err(_) => report.damaged.push(key.into()),
                }
                progress(report.sound + report.damaged.len() as u64, total);
            }
        }
    }
    Ok(report)
}

/// Checks one value; returns its length.
fn check_value(
    view: &rusqlite::Connection,
    row: &rusqlite::Row<'_>,
    key: &[u8],
) -> Result<u64, Error> {
    struct Discard;
    impl Sink for Discard {
        fn begin(&mut self, _: &Metadata) -> bool {
            true
        }
        fn bytes(&mut self, _: u64, _: &[u8]) {}
    }
    let stored = StoredRow::read(row, 1, key)?;
    stored.check(key)?;
    if let Some(owner) = stored.chunks {
        read_chunks(view, key, &stored.metadata, owner, &mut Discard)?;
    }
    Ok(stored.metadata.length)
}
