//! Finds libfabric: the copy already loaded in this process, then the requested one, then EFA's own,
//! then the system's.
//!
//! Two copies would have two sets of providers, each with its own memory hooks and devices;
//! a process that has already loaded one (NCCL's plugin and MPIs do) must share it.

use std::fs;
use std::path::{Path, PathBuf};

use super::SONAME;
use crate::library::{Library, LoadError};

/// The files of the EFA installer, which leaves the system's older copy in place.
const EFA_FILES: [&str; 2] =
    ["/opt/amazon/efa/lib/libfabric.so.1", "/opt/amazon/efa/lib64/libfabric.so.1"];

pub(super) fn open(explicit: Option<&Path>) -> Result<Library, LoadError> {
    match already_loaded() {
        Some(library) => Ok(library),
        None => Library::open(&choose(explicit)),
    }
}

fn choose(explicit: Option<&Path>) -> PathBuf {
    if let Some(file) = explicit {
        return file.to_owned();
    }
    let efa = EFA_FILES.into_iter().map(Path::new).find(|file| file.exists());
    efa.unwrap_or(Path::new(SONAME)).to_owned()
}

/// The copy loaded in this process: by its soname or, if a packager renamed it, by its file.
fn already_loaded() -> Option<Library> {
    Library::loaded(Path::new(SONAME)).or_else(|| {
        // Without /proc only the soname is checked, which is the common case.
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        mapped(&maps).into_iter().find_map(Library::loaded)
    })
}

/// The files in the process's memory map that are named like libfabric.
fn mapped(maps: &str) -> Vec<&Path> {
    let mut files: Vec<&Path> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])))
        .filter(|file| is_libfabric(file))
        .collect();
    files.dedup();
    files
}

/// `libfabric.so.1`, `libfabric.so.1.21.0`, or as renamed by Python wheels,
/// `libfabric-5c3c21b9.so.1.28.0`.
fn is_libfabric(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let rest = name.strip_prefix("libfabric").unwrap_or_default();
    rest.starts_with(".so.") || (rest.starts_with('-') && rest.contains(".so."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_copy_is_found_by_its_file() {
        let maps = "\
7f1a0000-7f1b0000 r--p 00000000 08:01 1 /usr/lib/x86_64-linux-gnu/libc.so.6
7f1c0000-7f1d0000 r--p 00000000 08:01 2 /venv/nixl.libs/libfabric-5c3c21b9.so.1.28.0
7f1d0000-7f1e0000 r-xp 00010000 08:01 2 /venv/nixl.libs/libfabric-5c3c21b9.so.1.28.0
7f1e0000-7f1f0000 rw-p 00000000 00:00 0
";
        assert_eq!(mapped(maps), [Path::new("/venv/nixl.libs/libfabric-5c3c21b9.so.1.28.0")]);
        assert!(is_libfabric(Path::new("/opt/amazon/efa/lib/libfabric.so.1.29.1")));
        assert!(!is_libfabric(Path::new("/usr/lib/libfabricate.so.1")));
        assert!(!is_libfabric(Path::new("/usr/lib/libfabric.a")));
    }

    #[test]
    fn the_requested_file_is_chosen() {
        assert_eq!(choose(Some(Path::new("/x/libfabric.so.1"))), Path::new("/x/libfabric.so.1"));
    }
}
