//! Backup, also while a store uses the directory, and restore.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::directory::{Disk, database};
use crate::error::{Error, ErrorKind};
use crate::reader::Reader;

/// Copies the database of a directory into a new file. `progress` receives the pages copied and the total.
/// The copy is a consistent snapshot: writes during the backup are not in it.
pub fn back_up(directory: &Path, file: &Path, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let from = database(directory);
    if !from.exists() {
        let text = format!("back up {}: the directory has no store", directory.display());
        return Err(Error::new(ErrorKind::Refused, text));
    }
    refuse_existing(file)?;
    let reader = Reader::open(&from)?;
    copy(reader.connection(), file, progress)
}

/// Restores a backup into a directory, which must not have a store.
pub fn restore(file: &Path, directory: &Path, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    // SQLite would wait for the writer of a pipe.
    if !file.is_file() {
        let text = format!("restore {}: no such file, or not a regular one", file.display());
        return Err(Error::new(ErrorKind::Refused, text));
    }
    let reader = Reader::open(file)?;
    let disk = Disk::open(directory)?;
    let to = database(disk.path());
    refuse_existing(&to)?;
    // SQLite would replay a log of an earlier database into the new file.
    for suffix in ["-wal", "-shm", "-journal"] {
        refuse_existing(&PathBuf::from(format!("{}{suffix}", to.display())))?;
    }
    copy(reader.connection(), &to, progress)
}

/// Copies to a temporary name and renames, so that a file of the final name is always complete.
fn copy(from: &Connection, file: &Path, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let call = format!("write {}", file.display());
    let failed = |error: rusqlite::Error| Error::of(&call, &error);
    let refused = |error: std::io::Error| Error::new(ErrorKind::Failed, format!("{call}: {error}"));
    let part = PathBuf::from(format!("{}.part", file.display()));
    let _ = std::fs::remove_file(&part);
    crate::schema::create_private(&part).map_err(refused)?;
    let mut copy_pages = || {
        // One read transaction: concurrent writes are not seen, and do not restart the copy.
        from.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")?;
        let mut to = Connection::open(&part)?;
        to.execute_batch("PRAGMA synchronous = OFF")?;
        let backup = Backup::new(from, &mut to)?;
        loop {
            let step = backup.step(STEP_PAGES)?;
            let done = backup.progress();
            progress((done.pagecount - done.remaining) as u64, done.pagecount as u64);
            match step {
                StepResult::Done => return Ok(()),
                StepResult::More => {}
                // The database is locked by a writer.
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    };
    let copied = copy_pages().map_err(failed).and_then(|()| {
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
        let text =
            format!("write {}: file exists — choose another name, or remove it", file.display());
        return Err(Error::new(ErrorKind::Refused, text));
    }
    Ok(())
}

/// Pages copied per step: 16 MiB.
const STEP_PAGES: i32 = 4096;
