//! The files of a machine: of this one, of a folder with the same layout, or of a snapshot.
//!
//! Every result is cached. So a file is read once, whether or not that succeeded (reading some counters of
//! restricted functions repeatedly floods the kernel log), and a snapshot consists of what was
//! read. Paths are those of the machine itself: `/sys/class/infiniband/mlx5_0/fw_ver`.

mod cache;
mod environment;
mod files;
mod folder;
mod fresh;
mod parts;
mod redact;
mod snapshot;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::name::is_name;
use crate::queries::QueryResults;
use crate::{Error, Reading};
use cache::FileCache;
pub(crate) use files::{CachedFolder, Files};
use folder::Folder;
pub(crate) use fresh::FreshFolder;
pub(crate) use parts::ReadU16;
pub use snapshot::{About, SnapshotError};

/// The files of a machine, and the results of queries.
#[derive(Debug)]
pub struct Tree {
    source: Source,
    cache: RefCell<FileCache>,
    /// Remaining reads if this is not the running machine: with links, few files can have endless paths.
    reads_left: Cell<u32>,
    /// Files that were read in part or not at all, because they may contain secrets.
    redacted: RefCell<BTreeSet<String>>,
    environment: BTreeMap<String, String>,
    about: Option<About>,
    query_results: QueryResults,
}

#[derive(Debug)]
enum Source {
    /// Files of a file system.
    Folder(Folder),
    /// The files of a snapshot.
    Snapshot(FileCache),
}

/// The metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMetadata {
    /// Type and permissions, as in stat(2).
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Of a device: its major number.
    pub major: u32,
    /// Of a device: its minor number.
    pub minor: u32,
}

impl Tree {
    /// This machine. `host_sys` is where the host's `/sys` is mounted in a pod.
    pub fn live(host_sys: Option<&Path>) -> Tree {
        Tree::new(Source::Folder(Folder::live(host_sys)), QueryResults::live())
    }

    /// A folder with the layout of a machine's root, or a snapshot. The running kernel is not queried:
    /// what the snapshot does not contain is unknown.
    pub fn at(root: &Path) -> Result<Tree, Error> {
        let metadata = std::fs::metadata(root).map_err(|error| Error::new(root, error))?;
        if metadata.is_dir() {
            return Ok(Tree::new(Source::Folder(Folder::under(root)), QueryResults::default()));
        }
        // Opening a pipe would block until it has a writer.
        if !metadata.is_file() {
            return Err(Error::new(root, "neither a folder nor a regular file"));
        }
        Ok(Tree::from_document(snapshot::read(root)?))
    }

    /// Parses a snapshot.
    pub fn parse(bytes: &[u8]) -> Result<Tree, SnapshotError> {
        snapshot::parse(bytes).map(Tree::from_document)
    }

    fn from_document(document: snapshot::Document) -> Tree {
        Tree {
            redacted: RefCell::new(document.redacted),
            environment: document.environment,
            about: Some(document.about),
            ..Tree::new(Source::Snapshot(document.files), document.query_results)
        }
    }

    fn new(source: Source, query_results: QueryResults) -> Tree {
        Tree {
            source,
            query_results,
            cache: RefCell::default(),
            reads_left: Cell::new(MAX_READS),
            redacted: RefCell::default(),
            environment: BTreeMap::new(),
            about: None,
        }
    }

    /// Adds the environment variables of this process that are relevant for the fabric. Others,
    /// and those that look like secrets, are left out.
    pub fn with_environment(self, variables: impl IntoIterator<Item = (String, String)>) -> Tree {
        let environment = environment::keep(variables, &mut self.redacted.borrow_mut());
        Tree { environment, ..self }
    }

    /// The relevant environment variables; in a snapshot, those of the process that took it.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// The description of a snapshot, if this is one.
    pub fn about(&self) -> Option<&About> {
        self.about.as_ref()
    }

    /// Paths of files, and names of variables (`$NAME`), that were left out in part or whole because of secrets.
    pub fn redacted(&self) -> BTreeSet<String> {
        self.redacted.borrow().clone()
    }

    /// The number of files that were read.
    pub fn files_read(&self) -> usize {
        self.cache.borrow().files_read()
    }

    /// Clears the cache, so that files are read again. Files that were refused with
    /// EINVAL stay refused: the driver writes to the kernel log on each attempt.
    pub fn clear_cache(&mut self) {
        self.cache.get_mut().clear();
        self.reads_left.set(MAX_READS);
        self.query_results.clear();
    }

    /// Also removes refused files below a path from the cache: of a device that is new, or returned.
    pub fn retry_refused(&mut self, path: &str) {
        self.cache.get_mut().remove_below(path);
    }

