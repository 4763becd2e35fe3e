//! Files that are replaced atomically: a file of the final name has the old content or the whole new one, and an error leaves
//! the old one.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes a file. The umask applies to the mode.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // The target of a symbolic link is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        // A device or a pipe is not replaced: for root that would remove /dev/null.
        return File::options().write(true).open(&path)?.write_all(bytes);
    }
    let file = temporary(&path, bytes, mode)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// Writes a file that must not exist.
pub(crate) fn create(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let file = temporary(path, bytes, mode)?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    Ok(())
}

/// A complete file beside the final one.
fn temporary(path: &Path, bytes: &[u8], mode: u32) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(".wirelane-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// The directory of a file.
pub(crate) fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// The mode of files that everybody may read.
pub(crate) const READABLE: u32 = 0o666;
/// The mode of files that only their owner may read.
pub(crate) const PRIVATE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_a_link_is_replaced_and_a_device_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write(&link, b"new", PRIVATE).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        // A link to it: a defect must not replace the device itself.
        let null = directory.path().join("null");
        std::os::unix::fs::symlink("/dev/full", &null).unwrap();
        assert_eq!(write(&null, b"x", READABLE).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3, "no temporary file");
    }
}
