//! A machine as files: this one, a folder that looks like one, or a snapshot.
//!
//! Every look is kept. So a file is read once in a tree's life, whatever it answered (reading some counters of
//! restricted functions again and again floods the kernel's log), and what was looked at is what a
//! snapshot holds. A path is as on the machine itself: `/sys/class/infiniband/mlx5_0/fw_ver`.

mod folder;
mod looks;
mod scrub;
mod snapshot;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::answers::Answers;
use crate::{Error, Seen};
use folder::Folder;
use looks::Looks;

/// Where facts are read.
#[derive(Debug)]
pub struct Tree {
    source: Source,
    looks: RefCell<Looks>,
    /// Files of which something was taken away, or that were not read, for the secrets in them.
    scrubbed: RefCell<BTreeSet<String>>,
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
        let (kept, answers) = snapshot::read(root)?;
        Ok(Tree::of(Source::Kept(kept), answers))
    }

    fn of(source: Source, answers: Answers) -> Tree {
        Tree { source, looks: RefCell::default(), scrubbed: RefCell::default(), answers }
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

    /// Everything that was looked at and answered: what a snapshot's file holds.
    pub fn snapshot(&self) -> Result<String, serde_json::Error> {
        let looks = &self.looks.borrow();
        let written = snapshot::Written { format: snapshot::FORMAT, looks, answers: &self.answers };
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
        let folder = match &self.source {
            Source::Folder(folder) => folder,
            Source::Kept(looks) => return kept(looks),
        };
        match file_system(folder) {
            Ok(value) => Seen::Value(value),
            Err(Errno::NOENT | Errno::NOTDIR) => Seen::Absent,
            Err(Errno::FBIG) => Seen::Odd(format!("more than {} bytes", folder::LONGEST)),
            Err(errno) => Seen::Refused(errno.raw_os_error()),
        }
    }
}

/// Where the host's files are for one of this tree's paths.
type Place = PathBuf;

/// Numbers in names in their order: `mlx5_2` before `mlx5_10`.
fn sort_names(names: &mut [String]) {
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
