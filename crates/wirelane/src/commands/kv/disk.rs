//! `wirelane kv fsck|backup|restore`: work on the `--data-dir` of a store, on the machine where it is. They open
//! the directory themselves, and do not connect to a store.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::key::Key;
use crate::output;
use crate::output::{Exit, Failure};

#[derive(Debug, Args)]
pub(super) struct FsckArgs {
    /// The --data-dir of the store; it may be in use
    data_dir: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// The --data-dir of the store; it may be in use
    data_dir: PathBuf,

    /// Output file; it must not exist
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// The backup
    file: PathBuf,

    /// The new --data-dir; it must not contain a store
    data_dir: PathBuf,
}

/// The result of `fsck`, as JSON.
#[derive(Debug, Serialize)]
struct Report {
    sound: bool,
    values: u64,
    bytes: u64,
    damaged: Vec<Key>,
    problems: Vec<String>,
}

pub(super) fn fsck(args: &FsckArgs) -> Result<Exit, Failure> {
    let mut bar = None;
    let checked = kv_disk::check(&args.data_dir, |done, total| {
        let bar = bar.get_or_insert_with(|| output::steps(total, "values verified"));
        bar.iter().for_each(|bar| bar.set_position(done));
    });
    bar.flatten().iter().for_each(|bar| bar.finish_and_clear());
    let checked = checked?;
    let report = Report {
        sound: checked.is_sound(),
        values: checked.sound,
        bytes: checked.bytes,
        damaged: checked.damaged.into_iter().map(|key| Key::from_store(Vec::from(key))).collect(),
        problems: checked.problems,
    };
    let sound = report.sound;
    match args.json {
        true => output::json(&report)?,
        false => output::answer(&report.text())?,
    }
    Ok(if sound { Exit::Done } else { Exit::No })
}

impl Report {
    fn text(&self) -> String {
        let Report { values, bytes, damaged, problems, .. } = self;
        let mut text = format!("{values} values intact, {bytes} bytes\n");
        for key in damaged {
            text += &format!("corrupt: {} — put it again, or delete it\n", key.name());
        }
        for problem in problems {
            text += &format!("database: {problem} — restore a backup\n");
        }
        text
    }
}

pub(super) fn backup(args: &BackupArgs) -> Result<Exit, Failure> {
    let damaged = copy_with_bar("values copied", |progress| {
        kv_disk::back_up(&args.data_dir, &args.file, progress)
    })?;
    for key in damaged {
        let key = Key::from_store(Vec::from(key));
        output::note(&format!("corrupt, not in the backup: {}", key.name()));
    }
    let length = args.file.metadata().map_or(0, |file| file.len());
    output::note(&format!("{}: {length} bytes", args.file.display()));
    Ok(Exit::Done)
}

pub(super) fn restore(args: &RestoreArgs) -> Result<Exit, Failure> {
    copy_with_bar("bytes read", |progress| kv_disk::restore(&args.file, &args.data_dir, progress))?;
    output::note(&format!("{0} is ready: wirelane serve --data-dir {0}", args.data_dir.display()));
    Ok(Exit::Done)
}

/// Copies with a progress bar.
fn copy_with_bar<T>(
    what: &'static str,
    copy: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T, kv_disk::Error>,
) -> Result<T, Failure> {
    let mut bar = None;
    let copied = copy(&mut |done, total| {
        let bar = bar.get_or_insert_with(|| output::steps(total, what));
        bar.iter().for_each(|bar| bar.set_position(done));
    });
    bar.flatten().iter().for_each(|bar| bar.finish_and_clear());
    Ok(copied?)
}
