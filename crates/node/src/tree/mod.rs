//! A machine as files: this one, a folder that looks like one, or a snapshot.
//!
//! Every look is kept. So a file is read once in a tree's life, whatever it answered (reading some counters of
//! restricted functions again and again floods the kernel's log), and what was looked at is what a
//! snapshot holds. A path is as on the machine itself: `/sys/class/infiniband/mlx5_0/fw_ver`.

mod environment;
mod files;
mod folder;
mod fresh;
mod looks;
mod parts;
mod scrub;
mod snapshot;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::answers::Answers;
use crate::{Error, Seen};
pub(crate) use files::{Files, Kept};
use folder::Folder;
pub(crate) use fresh::Fresh;
use looks::Looks;
pub(crate) use parts::Halves;
pub use snapshot::{About, SnapshotError};

/// Where facts are read.
#[derive(Debug)]
pub struct Tree {
    source: Source,
    looks: RefCell<Looks>,
    /// How many more looks there may be in what is not the running machine: links can make few files look like many.
    left: Cell<u32>,
    /// Files of which something was taken away, or that were not read, for the secrets in them.
    scrubbed: RefCell<BTreeSet<String>>,
    environment: BTreeMap<String, String>,
    about: Option<About>,
    answers: Answers,
}

#[derive(Debug)]
enum Source {
    /// Files of a file system.
    Folder(Folder),
    /// What a snapshot has, and nothing else.
    Kept(Looks),
}

/// What a file is, without its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNode {
    /// Kind and rights, as stat(2) has them.
    pub mode: u32,
    /// Who owns it.
    pub uid: u32,
    /// Which group owns it.
    pub gid: u32,
    /// Of a device: its major number.
    pub major: u32,
    /// Of a device: its minor number.
    pub minor: u32,
}

impl Tree {
    /// This machine. `host_sys` is where the host's `/sys` is mounted, in a pod that has one of its own.
    pub fn live(host_sys: Option<&Path>) -> Tree {
        Tree::of(Source::Folder(Folder::live(host_sys)), Answers::live())
    }

    /// A folder that looks like the root of a machine, or a snapshot. Nothing is asked of the running kernel:
    /// what the snapshot does not tell is unknown.
    pub fn at(root: &Path) -> Result<Tree, Error> {
        let metadata = std::fs::metadata(root).map_err(|error| Error::new(root, error))?;
        if metadata.is_dir() {
            return Ok(Tree::of(Source::Folder(Folder::under(root)), Answers::default()));
        }
        // Opening a pipe would wait for its writer.
        if !metadata.is_file() {
            return Err(Error::new(root, "neither a folder nor a regular file"));
        }
        Ok(Tree::of_document(snapshot::read(root)?))
    }

    /// A snapshot, of which the bytes are had already.
    pub fn parse(bytes: &[u8]) -> Result<Tree, SnapshotError> {
        snapshot::parse(bytes).map(Tree::of_document)
    }

    fn of_document(document: snapshot::Document) -> Tree {
        Tree {
            scrubbed: RefCell::new(document.scrubbed),
            environment: document.environment,
            about: Some(document.about),
            ..Tree::of(Source::Kept(document.looks), document.answers)
        }
    }

    fn of(source: Source, answers: Answers) -> Tree {
        Tree {
            source,
            answers,
            looks: RefCell::default(),
            left: Cell::new(MAX_LOOKS),
            scrubbed: RefCell::default(),
            environment: BTreeMap::new(),
            about: None,
        }
    }

    /// The same machine, with the variables of this process's environment that tell of the fabric. Others,
    /// and those that look like secrets, are left out.
    pub fn with_environment(self, variables: impl IntoIterator<Item = (String, String)>) -> Tree {
        let environment = environment::keep(variables, &mut self.scrubbed.borrow_mut());
        Tree { environment, ..self }
    }

    /// The variables that tell of the fabric; of a snapshot, those of the process that took it.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// What a snapshot says of itself, if this is one.
    pub fn about(&self) -> Option<&About> {
        self.about.as_ref()
    }

    /// Paths of files, and names of variables (`$NAME`), of which something was left out for the secrets in it.
    pub fn scrubbed(&self) -> BTreeSet<String> {
        self.scrubbed.borrow().clone()
    }

    /// How many files were read.
    pub fn files_read(&self) -> usize {
        self.looks.borrow().files_read()
    }

    /// Forgets what was seen, so that a process that watches a machine sees it anew. A file that was refused with
    /// EINVAL stays so: a driver that does not have it writes to the kernel's log each time it is asked.
    pub fn renew(&mut self) {
        self.looks.get_mut().forget();
        self.left.set(MAX_LOOKS);
        self.answers.renew();
    }

