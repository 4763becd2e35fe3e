//! Files with secrets: read whole, within a limit, and only where others cannot read them too.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::{FileError, FileErrorKind};

/// What is asked of a file with secrets.
#[derive(Debug, Clone, Copy)]
pub(super) struct SecretFile {
    /// As in `read the key file …`.
    pub(super) name: &'static str,
    /// Modes that it must not have, and whose they are.
    pub(super) open_to: (u32, &'static str),
    /// No such file is longer.
    pub(super) max_bytes: u64,
}

impl SecretFile {
    /// Reads the file. One that others may read is no secret, and refused.
    pub(super) fn read(&self, path: &Path) -> Result<String, FileError> {
        let unreadable = |error| self.error(path, FileErrorKind::Unreadable(error));
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode();
        let (modes, whose) = self.open_to;
        if mode & modes != 0 {
            return Err(self.error(path, FileErrorKind::Exposed(whose, mode & 0o777)));
        }
        let mut text = String::new();
        file.take(self.max_bytes + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > self.max_bytes {
            let why = format!("it has more than {} bytes — is it another file?", self.max_bytes);
            return Err(self.invalid(path, why));
        }
        Ok(text)
    }

    /// What is in the file cannot be meant.
    pub(super) fn invalid(&self, path: &Path, why: String) -> FileError {
        self.error(path, FileErrorKind::Invalid(why))
    }

    fn error(&self, path: &Path, kind: FileErrorKind) -> FileError {
        FileError::new(self.name, path, kind)
    }
}

/// Everybody who is neither the owner nor of its group.
pub(super) const OTHERS: (u32, &str) = (0o007, "every user of this machine");
/// Everybody but the owner.
pub(super) const GROUP_OR_OTHERS: (u32, &str) = (0o077, "its group or every user of this machine");

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    const FILE: SecretFile = SecretFile { name: "key file", open_to: OTHERS, max_bytes: 8 };

    #[test]
    fn what_others_may_read_is_too_long_or_is_missing_is_refused() {
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
