//! A copy of everything, made while a store uses it, and the way back.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::directory::{Disk, database};
use crate::error::{Error, Kind};
use crate::reader::Reader;

/// Copies what is in a directory into a file that is not there yet. `progress` is told how much of how much is done.
/// The copy is of one moment, whatever is written meanwhile.
pub fn back_up(directory: &Path, file: &Path, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let from = database(directory);
    if !from.exists() {
        let text = format!("back up {}: there is no store in it", directory.display());
        return Err(Error::new(Kind::Refused, text));
    }
    refuse_existing(file)?;
    let reader = Reader::open(&from)?;
    copy(reader.connection(), file, progress)
}

/// Makes a directory what it was when the file was made. It must have no store in it.
pub fn restore(file: &Path, directory: &Path, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    if !file.exists() {
        let text = format!("restore {}: there is no such file", file.display());
        return Err(Error::new(Kind::Refused, text));
    }
    let reader = Reader::open(file)?;
    let disk = Disk::take(directory)?;
    let to = database(disk.path());
    refuse_existing(&to)?;
    // SQLite would take a log that was left there for the new file's own.
    for left in ["-wal", "-shm", "-journal"] {
        refuse_existing(&PathBuf::from(format!("{}{left}", to.display())))?;
    }
    copy(reader.connection(), &to, progress)
}

/// Under another name first: what has the name is whole.
fn copy(from: &Connection, file: &Path, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let call = format!("write {}", file.display());
    let failed = |error: rusqlite::Error| Error::of(&call, &error);
    let refused = |error: std::io::Error| Error::new(Kind::Failed, format!("{call}: {error}"));
    let part = PathBuf::from(format!("{}.part", file.display()));
    let _ = std::fs::remove_file(&part);
    crate::schema::ours_alone(&part).map_err(refused)?;
    // One moment: what is written meanwhile is not seen, and does not make the copy begin anew.
    from.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;").map_err(failed)?;
    let mut to = Connection::open(&part).map_err(failed)?;
    to.execute_batch("PRAGMA synchronous = OFF").map_err(failed)?;
    let copied = Backup::new(from, &mut to).and_then(|backup| {
        loop {
            let step = backup.step(PAGES)?;
            let done = backup.progress();
            progress((done.pagecount - done.remaining) as u64, done.pagecount as u64);
            match step {
                StepResult::Done => return Ok(()),
                StepResult::More => {}
                // Somebody else writes this moment.
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    });
    let copied = copied.map_err(failed).and_then(|()| {
        drop(to);
        File::open(&part).and_then(|part| part.sync_all()).map_err(refused)?;
        std::fs::rename(&part, file).map_err(refused)?;
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = File::open(parent.unwrap_or(Path::new(".")));
        parent.and_then(|parent| parent.sync_all()).map_err(refused)
    });
    if copied.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    copied
}

fn refuse_existing(file: &Path) -> Result<(), Error> {
    if file.exists() {
        let text = format!(
            "write {}: it exists already — choose another name, or remove it",
            file.display()
        );
        return Err(Error::new(Kind::Refused, text));
    }
    Ok(())
}

/// How many pages are copied between two looks: 16 MiB.
const PAGES: i32 = 4096;
