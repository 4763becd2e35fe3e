//! The file with the key that peers share.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fabric::session::Key;

use crate::exit::Failure;

/// Reads the key, under the name of its file. One that every user may read is no secret, and refused.
pub(crate) fn read(path: &Path) -> Result<Key, Failure> {
    let call = || format!("read the key file {}", path.display());
    let unreadable = |error: io::Error| {
        Failure::failed(format!("{}: {error} — see security.rdma.key_file", call()))
    };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & OTHERS != 0 {
        return Err(Failure::usage(format!(
            "{}: every user of this machine may use it (mode {:03o}), so it is no secret — `chmod 600 {}`, \
             or make a new key if somebody may have read it",
            call(),
            mode & 0o777,
            path.display()
        )));
    }
    let mut digits = String::new();
    file.take(MOST_BYTES).read_to_string(&mut digits).map_err(unreadable)?;
    let name = path.file_stem().map_or("key".into(), |name| name.to_string_lossy());
    Key::from_hex(&name, &digits).map_err(|error| Failure::usage(format!("{}: {error}", call())))
}

const OTHERS: u32 = 0o007;
/// 64 digits and some room for line ends.
const MOST_BYTES: u64 = 1024;
