//! The file with the key that peers share.

use std::path::Path;

use fabric::session::Key;

use super::error::FileError;
use super::secret_file::{OTHERS, SecretFile};

/// Reads the key, and names it after its file.
pub fn read(path: &Path) -> Result<Key, FileError> {
    let digits = FILE.read(path)?;
    let name = path.file_stem().map_or("key".into(), |name| name.to_string_lossy());
    Key::from_hex(&name, &digits).map_err(|error| FILE.invalid(path, error.to_string()))
}

const FILE: SecretFile = SecretFile {
    name: "key file",
    forbidden: OTHERS,
    // 64 digits, and line ends.
    max_bytes: 1024,
};