    /// Forgets also what was refused below a path: of a device that is new, or came back.
    pub fn forgive(&mut self, path: &str) {
        self.looks.get_mut().forgive(path);
    }

    /// What no file tells.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Whether this is the running machine.
    pub fn is_live(&self) -> bool {
        matches!(&self.source, Source::Folder(folder) if folder.is_live())
    }

    /// The text of a file without the white space around it.
    pub fn text(&self, path: &str) -> Seen<String> {
        self.bytes(path).and_then(|bytes| match String::from_utf8(bytes) {
            Ok(text) => Seen::Value(text.trim().to_owned()),
            Err(error) => Seen::odd(&String::from_utf8_lossy(error.as_bytes())),
        })
    }

    /// A file's bytes, if they are no more than any file of /sys and /proc that matters has.
    pub fn bytes(&self, path: &str) -> Seen<Vec<u8>> {
        if let Some(seen) = self.looks.borrow().file(path) {
            return seen;
        }
        let seen = self.read(path);
        self.looks.borrow_mut().keep_file(path, &seen);
        seen
    }

    /// What follows each mark in a file of any length, up to the first byte that cannot be printed. Only the file's
    /// beginning is searched, and nothing is kept: a snapshot does not tell.
    pub fn after(&self, path: &str, mark: &str) -> Vec<String> {
        let Source::Folder(folder) = &self.source else { return Vec::new() };
        let head = folder.head(path, SEARCHED).unwrap_or_default();
        let at_mark = |rest: &[u8]| rest.starts_with(mark.as_bytes());
        let starts = (0..head.len()).filter(|start| at_mark(&head[*start..])).take(MAX_MARKS);
        let text = |start: usize| {
            let rest = head[start + mark.len()..].iter().take(LONGEST_WORD);
            rest.take_while(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect()
        };
        starts.map(text).collect()
    }

    /// The number in a file, decimal.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Seen<T> {
        self.text(path).parse(|text| text.parse().ok())
    }

    /// The number in a file, hexadecimal, with or without `0x`.
    pub fn hex(&self, path: &str) -> Seen<u64> {
        self.text(path)
            .parse(|text| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok())
    }

    /// The names in a folder, numbers in them in their order: `mlx5_2` before `mlx5_10`.
    pub fn names(&self, path: &str) -> Seen<Vec<String>> {
        if let Some(seen) = self.looks.borrow().names(path) {
            return seen;
        }
        let seen = self.ask(|folder| folder.names(path), |kept| kept.resolve_names(path));
        self.looks.borrow_mut().keep_names(path, &seen);
        seen
    }

    /// The names in a folder; none where it cannot be listed.
    pub fn list(&self, path: &str) -> Vec<String> {
        self.names(path).into_value().unwrap_or_default()
    }

    /// The path that all links on the way of this one lead to: `/sys/devices/pci0000:3a/…`.
    pub fn real(&self, path: &str) -> Seen<String> {
        if let Some(seen) = self.looks.borrow().real(path) {
            return seen;
        }
        let seen = self.ask(|folder| folder.real(path), |kept| kept.resolve_real(path));
        self.looks.borrow_mut().keep_real(path, &seen);
        seen
    }

    /// The last name of the path that a link leads to: the driver's name of `…/device/driver`.
    pub fn link_name(&self, path: &str) -> Seen<String> {
        self.real(path).parse(|real| real.rsplit_once('/').map(|(_, name)| name.to_owned()))
    }

    /// Kind, rights and owner of a file.
    pub fn node(&self, path: &str) -> Seen<FileNode> {
        if let Some(seen) = self.looks.borrow().node(path) {
            return seen;
        }
        let seen = self.ask(|folder| folder.node(path), |kept| kept.resolve_node(path));
        self.looks.borrow_mut().keep_node(path, &seen);
        seen
    }

    /// Whether something is there.
    pub fn exists(&self, path: &str) -> bool {
        matches!(self.real(path), Seen::Value(_))
    }

    /// Everything that was looked at, and all answers: what a snapshot's file holds.
    pub fn snapshot(&self, about: &About) -> Result<String, serde_json::Error> {
        let written = snapshot::Written {
            format: snapshot::FORMAT,
            about,
            scrubbed: &self.scrubbed.borrow(),
            environment: &self.environment,
            looks: &self.looks.borrow(),
            answers: &self.answers,
        };
        serde_json::to_string_pretty(&written)
    }