    /// Facts that are in no file.
    pub fn query_results(&self) -> &QueryResults {
        &self.query_results
    }

    /// Whether this is the running machine.
    pub fn is_live(&self) -> bool {
        matches!(&self.source, Source::Folder(folder) if folder.is_live())
    }

    /// The text of a file, trimmed.
    pub fn text(&self, path: &str) -> Reading<String> {
        self.bytes(path).and_then(|bytes| match String::from_utf8(bytes) {
            Ok(text) => Reading::Value(text.trim().to_owned()),
            Err(error) => Reading::invalid(&String::from_utf8_lossy(error.as_bytes())),
        })
    }

    /// The bytes of a file of at most 1 MiB.
    pub fn bytes(&self, path: &str) -> Reading<Vec<u8>> {
        if let Some(reading) = self.cache.borrow().file(path) {
            return reading;
        }
        let reading = self.read(path);
        self.cache.borrow_mut().store_file(path, &reading);
        reading
    }

    /// The printable text after each occurrence of `mark` in a file of any length. Only the start of the file
    /// is searched, and nothing is cached: in a snapshot there is none.
    pub fn after(&self, path: &str, mark: &str) -> Vec<String> {
        let Source::Folder(folder) = &self.source else { return Vec::new() };
        let head = folder.head(path, MAX_SEARCH_BYTES).unwrap_or_default();
        let at_mark = |rest: &[u8]| rest.starts_with(mark.as_bytes());
        let starts = (0..head.len()).filter(|start| at_mark(&head[*start..])).take(MAX_MARKS);
        let text = |start: usize| {
            let rest = head[start + mark.len()..].iter().take(MAX_WORD_BYTES);
            rest.take_while(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect()
        };
        starts.map(text).collect()
    }

    /// The number in a file, decimal.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Reading<T> {
        self.text(path).parse(|text| text.parse().ok())
    }

    /// The number in a file, hexadecimal, with or without `0x`.
    pub fn hex(&self, path: &str) -> Reading<u64> {
        self.text(path)
            .parse(|text| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok())
    }

    /// The names in a folder, sorted by their numbers: `mlx5_2` before `mlx5_10`.
    pub fn names(&self, path: &str) -> Reading<Vec<String>> {
        if let Some(reading) = self.cache.borrow().names(path) {
            return reading;
        }
        let reading = self.query(|folder| folder.names(path), |files| files.resolve_names(path));
        self.cache.borrow_mut().store_names(path, &reading);
        reading
    }

    /// The names in a folder; none if it cannot be listed.
    pub fn list(&self, path: &str) -> Vec<String> {
        self.names(path).into_value().unwrap_or_default()
    }

    /// The path with all links resolved: `/sys/devices/pci0000:3a/…`.
    pub fn real(&self, path: &str) -> Reading<String> {
        if let Some(reading) = self.cache.borrow().real(path) {
            return reading;
        }
        let reading = self.query(|folder| folder.real(path), |files| files.resolve_real(path));
        self.cache.borrow_mut().store_real(path, &reading);
        reading
    }

    /// The last name of a link's target: the driver's name for `…/device/driver`.
    pub fn link_name(&self, path: &str) -> Reading<String> {
        let last = |real: &str| real.rsplit_once('/').map(|(_, name)| name.to_owned());
        self.real(path).parse(|real| last(real).filter(|name| is_name(name)))
    }

    /// Type, permissions and owner of a file.
    pub fn metadata(&self, path: &str) -> Reading<FileMetadata> {
        if let Some(reading) = self.cache.borrow().metadata(path) {
            return reading;
        }
        let reading =
            self.query(|folder| folder.metadata(path), |files| files.resolve_metadata(path));
        self.cache.borrow_mut().store_metadata(path, &reading);
        reading
    }

    /// Whether the path exists.
    pub fn exists(&self, path: &str) -> bool {
        matches!(self.real(path), Reading::Value(_))
    }

    /// A snapshot: everything that was read, and all query results, as JSON.
    pub fn snapshot(&self, about: &About) -> Result<String, serde_json::Error> {
        let written = snapshot::Written {
            format: snapshot::FORMAT,
            about,
            redacted: &self.redacted.borrow(),
            environment: &self.environment,
            files: &self.cache.borrow(),
            query_results: &self.query_results,
        };
        serde_json::to_string_pretty(&written)
    }

