//! A file of which only parts are read.
//!
//! A PCI function's configuration space has 4 KiB, and each word that is read is asked of the hardware: all of it,
//! of every function up to the root, takes longer than everything else that is read on a machine.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::folder::Folder;
use super::{Seen, Tree};

/// What is read of a file: two bytes at a place, if they are there.
pub(crate) type Halves<'r> = dyn FnMut(usize) -> Option<u16> + 'r;

impl Tree {
    /// The file with what `walk` reads of it, and zeros between. It is kept like any other, so that a snapshot has
    /// those parts.
    pub(crate) fn parts(&self, path: &str, walk: impl FnOnce(&mut Halves)) -> Seen<Vec<u8>> {
        if let Some(seen) = self.looks.borrow().file(path) {
            return seen;
        }
        let read = |folder: &Folder| parts(&folder.open(path)?, walk);
        let seen = self.ask(read, |kept| kept.resolve_file(path));
        self.looks.borrow_mut().keep_file(path, &seen);
        seen
    }
}

fn parts(file: &File, walk: impl FnOnce(&mut Halves)) -> Result<Vec<u8>, Errno> {
    let mut image = Vec::new();
    let mut half = |at: usize| {
        let mut bytes = [0; 2];
        file.read_exact_at(&mut bytes, at as u64).ok()?;
        let end = at.checked_add(2).filter(|end| *end <= LONGEST)?;
        if image.len() < end {
            image.resize(end, 0);
        }
        image[at..end].copy_from_slice(&bytes);
        Some(u16::from_le_bytes(bytes))
    };
    walk(&mut half);
    Ok(image)
}

/// Configuration space ends here.
const LONGEST: usize = 4096;