    fn read(&self, path: &str) -> Seen<Vec<u8>> {
        if scrub::is_withheld(path) {
            self.scrubbed.borrow_mut().insert(path.to_owned());
            return Seen::Refused(Errno::PERM.raw_os_error());
        }
        let enough = scrub::enough(path);
        let read = |folder: &Folder| match enough {
            Some(bytes) => folder.head(path, bytes),
            None => folder.read(path),
        };
        let bytes = self.ask(read, |kept| kept.resolve_file(path));
        bytes.map(|bytes| {
            let scrubbed = scrub::scrub(path, bytes);
            if scrubbed.withheld {
                self.scrubbed.borrow_mut().insert(path.to_owned());
            }
            scrubbed.bytes
        })
    }

    fn ask<T>(
        &self,
        file_system: impl FnOnce(&Folder) -> Result<T, Errno>,
        kept: impl FnOnce(&Looks) -> Seen<T>,
    ) -> Seen<T> {
        if !self.is_live() {
            let Some(left) = self.left.get().checked_sub(1) else { return Seen::Absent };
            self.left.set(left);
        }
        let folder = match &self.source {
            Source::Folder(folder) => folder,
            Source::Kept(looks) => return kept(looks),
        };
        seen(file_system(folder))
    }
}

/// What a file system's answer is.
fn seen<T>(answer: Result<T, Errno>) -> Seen<T> {
    match answer {
        Ok(value) => Seen::Value(value),
        Err(Errno::NOENT | Errno::NOTDIR) => Seen::Absent,
        Err(Errno::FBIG) => Seen::Odd("more bytes than such a file has".to_owned()),
        Err(errno) => Seen::Refused(errno.raw_os_error()),
    }
}

/// More than a host with a thousand virtual functions needs.
const MAX_LOOKS: u32 = 1_000_000;
/// How much of a long file is searched: the constants of a library are in front of what it has for GPUs.
const SEARCHED: u64 = 32 << 20;
const MAX_MARKS: usize = 16;
const LONGEST_WORD: usize = 64;

/// Where the host's files are for one of this tree's paths.
type Place = PathBuf;

/// Numbers in names in their order: `mlx5_2` before `mlx5_10`.
pub(crate) fn sort_names(names: &mut [String]) {
    names.sort_by(|one, other| natural(one).cmp(&natural(other)).then_with(|| one.cmp(other)));
}

/// A name cut where digits begin and end, so that numbers compare as numbers.
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

    /// Files that are read, then changed on the disk.
    #[test]
    fn a_file_is_read_once_and_after_renewal_again_unless_it_was_refused_with_einval() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = |name: &str| dir.path().join(name);
        std::fs::write(file("counter"), "1\n").expect("a file");
        // Whatever is no file answers as a counter does that the driver does not have.
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, file("restricted"), fifo, mode, 0).expect("a fifo");
        let mut tree = Tree::at(dir.path()).expect("a tree");
        assert_eq!(tree.number("/counter"), Seen::Value(1));
        assert_eq!(tree.number::<u64>("/restricted"), Seen::Refused(22));
        assert_eq!(tree.number::<u64>("/new"), Seen::Absent);

        std::fs::remove_file(file("restricted")).expect("gone");
        for name in ["counter", "restricted", "new"] {
            std::fs::write(file(name), "2\n").expect("a file");
        }
        assert_eq!(tree.number("/counter"), Seen::Value(1), "as it was seen");
        tree.renew();
        assert_eq!(tree.number("/counter"), Seen::Value(2));
        assert_eq!(tree.number("/new"), Seen::Value(2));
        assert_eq!(tree.number::<u64>("/restricted"), Seen::Refused(22), "never read again");
    }

    #[test]
    fn secrets_are_in_no_snapshot() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("proc/self")).expect("a folder");
        let line = "root=/dev/sda1 iommu=pt password=hunter2\n";
        std::fs::write(dir.path().join("proc/cmdline"), line).expect("a file");
        std::fs::write(dir.path().join("proc/self/environ"), "KEY=hunter2\0").expect("a file");
        let variables = [("NCCL_SECRET", "hunter2"), ("NCCL_DEBUG", "INFO")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let tree = Tree::at(dir.path()).expect("a tree").with_environment(variables);
        assert_eq!(tree.text("/proc/cmdline"), Seen::Value("iommu=pt".to_owned()));
        assert_eq!(tree.text("/proc/self/environ"), Seen::Refused(1));
        let text = tree.snapshot(&About::default()).expect("JSON");
        assert!(!text.contains("hunter2") && !text.contains("sda1"), "{text}");
        let again = Tree::parse(text.as_bytes()).expect("a snapshot");
        assert_eq!(again.environment()["NCCL_DEBUG"], "INFO");
        let scrubbed: Vec<String> = again.scrubbed().into_iter().collect();
        assert_eq!(scrubbed, ["$NCCL_SECRET", "/proc/cmdline", "/proc/self/environ"]);
    }
}
