//! Writes a file to a directory, reads it back, compares it, and measures the speed.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// The speed of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Speed {
    /// Until the server has stored it.
    pub(super) write_bytes_per_second: f64,
    /// From the server, not from the page cache.
    pub(super) read_bytes_per_second: f64,
}

/// Writes, reads and compares `size` bytes, until `stop` is set. Removes the file afterwards.
pub(super) fn measure(folder: &Path, size: usize, stop: &AtomicBool) -> Result<Speed, String> {
    let (temporary, mut file) = create(folder)?;
    let name = temporary.0.display();
    let mut piece = vec![0x5a; PIECE_BYTES];
    let started = Instant::now();
    for (number, length) in pieces(size) {
        check(stop)?;
        mark(&mut piece, number);
        file.write_all(&piece[..length]).map_err(|error| format!("write {name}: {error}"))?;
    }
    file.sync_all().map_err(|error| format!("write {name}: {error}"))?;
    let write_bytes_per_second = rate(size, started.elapsed());

    drop(file);
    let mut file = File::open(&temporary.0).map_err(|error| format!("read {name}: {error}"))?;
    // Otherwise it would be read from the page cache.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    let mut read = vec![0; PIECE_BYTES];
    let started = Instant::now();
    for (number, length) in pieces(size) {
        check(stop)?;
        mark(&mut piece, number);
        file.read_exact(&mut read[..length]).map_err(|error| format!("read {name}: {error}"))?;
        if read[..length] != piece[..length] {
            return Err(format!("{name}: read other bytes than were written, in MiB {number}"));
        }
    }
    Ok(Speed { write_bytes_per_second, read_bytes_per_second: rate(size, started.elapsed()) })
}

/// Creates the file.
fn create(folder: &Path) -> Result<(Temporary, File), String> {
    let path = folder.join(format!(".wirelane-verify-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "{}: permission denied (the server may map root to nobody): pass a directory of the mount that is writable \
             for all users, or --no-check",
            folder.display()
        ),
        _ => format!("create {}: {error}", path.display()),
    })?;
    Ok((Temporary(path), file))
}

/// Removes the file on drop.
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
    (0..size.div_ceil(PIECE_BYTES))
        .map(move |number| (number, PIECE_BYTES.min(size - number * PIECE_BYTES)))
}

/// Writes the position of each page into it, so that a misplaced page is detected.
fn mark(piece: &mut [u8], number: usize) {
    for (page, bytes) in piece.chunks_mut(PAGE_BYTES).enumerate() {
        let position = (number * (PIECE_BYTES / PAGE_BYTES) + page) as u64;
        if let Some(first) = bytes.first_chunk_mut() {
            *first = position.to_le_bytes();
        }
    }
}

fn rate(size: usize, took: Duration) -> f64 {
    size as f64 / took.as_secs_f64().max(1e-9)
}

const PIECE_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_measured_and_left_unchanged() {
        let folder = tempfile::tempdir().expect("a folder");
        let go = AtomicBool::new(false);
        for size in [1, PIECE_BYTES, 2 * PIECE_BYTES + 5] {
            let speed = measure(folder.path(), size, &go).expect("measured");
            assert!(speed.write_bytes_per_second > 0.0 && speed.read_bytes_per_second > 0.0);
        }
        assert!(measure(folder.path(), PIECE_BYTES, &AtomicBool::new(true)).is_err(), "stopped");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        assert!(measure(Path::new("/nowhere"), 1, &go).expect_err("none").contains("/nowhere"));
    }

    #[test]
    fn pieces_make_up_the_whole() {
        assert_eq!(
            pieces(2 * PIECE_BYTES + 5).map(|(_, length)| length).sum::<usize>(),
            2 * PIECE_BYTES + 5
        );
        assert_eq!(pieces(1).collect::<Vec<_>>(), [(0, 1)]);
    }
}
