//! A snapshot: one JSON document with the files that were read and the answers that were had.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::looks::Looks;
use crate::Error;
use crate::answers::Answers;

/// The document, borrowed to be written.
#[derive(Serialize)]
pub(super) struct Written<'s> {
    pub(super) format: &'static str,
    #[serde(flatten)]
    pub(super) looks: &'s Looks,
    pub(super) answers: &'s Answers,
}

/// The document, as it was read.
#[derive(Deserialize)]
struct Document {
    format: String,
    #[serde(default)]
    answers: Answers,
    #[serde(flatten)]
    looks: Looks,
}

/// Reads a snapshot's file.
pub(super) fn read(path: &Path) -> Result<(Looks, Answers), Error> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| Error::new(path, error))?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| Error::new(path, error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Error::new(
            path,
            format!("longer than {} MiB, so no snapshot of ours", LONGEST >> 20),
        ));
    }
    let document: Document = serde_json::from_slice(&bytes).map_err(|error| {
        Error::new(path, format!("neither a folder nor a snapshot of `wirelane snapshot`: {error}"))
    })?;
    if document.format != FORMAT {
        return Err(Error::new(
            path,
            format!(
                "a snapshot of format {:?}, and this program reads {FORMAT:?}; use the newer program",
                document.format
            ),
        ));
    }
    Ok((document.looks, document.answers))
}

/// What stands first in a snapshot.
pub(super) const FORMAT: &str = "wirelane snapshot 1";
/// A machine with hundreds of functions has a few MiB.
const LONGEST: u64 = 64 << 20;
