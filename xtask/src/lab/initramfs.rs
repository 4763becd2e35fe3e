//! The machine's first file system: busybox, a few modules, and the scripts of `lab/`.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::kernel::Kernel;
use crate::{Failure, packages, shell};

/// Its content.
pub(super) struct Initramfs<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) rails: u32,
    pub(super) command: String,
    /// Whether the command uses the console instead of the output ports.
    pub(super) shell: bool,
}

impl Initramfs<'_> {
    /// The archive, in the format the kernel reads ("newc" cpio), uncompressed: an emulated
    /// CPU would take longer to uncompress it than the host to read it.
    pub(super) fn archive(&self) -> Result<Vec<u8>, Failure> {
        let mut archive = Cpio::default();
        for folder in ["bin", "dev", "lab", "lab/bin", "layers", "modules", "new", "proc", "sys"] {
            archive.folder(folder);
        }
        archive.file("bin/busybox", 0o755, &busybox()?);
        archive.file("init", 0o755, &script("init")?);
        archive.file("lab/guest", 0o755, &script("guest")?);
        archive.file("lab/bin/wire", 0o755, &script("wire")?);
        archive.file("lab/settings", 0o644, self.settings().as_bytes());
        archive.file("lab/command", 0o644, self.command.as_bytes());
        let mut order = String::new();
        for (name, bytes) in self.kernel.boot_modules()? {
            archive.file(&format!("modules/{name}"), 0o644, &bytes);
            order.push_str(&format!("{name}\n"));
        }
        archive.file("modules/order", 0o644, order.as_bytes());
        Ok(archive.end())
    }

    fn settings(&self) -> String {
        format!(
            "LAB_MODULES={}\nLAB_RAILS={}\nLAB_SHELL={}\n",
            shell::quoted(&self.kernel.modules().to_string_lossy()),
            self.rails,
            if self.shell { "yes" } else { "" }
        )
    }
}

fn busybox() -> Result<Vec<u8>, Failure> {
    let found = Command::new("sh")
        .args(["-c", "command -v busybox"])
        .env("PATH", packages::path_with_sbin())
        .output();
    let found = found.map_err(|error| format!("look for busybox: {error}"))?;
    read(Path::new(String::from_utf8_lossy(&found.stdout).trim()))
}

fn script(name: &str) -> Result<Vec<u8>, Failure> {
    read(&shell::repository().join("lab").join(name))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(|error| format!("read {}: {error}", file.display()))
}

/// A cpio archive under construction: Documentation/driver-api/early-userspace/buffer-format.rst.
#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    entries: u32,
}

impl Cpio {
    fn folder(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    fn file(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        self.entry(name, 0o100_000 | mode, bytes);
    }

    fn end(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        self.entries += 1;
        let (size, name_size) = (bytes.len(), name.len() + 1);
        // Magic, inode, mode, uid, gid, links, mtime, size, four device numbers, name size, check.
        self.bytes.extend(
            format!(
                "070701{:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}{size:08x}{:08x}{:08x}{:08x}{:08x}{name_size:08x}{:08x}",
                self.entries, 0, 0, 1, 0, 0, 0, 0, 0, 0
            )
            .as_bytes(),
        );
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_110_bytes_and_everything_is_aligned() {
        let mut archive = Cpio::default();
        archive.file("a", 0o644, b"xyz");
        assert_eq!(&archive.bytes[..6], b"070701");
        assert_eq!(&archive.bytes[110..112], b"a\0");
        assert_eq!(&archive.bytes[112..115], b"xyz");
        assert_eq!(archive.bytes.len() % 4, 0);
        assert!(archive.end().windows(10).any(|bytes| bytes == b"TRAILER!!!"));
    }
}