    fn read(&self, path: &str) -> Reading<Vec<u8>> {
        if redact::is_withheld(path) {
            self.redacted.borrow_mut().insert(path.to_owned());
            return Reading::Refused(Errno::PERM.raw_os_error());
        }
        let read = |folder: &Folder| match redact::max_bytes(path) {
            Some(bytes) => folder.head(path, bytes),
            None => folder.read(path),
        };
        let bytes = self.query(read, |files| files.resolve_file(path));
        bytes.map(|bytes| {
            let redacted = redact::redact(path, bytes);
            if redacted.withheld {
                self.redacted.borrow_mut().insert(path.to_owned());
            }
            redacted.bytes
        })
    }

    fn query<T>(
        &self,
        file_system: impl FnOnce(&Folder) -> Result<T, Errno>,
        snapshot: impl FnOnce(&FileCache) -> Reading<T>,
    ) -> Reading<T> {
        if !self.is_live() {
            let Some(left) = self.reads_left.get().checked_sub(1) else { return Reading::Absent };
            self.reads_left.set(left);
        }
        let folder = match &self.source {
            Source::Folder(folder) => folder,
            Source::Snapshot(files) => return snapshot(files),
        };
        to_reading(file_system(folder))
    }
}

/// Converts the result of a file system call.
fn to_reading<T>(answer: Result<T, Errno>) -> Reading<T> {
    match answer {
        Ok(value) => Reading::Value(value),
        Err(Errno::NOENT | Errno::NOTDIR) => Reading::Absent,
        Err(Errno::FBIG) => Reading::Invalid("file too long".to_owned()),
        Err(errno) => Reading::Refused(errno.raw_os_error()),
    }
}

/// More than a host with a thousand virtual functions needs.
const MAX_READS: u32 = 1_000_000;
/// The part of a long file that is searched: the constants of a library come before its GPU code.
const MAX_SEARCH_BYTES: u64 = 32 << 20;
const MAX_MARKS: usize = 16;
const MAX_WORD_BYTES: usize = 64;

/// Sorts names by their numbers: `mlx5_2` before `mlx5_10`.
pub(crate) fn sort_names(names: &mut [String]) {
    names.sort_by(|one, other| natural(one).cmp(&natural(other)).then_with(|| one.cmp(other)));
}

/// Splits a name into text and numbers, so that numbers compare as numbers.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let words = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let (word, digits) = rest.split_at(words);
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        parts.push((word.to_owned(), digits[..end].parse().unwrap_or(0)));
        rest = &digits[end..];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that are read, then changed.
    #[test]
    fn files_are_read_once_until_the_cache_is_cleared_except_refused_ones() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = |name: &str| dir.path().join(name);
        std::fs::write(file("counter"), "1\n").expect("a file");
        // A file that is not regular is refused like a counter that the driver does not have.
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, file("restricted"), fifo, mode, 0).expect("a fifo");
        let mut tree = Tree::at(dir.path()).expect("a tree");
        assert_eq!(tree.number("/counter"), Reading::Value(1));
        assert_eq!(tree.number::<u64>("/restricted"), Reading::Refused(22));
        assert_eq!(tree.number::<u64>("/new"), Reading::Absent);

        std::fs::remove_file(file("restricted")).expect("gone");
        for name in ["counter", "restricted", "new"] {
            std::fs::write(file(name), "2\n").expect("a file");
        }
        assert_eq!(tree.number("/counter"), Reading::Value(1), "cached");
        tree.clear_cache();
        assert_eq!(tree.number("/counter"), Reading::Value(2));
        assert_eq!(tree.number("/new"), Reading::Value(2));
        assert_eq!(tree.number::<u64>("/restricted"), Reading::Refused(22), "never read again");
    }

    #[test]
    fn snapshots_contain_no_secrets() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("proc/self")).expect("a folder");
        let line = "root=/dev/sda1 iommu=pt password=hunter2\n";
        std::fs::write(dir.path().join("proc/cmdline"), line).expect("a file");
        std::fs::write(dir.path().join("proc/self/environ"), "KEY=hunter2\0").expect("a file");
        let variables = [("NCCL_SECRET", "hunter2"), ("NCCL_DEBUG", "INFO")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let tree = Tree::at(dir.path()).expect("a tree").with_environment(variables);
        assert_eq!(tree.text("/proc/cmdline"), Reading::Value("iommu=pt".to_owned()));
        assert_eq!(tree.text("/proc/self/environ"), Reading::Refused(1));
        let text = tree.snapshot(&About::default()).expect("JSON");
        assert!(!text.contains("hunter2") && !text.contains("sda1"), "{text}");
        let again = Tree::parse(text.as_bytes()).expect("a snapshot");
        assert_eq!(again.environment()["NCCL_DEBUG"], "INFO");
        let redacted: Vec<String> = again.redacted().into_iter().collect();
        assert_eq!(redacted, ["$NCCL_SECRET", "/proc/cmdline", "/proc/self/environ"]);
    }
}
