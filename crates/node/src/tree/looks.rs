//! What was read, by path: the memory of a tree, and the files of a snapshot.
//!
//! A snapshot that the program took has each answer under the path that was asked for. One that a person wrote
//! needs no more than files and links: a path goes through links, and what a folder holds is told by
//! the paths below it.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::FileNode;
use crate::Seen;

/// Answers by path, one map for each way of asking. What is in none is not there.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Looks {
    files: BTreeMap<String, Kept<Contents>>,
    links: BTreeMap<String, Kept<String>>,
    folders: BTreeMap<String, Kept<Vec<String>>>,
    nodes: BTreeMap<String, Kept<FileNode>>,
}

/// An answer: a value as it is, or `{"refused": 22}`, `{"odd": "…"}`, `{"absent": true}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Kept<T> {
    Refused { refused: i32 },
    Odd { odd: String },
    Absent { absent: bool },
    Value(T),
}

/// What a file holds: text, or `{"hex": "…"}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Contents {
    Text(String),
    Bytes { hex: String },
}

impl Looks {
    /// What was kept for just this path.
    pub(super) fn file(&self, path: &str) -> Option<Seen<Vec<u8>>> {
        self.files.get(path).map(|kept| kept.seen().and_then(Contents::into_bytes))
    }

    pub(super) fn names(&self, path: &str) -> Option<Seen<Vec<String>>> {
        self.folders.get(path).map(Kept::seen)
    }

    pub(super) fn real(&self, path: &str) -> Option<Seen<String>> {
        self.links.get(path).map(Kept::seen)
    }

    pub(super) fn node(&self, path: &str) -> Option<Seen<FileNode>> {
        self.nodes.get(path).map(Kept::seen)
    }

    pub(super) fn keep_file(&mut self, path: &str, seen: &Seen<Vec<u8>>) {
        self.files.insert(path.to_owned(), Kept::of(seen.clone().map(Contents::of)));
    }

    pub(super) fn keep_names(&mut self, path: &str, seen: &Seen<Vec<String>>) {
        self.folders.insert(path.to_owned(), Kept::of(seen.clone()));
    }

    pub(super) fn keep_real(&mut self, path: &str, seen: &Seen<String>) {
        self.links.insert(path.to_owned(), Kept::of(seen.clone()));
    }

    pub(super) fn keep_node(&mut self, path: &str, seen: &Seen<FileNode>) {
        self.nodes.insert(path.to_owned(), Kept::of(seen.clone()));
    }

    pub(super) fn files_read(&self) -> usize {
        self.files.values().filter(|kept| matches!(kept, Kept::Value(_))).count()
    }

    /// Keeps only files that were refused with EINVAL.
    pub(super) fn forget(&mut self) {
        let einval = Errno::INVAL.raw_os_error();
        let mut files = std::mem::take(self).files;
        files.retain(|_, kept| matches!(kept, Kept::Refused { refused } if *refused == einval));
        self.files = files;
    }

    /// Names of files in a folder that were refused with EINVAL.
    pub(super) fn refused_in(&self, folder: &str) -> BTreeSet<String> {
        let einval = Errno::INVAL.raw_os_error();
        let below = format!("{folder}/");
        let files = self.files.range(below.clone()..);
        let files = files.take_while(|(path, _)| path.starts_with(&below));
        let refused = files
            .filter(|(_, kept)| matches!(kept, Kept::Refused { refused } if *refused == einval));
        refused.map(|(path, _)| path[below.len()..].to_owned()).collect()
    }

    /// Forgets files below a path.
    pub(super) fn forgive(&mut self, path: &str) {
        let below = format!("{path}/");
        self.files.retain(|path, _| !path.starts_with(&below));
    }

    /// The same as a file system would answer: by way of links, and with folders made of what is in them.
    pub(super) fn resolve_file(&self, path: &str) -> Seen<Vec<u8>> {
        self.file(path).unwrap_or_else(|| {
            self.by_links(path).and_then(|path| self.file(&path).unwrap_or(Seen::Absent))
        })
    }

