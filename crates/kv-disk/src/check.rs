//! Looking at everything: whether the database is sound, and every value what was written.

use std::path::Path;

use crate::directory::database;
use crate::error::{Error, Kind};
use crate::reader::{Reader, Sink, pieces};
use crate::row::{COLUMNS, Facts, Stored};

/// What was found.
#[derive(Debug, Default)]
pub struct Checked {
    /// How many values are sound, and how many bytes they have.
    pub sound: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Keys whose values are damaged.
    pub damaged: Vec<Box<[u8]>>,
    /// What is wrong with the database itself, in SQLite's words.
    pub problems: Vec<String>,
}

impl Checked {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.problems.is_empty()
    }
}

/// Looks at everything in a directory, also while a store uses it. `progress` is told how many values were looked at,
/// and how many there are.
pub fn check(directory: &Path, mut progress: impl FnMut(u64, u64)) -> Result<Checked, Error> {
    let path = database(directory);
    if !path.exists() {
        let text = format!("look at {}: there is no store in it", directory.display());
        return Err(Error::new(Kind::Refused, text));
    }
    let mut checked = Checked::default();
    let reader = Reader::open(&path)?;
    let failed = |error: rusqlite::Error| Error::of(&format!("look at {}", path.display()), &error);
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
                    checked.problems.push(format!("it cannot be looked at as a whole: {error}"));
                    break;
                }
            };
            if problem != "ok" {
                checked.problems.push(problem);
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
                // What comes after cannot be reached by this way any more.
                checked.problems.push(format!("values cannot all be read: {error}"));
                break;
            }
            Ok(Some(row)) => {
                let key = row.get_ref(0).and_then(|key| Ok(key.as_blob()?)).unwrap_or_default();
                match sound(view, row, key) {
                    Ok(length) => {
                        checked.sound += 1;
                        checked.bytes += length;
                    }
                    Err(_) => checked.damaged.push(key.into()),
                }
                progress(checked.sound + checked.damaged.len() as u64, total);
            }
        }
    }
    Ok(checked)
}

fn sound(view: &rusqlite::Connection, row: &rusqlite::Row<'_>, key: &[u8]) -> Result<u64, Error> {
    struct Nowhere;
    impl Sink for Nowhere {
        fn begin(&mut self, _: &Facts) -> bool {
            true
        }
        fn bytes(&mut self, _: u64, _: &[u8]) {}
    }
    let stored = Stored::of(row, 1, key)?;
    stored.check(key)?;
    if let Some(owner) = stored.pieces {
        pieces(view, key, &stored.facts, owner, &mut Nowhere)?;
    }
    Ok(stored.facts.length)
}
