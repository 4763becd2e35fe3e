//! A file written to a folder and read back, with its speed. What comes back must be what went.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// How fast a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Speed {
    /// Until the server has it.
    pub(super) write_bytes_per_second: f64,
    /// From the server, not from our own memory.
    pub(super) read_bytes_per_second: f64,
}

/// Writes, reads and compares `size` bytes; stops where `stop` says so. The file is gone afterwards.
pub(super) fn measure(folder: &Path, size: usize, stop: &AtomicBool) -> Result<Speed, String> {
    let (name, mut file) = make(folder)?;
    let shown = name.0.display();
    let mut piece = vec![0x5a; PIECE];
    let begun = Instant::now();
    for (number, length) in pieces(size) {
        check(stop)?;
        mark(&mut piece, number);
        file.write_all(&piece[..length]).map_err(|error| format!("write {shown}: {error}"))?;
    }
    file.sync_all().map_err(|error| format!("write {shown}: {error}"))?;
    let write_bytes_per_second = rate(size, begun.elapsed());

    drop(file);
    let mut file = File::open(&name.0).map_err(|error| format!("read {shown}: {error}"))?;
    // What this machine still has in its memory would be read from there.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    let mut read = vec![0; PIECE];
    let begun = Instant::now();
    for (number, length) in pieces(size) {
        check(stop)?;
        mark(&mut piece, number);
        file.read_exact(&mut read[..length]).map_err(|error| format!("read {shown}: {error}"))?;
        if read[..length] != piece[..length] {
            return Err(format!("{shown}: what was read is not what was written, in MiB {number}"));
        }
    }
    Ok(Speed { write_bytes_per_second, read_bytes_per_second: rate(size, begun.elapsed()) })
}

/// A new file of our own.
fn make(folder: &Path) -> Result<(Temporary, File), String> {
    let path = folder.join(format!(".wirelane-verify-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "{}: this user may not write there, and root of a client is nobody at the server: name a folder of the mount \
             that everybody may write to, or say --no-check",
            folder.display()
        ),
        _ => format!("make {}: {error}", path.display()),
    })?;
    Ok((Temporary(path), file))
}

/// Removed whatever happens.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn check(stop: &AtomicBool) -> Result<(), String> {
    if stop.load(Ordering::Relaxed) { Err("stopped by a signal".to_owned()) } else { Ok(()) }
}

/// Numbers and lengths of the pieces of a file.
fn pieces(size: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..size.div_ceil(PIECE)).map(move |number| (number, PIECE.min(size - number * PIECE)))
}

/// Each page of a piece tells where it belongs, so that one in another's place is seen.
fn mark(piece: &mut [u8], number: usize) {
    for (page, bytes) in piece.chunks_mut(PAGE).enumerate() {
        let place = (number * (PIECE / PAGE) + page) as u64;
        if let Some(first) = bytes.first_chunk_mut() {
            *first = place.to_le_bytes();
        }
    }
}

fn rate(size: usize, took: Duration) -> f64 {
    size as f64 / took.as_secs_f64().max(1e-9)
}

const PIECE: usize = 1 << 20;
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_and_left_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let go = AtomicBool::new(false);
        for size in [1, PIECE, 2 * PIECE + 5] {
            let speed = measure(folder.path(), size, &go).expect("measured");
            assert!(speed.write_bytes_per_second > 0.0 && speed.read_bytes_per_second > 0.0);
        }
        assert!(measure(folder.path(), PIECE, &AtomicBool::new(true)).is_err(), "stopped");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        assert!(measure(Path::new("/nowhere"), 1, &go).expect_err("none").contains("/nowhere"));
    }

    #[test]
    fn pieces_make_up_the_whole() {
        assert_eq!(pieces(2 * PIECE + 5).map(|(_, length)| length).sum::<usize>(), 2 * PIECE + 5);
        assert_eq!(pieces(1).collect::<Vec<_>>(), [(0, 1)]);
    }
}
