//! Partial reads of a file.
//!
//! A PCI function's configuration space has 4 KiB, and each word is read from the hardware: reading all of it,
//! for every function up to the root, takes longer than all other reads together.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::folder::Folder;
use super::{Reading, Tree};

/// Reads two bytes of a file at an offset, if they exist.
pub(crate) type ReadU16<'r> = dyn FnMut(usize) -> Option<u16> + 'r;

impl Tree {
    /// The file with the parts that `walk` reads, and zeros between. It is cached like any other, so that a snapshot has
    /// these parts.
    pub(crate) fn parts(&self, path: &str, walk: impl FnOnce(&mut ReadU16)) -> Reading<Vec<u8>> {
        if let Some(reading) = self.cache.borrow().file(path) {
            return reading;
        }
        let read = |folder: &Folder| parts(&folder.open(path)?, walk);
        let reading = self.query(read, |files| files.resolve_file(path));
        self.cache.borrow_mut().store_file(path, &reading);
        reading
    }
}

fn parts(file: &File, walk: impl FnOnce(&mut ReadU16)) -> Result<Vec<u8>, Errno> {
    let mut image = Vec::new();
    let mut read_u16 = |at: usize| {
        let mut bytes = [0; 2];
        file.read_exact_at(&mut bytes, at as u64).ok()?;
        let end = at.checked_add(2).filter(|end| *end <= CONFIG_SPACE_BYTES)?;
        if image.len() < end {
            image.resize(end, 0);
        }
        image[at..end].copy_from_slice(&bytes);
        Some(u16::from_le_bytes(bytes))
    };
    walk(&mut read_u16);
    Ok(image)
}

const CONFIG_SPACE_BYTES: usize = 4096;
