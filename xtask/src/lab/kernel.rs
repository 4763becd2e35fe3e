//! The lab's kernel: Debian's package, downloaded once and unpacked into the user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, packages, shell};

/// An unpacked kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    folder: PathBuf,
    version: String,
}

impl Kernel {
    /// The cached kernel, downloaded if there is none or with `refresh`.
    pub(super) fn ensure(refresh: bool) -> Result<Self, Failure> {
        let cache = cache_folder()?;
        fs::create_dir_all(&cache).map_err(|error| failed("create", &cache, &error))?;
        // Two labs that start at the same time must not unpack over each other.
        let lock = cache.join("lock");
        let lock = fs::File::create(&lock).map_err(|error| failed("create", &lock, &error))?;
        lock.lock().map_err(|error| format!("lock the lab's cache: {error}"))?;

        let folder = cache.join("kernel");
        if refresh || !folder.exists() {
            fetch(&folder)?;
        }
        let modules = folder.join("lib/modules");
        let version = only_entry(&modules)?;
        Ok(Kernel { folder, version })
    }

    pub(super) fn image(&self) -> PathBuf {
        self.folder.join(format!("boot/vmlinuz-{}", self.version))
    }

    /// All its modules, for modprobe inside the machine.
    pub(super) fn modules(&self) -> PathBuf {
        self.folder.join("lib/modules").join(&self.version)
    }

    /// The modules needed to reach the host's files, in loading order, each with its bytes.
    pub(super) fn boot_modules(&self) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let folder = self.folder.join(BOOT_FOLDER);
        let order = read(&folder.join("order"))?;
        String::from_utf8_lossy(&order)
            .lines()
            .map(|name| Ok((name.to_owned(), read(&folder.join(name))?)))
            .collect()
    }
}

/// The cache of the kernel and of facts about this host.
pub(super) fn cache_folder() -> Result<PathBuf, Failure> {
    Ok(shell::cache()?.join("lab"))
}

fn fetch(folder: &Path) -> Result<(), Failure> {
    let partial = folder.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).map_err(|error| failed("create", &partial, &error))?;
    download(&partial).or_else(|_| {
        // The package lists are missing, or older than the archive.
        packages::update()?;
        download(&partial)
    })?;
    let archive = partial.join(only_entry(&partial)?);
    shell::output(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(&partial))?;
    fs::remove_file(&archive).map_err(|error| failed("remove", &archive, &error))?;

    // Since Debian 13 the modules are in usr/lib, while kmod looks in lib.
    let modules = partial.join("lib");
    if !modules.exists() {
        let linked = std::os::unix::fs::symlink("usr/lib", &modules);
        linked.map_err(|error| failed("create", &modules, &error))?;
    }
    let version = only_entry(&partial.join("lib/modules"))?;
    shell::output(kmod("depmod").arg("-b").arg(&partial).arg(&version))?;
    extract_boot_modules(&partial, &version)?;

    let _ = fs::remove_dir_all(folder);
    fs::rename(&partial, folder).map_err(|error| failed("move into place", folder, &error))
}

fn download(folder: &Path) -> Result<(), Failure> {
    let package = image_package()?;
    eprintln!("lab: fetching {package}, once (about 100 MB)");
    shell::output(Command::new("apt-get").args(["download", &package]).current_dir(folder))?;
    Ok(())
}

/// The package with the newest kernel for the lab in this Debian.
fn image_package() -> Result<String, Failure> {
    for meta in META_PACKAGES {
        let depends = Command::new("apt-cache").args(["depends", "--important", meta]).output();
        let depends = depends.map_err(|error| format!("start apt-cache: {error}"))?;
        let depends = String::from_utf8_lossy(&depends.stdout);
        let image = depends
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .find(|name| name.starts_with("linux-image-"));
        if let Some(image) = image {
            return Ok(image.to_owned());
        }
    }
    Err(format!(
        "no kernel for the lab: apt does not know {}. The lab needs Debian 12 or 13 on amd64; \
         elsewhere run it in a container or machine with one of them",
        META_PACKAGES.join(" or ")
    ))
}

/// Copies the boot modules out, uncompressed: the machine's busybox reads no .xz.
fn extract_boot_modules(root: &Path, version: &str) -> Result<(), Failure> {
    let folder = root.join(BOOT_FOLDER);
    fs::create_dir_all(&folder).map_err(|error| failed("create", &folder, &error))?;
    let mut order: Vec<String> = Vec::new();
    for module in BOOT_MODULES {
        let listed = shell::output(kmod("modprobe").arg("-d").arg(root).args([
            "-S",
            version,
            "--show-depends",
            module,
        ]))?;
        for path in listed.lines().filter_map(|line| line.strip_prefix("insmod ")) {
            let path = Path::new(path.trim());
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.trim_end_matches(".xz").to_owned();
            if order.contains(&name) {
                continue;
            }
            let bytes = uncompressed(path)?;
            let to = folder.join(&name);
            fs::write(&to, bytes).map_err(|error| failed("write", &to, &error))?;
            order.push(name);
        }
    }
    let list = folder.join("order");
    fs::write(&list, order.join("\n") + "\n").map_err(|error| failed("write", &list, &error))
}

fn uncompressed(module: &Path) -> Result<Vec<u8>, Failure> {
    if module.extension().is_none_or(|extension| extension != "xz") {
        return read(module);
    }
    let output = Command::new("xz").arg("-dc").arg(module).output();
    let output = output.map_err(|error| format!("start xz: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("xz cannot read {}", module.display()))
    }
}

fn kmod(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", packages::path_with_sbin());
    command
}

fn only_entry(folder: &Path) -> Result<String, Failure> {
    let mut entries = fs::read_dir(folder).map_err(|error| failed("read", folder, &error))?;
    match (entries.next(), entries.next()) {
        (Some(Ok(entry)), None) => Ok(entry.file_name().to_string_lossy().into_owned()),
        _ => Err(format!(
            "{} should have one entry; `cargo xtask lab --refresh` creates it again",
            folder.display()
        )),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(|error| failed("read", file, &error))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    format!("{what} {}: {error}", path.display())
}

/// Newest first: 6.12 is in Debian 12's security archive and is Debian 13's own.
const META_PACKAGES: &[&str] = &["linux-image-6.12-amd64", "linux-image-amd64"];
const BOOT_FOLDER: &str = "boot-modules";
const BOOT_MODULES: &[&str] =
    &["virtio_pci", "virtio_console", "virtio_blk", "9pnet_virtio", "9p", "overlay"];