    pub(super) fn resolve_names(&self, path: &str) -> Seen<Vec<String>> {
        self.names(path).unwrap_or_else(|| {
            self.by_links(path)
                .and_then(|path| self.names(&path).unwrap_or_else(|| self.names_below(&path)))
        })
    }

    /// Where a link leads is there, though nothing is known of it: a driver's folder that nobody looked into.
    pub(super) fn resolve_real(&self, path: &str) -> Seen<String> {
        // A snapshot that the program took answers for the path that was asked for, whatever is on its way.
        if let Some(asked) = self.real(path) {
            return asked.and_then(|target| self.by_links(&target));
        }
        self.follow(path).and_then(|(path, by_link)| {
            if by_link || self.is_there(&path) { Seen::Value(path) } else { Seen::Absent }
        })
    }

    pub(super) fn resolve_node(&self, path: &str) -> Seen<FileNode> {
        self.node(path).unwrap_or_else(|| {
            self.by_links(path).and_then(|path| self.node(&path).unwrap_or(Seen::Absent))
        })
    }

    fn by_links(&self, path: &str) -> Seen<String> {
        self.follow(path).map(|(path, _)| path)
    }

    /// Where links lead, a part of the path at a time, and whether the path as a whole is a link's end.
    fn follow(&self, path: &str) -> Seen<(String, bool)> {
        let mut path = path.trim_end_matches('/').to_owned();
        let mut by_link = false;
        for _ in 0..MAX_LINKS {
            if path.len() > LONGEST_PATH {
                return Seen::Refused(Errno::NAMETOOLONG.raw_os_error());
            }
            let linked = ends(&path).find_map(|end| {
                let link = self.links.get(&path[..end])?;
                // What the program took has paths that are no links too: they lead to themselves.
                let elsewhere = !matches!(link, Kept::Value(target) if *target == path[..end]);
                elsewhere.then_some((end, link))
            });
            path = match linked {
                None => return Seen::Value((path, by_link)),
                Some((end, Kept::Value(target))) => {
                    by_link = end == path.len();
                    format!("{target}{}", &path[end..])
                }
                Some((_, other)) => return other.seen::<String>().map(|target| (target, true)),
            };
        }
        Seen::Refused(Errno::LOOP.raw_os_error())
    }

    fn names_below(&self, folder: &str) -> Seen<Vec<String>> {
        let below = format!("{folder}/");
        let names: BTreeSet<&str> = self
            .paths_from(&below)
            .map(|path| path[below.len()..].split('/').next().unwrap_or_default())
            .filter(|name| !name.is_empty())
            .collect();
        if names.is_empty() {
            return Seen::Absent;
        }
        let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        super::sort_names(&mut names);
        Seen::Value(names)
    }

    fn is_there(&self, path: &str) -> bool {
        let here = |path: &str| {
            self.files.get(path).is_some_and(Kept::is_there)
                || self.folders.get(path).is_some_and(Kept::is_there)
                || self.nodes.get(path).is_some_and(Kept::is_there)
                || self.links.get(path).is_some_and(Kept::is_there)
        };
        here(path) || self.paths_from(&format!("{path}/")).next().is_some()
    }

    /// Every path of something that is there and whose path begins so.
    fn paths_from<'l>(&'l self, start: &'l str) -> impl Iterator<Item = &'l str> {
        let files = from(&self.files, start);
        files
            .chain(from(&self.links, start))
            .chain(from(&self.folders, start))
            .chain(from(&self.nodes, start))
    }
}

/// Where each name of the path ends, the first name first.
fn ends(path: &str) -> impl Iterator<Item = usize> {
    let inner = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    inner.chain([path.len()])
}

fn from<'l, T>(
    map: &'l BTreeMap<String, Kept<T>>,
    start: &'l str,
) -> impl Iterator<Item = &'l str> {
    map.range(start.to_owned()..)
        .take_while(move |(path, _)| path.starts_with(start))
        .filter(|(_, kept)| kept.is_there())
        .map(|(path, _)| path.as_str())
}

