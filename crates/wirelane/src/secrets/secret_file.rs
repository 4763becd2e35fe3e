//! Files with secrets: read whole, within a limit, and only where others cannot read them too.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::output::Failure;

/// What is asked of a file with secrets.
pub(crate) struct Kind {
    /// As in `read the key file …`.
    pub(crate) name: &'static str,
    /// Where the user gave it.
    pub(crate) given: &'static str,
    /// Modes that it must not have, and whose they are.
    pub(crate) open_to: (u32, &'static str),
    pub(crate) max_bytes: u64,
}

/// Reads the file. One that others may read is no secret, and refused.
pub(crate) fn read(path: &Path, kind: &Kind) -> Result<String, Failure> {
    let call = || format!("read the {} {}", kind.name, path.display());
    let unreadable =
        |error: io::Error| Failure::failed(format!("{}: {error} — see {}", call(), kind.given));
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    let (modes, whose) = kind.open_to;
    if mode & modes != 0 {
        return Err(Failure::usage(format!(
            "{}: {whose} may use it (mode {:03o}), so it is no secret — `chmod 600 {}`, or make a new one if \
             somebody may have read it",
            call(),
            mode & 0o777,
            path.display()
        )));
    }
    let mut text = String::new();
    file.take(kind.max_bytes + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > kind.max_bytes {
        let most = kind.max_bytes;
        let text = format!("{}: it has more than {most} bytes — is it another file?", call());
        return Err(Failure::usage(text));
    }
    Ok(text)
}

/// Everybody who is neither the owner nor of its group.
pub(crate) const OTHERS: (u32, &str) = (0o007, "every user of this machine");
/// Everybody but the owner.
pub(crate) const GROUP_OR_OTHERS: (u32, &str) = (0o077, "its group or every user of this machine");
