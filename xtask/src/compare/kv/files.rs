//! Values in separate files, opened, read and closed one after the other: the baseline for a store on a disk.
//!
//! It runs as a separate, optimised process, bound to the clients' CPU.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use super::super::build::Build;
use super::super::tools;
use super::pattern::Pattern;
use crate::{Failure, shell};

#[derive(Args, Clone)]
pub(in super::super) struct FilesArgs {
    /// The folder of the files
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    files: usize,
    /// Bytes of each
    #[arg(long)]
    size: usize,
    /// Number of reads
    #[arg(long)]
    reads: usize,
}

/// Runs it as a process: reads per second.
pub(super) fn measure(
    folder: &str,
    files: usize,
    size: usize,
    reads: usize,
) -> Result<Vec<f64>, Failure> {
    let mut command = tools::bound(0, &Build::ours().program("xtask"));
    command.args(["compare", "files", "--folder", folder, "--files", &files.to_string()]);
    command.args(["--size", &size.to_string(), "--reads", &reads.to_string()]);
    let output = shell::output(&mut tools::limited(command))?;
    Ok(vec![tools::number(output.trim())?])
}

/// Runs in that process.
pub(in super::super) fn read_files(args: &FilesArgs) -> Result<(), Failure> {
    let rate = rate(args).map_err(|error| format!("{}: {error}", args.folder.display()))?;
    println!("{rate:.1}");
    Ok(())
}

fn rate(args: &FilesArgs) -> std::io::Result<f64> {
    let FilesArgs { folder, files, size, reads } = args;
    let pattern = Pattern::new(*files, *size);
    // Written each time, as our bench writes its keys each time: so both are in the page cache.
    (0..*files).try_for_each(|file| std::fs::write(path(folder, file), pattern.value(file, 0)))?;
    let mut bytes = vec![0; *size];
    let started = Instant::now();
    for file in (0..*reads).map(|read| read.wrapping_mul(STRIDE) % files) {
        File::open(path(folder, file))?.read_exact_at(&mut bytes, 0)?;
        if bytes != pattern.value(file, 0) {
            return Err(std::io::Error::other(format!("file {file} has another content")));
        }
    }
    Ok(*reads as f64 / started.elapsed().as_secs_f64())
}

fn path(folder: &Path, file: usize) -> PathBuf {
    folder.join(format!("{file:06}"))
}

/// A prime: successive reads are not of neighbouring files.
const STRIDE: usize = 7919;
