//! Files with secrets: read whole, up to a size limit, and only if other users cannot access them.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::{FileError, FileErrorKind};
use super::input_file::InputFile;

/// What a file with secrets must satisfy.
#[derive(Debug, Clone, Copy)]
pub(super) struct SecretFile {
    /// As in `read the key file …`.
    pub(super) name: &'static str,
    /// Mode bits that must not be set, and whose they are.
    pub(super) forbidden: (u32, &'static str),
    /// The size limit.
    pub(super) max_bytes: u64,
}

impl SecretFile {
    /// Reads the file, unless other users can access it.
    pub(super) fn read(&self, path: &Path) -> Result<String, FileError> {
        let unreadable = |error| self.error(path, FileErrorKind::Unreadable(error));
        let file = InputFile::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode();
        let (modes, whose) = self.forbidden;
        if mode & modes != 0 {
            return Err(self.error(path, FileErrorKind::Exposed(whose, mode & 0o777)));
        }
        let mut text = String::new();
        file.take(self.max_bytes + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > self.max_bytes {
            let reason = format!("longer than {} bytes — check the path", self.max_bytes);
            return Err(self.invalid(path, reason));
        }
        Ok(text)
    }

    /// The file's content is invalid.
    pub(super) fn invalid(&self, path: &Path, reason: String) -> FileError {
        self.error(path, FileErrorKind::Invalid(reason))
    }

    fn error(&self, path: &Path, kind: FileErrorKind) -> FileError {
        FileError::new(self.name, path, kind)
    }
}

/// Users that are neither the owner nor in the file's group.
pub(super) const OTHERS: (u32, &str) = (0o007, "every user of this machine");
/// All users but the owner.
pub(super) const GROUP_OR_OTHERS: (u32, &str) = (0o077, "the group or every user of this machine");

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    const FILE: SecretFile = SecretFile { name: "key file", forbidden: OTHERS, max_bytes: 8 };

    #[test]
    fn exposed_too_long_and_missing_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let missing = FILE.read(&path).unwrap_err();
        assert!(matches!(missing.kind(), FileErrorKind::Unreadable(_)), "{missing}");
        std::fs::write(&path, "12345678").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let exposed = FILE.read(&path).unwrap_err();
        assert!(matches!(exposed.kind(), FileErrorKind::Exposed(_, 0o644)), "{exposed}");
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(FILE.read(&path).unwrap(), "12345678");
        std::fs::write(&path, "123456789").unwrap();
        let long = FILE.read(&path).unwrap_err();
        assert!(matches!(long.kind(), FileErrorKind::Invalid(_)), "{long}");
    }
}
