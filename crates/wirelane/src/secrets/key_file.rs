//! The file with the key that peers share.

use std::path::Path;

use fabric::session::Key;

use crate::output::Failure;
use crate::secrets::secret_file::{self, Kind, OTHERS};

/// Reads the key, under the name of its file.
pub(crate) fn read(path: &Path) -> Result<Key, Failure> {
    let digits = secret_file::read(path, &KIND)?;
    let name = path.file_stem().map_or("key".into(), |name| name.to_string_lossy());
    Key::from_hex(&name, &digits)
        .map_err(|error| Failure::usage(format!("read the key file {}: {error}", path.display())))
}

const KIND: Kind = Kind {
    name: "key file",
    given: "security.rdma.key_file",
    open_to: OTHERS,
    // 64 digits and some room for line ends.
    max_bytes: 1024,
};