impl<T> Kept<T> {
    fn of(seen: Seen<T>) -> Self {
        match seen {
            Seen::Value(value) => Kept::Value(value),
            Seen::Absent => Kept::Absent { absent: true },
            Seen::Refused(refused) => Kept::Refused { refused },
            Seen::Odd(odd) => Kept::Odd { odd },
        }
    }

    fn is_there(&self) -> bool {
        !matches!(self, Kept::Absent { .. })
    }
}

impl<T: Clone> Kept<T> {
    fn seen<U>(&self) -> Seen<U>
    where
        T: Into<U>,
    {
        match self {
            Kept::Value(value) => Seen::Value(value.clone().into()),
            Kept::Absent { .. } => Seen::Absent,
            Kept::Refused { refused } => Seen::Refused(*refused),
            Kept::Odd { odd } => Seen::Odd(odd.clone()),
        }
    }
}

impl Contents {
    fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Contents::Text(text),
            Err(error) => Contents::Bytes {
                hex: error.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect(),
            },
        }
    }

    fn into_bytes(self) -> Seen<Vec<u8>> {
        match self {
            Contents::Text(text) => Seen::Value(text.into_bytes()),
            Contents::Bytes { hex } => Seen::Value(hex.into_bytes()).and_then(|hex| {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let byte = |pair: &[u8]| match *pair {
                    [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
                    _ => None,
                };
                hex.chunks(2)
                    .map(byte)
                    .collect::<Option<Vec<u8>>>()
                    .map_or(Seen::Odd("not hex".into()), Seen::Value)
            }),
        }
    }
}

const MAX_LINKS: usize = 40;
/// As the kernel has it.
const LONGEST_PATH: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(json: &str) -> Looks {
        serde_json::from_str(json).expect("looks")
    }

    #[test]
    fn a_tree_of_files_and_links_answers_like_a_file_system() {
        let looks = looks(
            r#"{"files": {
                  "/sys/devices/pci0000:00/0000:3b:00.0/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
                  "/sys/devices/pci0000:00/0000:3b:00.0/infiniband/mlx5_0/ports/1/gid_attrs/types/0": {"refused": 22},
                  "/sys/devices/pci0000:00/0000:3b:00.0/config": {"hex": "b31500ff"}},
                "links": {
                  "/sys/class/infiniband/mlx5_0": "/sys/devices/pci0000:00/0000:3b:00.0/infiniband/mlx5_0",
                  "/sys/devices/pci0000:00/0000:3b:00.0/infiniband/mlx5_0/device": "/sys/devices/pci0000:00/0000:3b:00.0"}}"#,
        );
        let device = "/sys/class/infiniband/mlx5_0";
        assert_eq!(
            looks.resolve_file(&format!("{device}/ports/1/state")),
            Seen::Value(b"4: ACTIVE\n".to_vec())
        );
        assert_eq!(
            looks.resolve_file(&format!("{device}/ports/1/gid_attrs/types/0")),
            Seen::Refused(22)
        );
        assert_eq!(
            looks.resolve_file(&format!("{device}/device/config")),
            Seen::Value(vec![0xb3, 0x15, 0, 0xff])
        );
        assert_eq!(
            looks.resolve_names("/sys/class/infiniband"),
            Seen::Value(vec!["mlx5_0".to_owned()])
        );
        let names = vec!["device".to_owned(), "ports".to_owned()];
        assert_eq!(looks.resolve_names(device), Seen::Value(names));
        assert_eq!(
            looks.resolve_real(&format!("{device}/device")),
            Seen::Value("/sys/devices/pci0000:00/0000:3b:00.0".to_owned())
        );
        assert_eq!(looks.resolve_file("/sys/class/infiniband/mlx5_1/fw_ver"), Seen::Absent);
    }

    #[test]
    fn links_in_a_ring_end() {
        let looks = looks(r#"{"links": {"/a": "/b/x", "/b": "/a/y"}}"#);
        assert_eq!(looks.resolve_file("/a"), Seen::Refused(40));
    }
}
