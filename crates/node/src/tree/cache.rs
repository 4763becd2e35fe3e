//! Results of reads, by path: the cache of a tree, and the files of a snapshot.
//!
//! A snapshot that the program took has each result under the requested path. One that was written by hand
//! needs only files and links: links in a path are resolved, and the names in a folder follow from
//! the paths below it.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::FileMetadata;
use crate::Reading;

/// Results by path, one map for each kind of read. What is in none does not exist.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct FileCache {
    files: BTreeMap<String, Cached<Contents>>,
    links: BTreeMap<String, Cached<String>>,
    folders: BTreeMap<String, Cached<Vec<String>>>,
    #[serde(rename = "nodes")]
    metadata: BTreeMap<String, Cached<FileMetadata>>,
}

/// A result: a value as itself, or `{"refused": 22}`, `{"invalid": "…"}`, `{"absent": true}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Cached<T> {
    Refused { refused: i32 },
    Invalid { invalid: String },
    Absent { absent: bool },
    Value(T),
}

/// The contents of a file: text, or `{"hex": "…"}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Contents {
    Text(String),
    Bytes { hex: String },
}

impl FileCache {
    /// The cached result of exactly this path.
    pub(super) fn file(&self, path: &str) -> Option<Reading<Vec<u8>>> {
        self.files.get(path).map(|cached| cached.to_reading().and_then(Contents::into_bytes))
    }

    pub(super) fn names(&self, path: &str) -> Option<Reading<Vec<String>>> {
        self.folders.get(path).map(Cached::to_reading)
    }

    pub(super) fn real(&self, path: &str) -> Option<Reading<String>> {
        self.links.get(path).map(Cached::to_reading)
    }

    pub(super) fn metadata(&self, path: &str) -> Option<Reading<FileMetadata>> {
        self.metadata.get(path).map(Cached::to_reading)
    }

    pub(super) fn store_file(&mut self, path: &str, reading: &Reading<Vec<u8>>) {
        self.files.insert(path.to_owned(), Cached::new(reading.clone().map(Contents::new)));
    }

    pub(super) fn store_names(&mut self, path: &str, reading: &Reading<Vec<String>>) {
        self.folders.insert(path.to_owned(), Cached::new(reading.clone()));
    }

    pub(super) fn store_real(&mut self, path: &str, reading: &Reading<String>) {
        self.links.insert(path.to_owned(), Cached::new(reading.clone()));
    }

    pub(super) fn store_metadata(&mut self, path: &str, reading: &Reading<FileMetadata>) {
        self.metadata.insert(path.to_owned(), Cached::new(reading.clone()));
    }

    pub(super) fn files_read(&self) -> usize {
        self.files.values().filter(|cached| matches!(cached, Cached::Value(_))).count()
    }

    /// Removes everything except files that were refused with EINVAL.
    pub(super) fn clear(&mut self) {
        let einval = Errno::INVAL.raw_os_error();
        let mut files = std::mem::take(self).files;
        let is_einval = |cached: &Cached<Contents>| matches!(cached, Cached::Refused { refused } if *refused == einval);
        files.retain(|_, cached| is_einval(cached));
        self.files = files;
    }

    /// Names of files in a folder that were refused with EINVAL.
    pub(super) fn refused_in(&self, folder: &str) -> BTreeSet<String> {
        let einval = Errno::INVAL.raw_os_error();
        let below = format!("{folder}/");
        let files = self.files.range(below.clone()..);
        let files = files.take_while(|(path, _)| path.starts_with(&below));
        let refused = files.filter(
            |(_, cached)| matches!(cached, Cached::Refused { refused } if *refused == einval),
        );
        refused.map(|(path, _)| path[below.len()..].to_owned()).collect()
    }

    /// Removes files below a path.
    pub(super) fn remove_below(&mut self, path: &str) {
        let below = format!("{path}/");
        self.files.retain(|path, _| !path.starts_with(&below));
    }

    /// Like a file system: resolves links, and lists folders by the paths in them.
    pub(super) fn resolve_file(&self, path: &str) -> Reading<Vec<u8>> {
        self.file(path).unwrap_or_else(|| {
            self.resolve_links(path).and_then(|path| self.file(&path).unwrap_or(Reading::Absent))
        })
    }

    pub(super) fn resolve_names(&self, path: &str) -> Reading<Vec<String>> {
        self.names(path).unwrap_or_else(|| {
            self.resolve_links(path)
                .and_then(|path| self.names(&path).unwrap_or_else(|| self.names_below(&path)))
        })
    }

    /// The target of a link exists, even if nothing below it was read, such as a driver's folder.
    pub(super) fn resolve_real(&self, path: &str) -> Reading<String> {
        // A snapshot that the program took has the result for the requested path.
        if let Some(cached) = self.real(path) {
            return cached.and_then(|target| self.resolve_links(&target));
        }
        self.follow(path).and_then(|(path, by_link)| {
            if by_link || self.exists(&path) { Reading::Value(path) } else { Reading::Absent }
        })
    }

    pub(super) fn resolve_metadata(&self, path: &str) -> Reading<FileMetadata> {
        self.metadata(path).unwrap_or_else(|| {
            self.resolve_links(path)
                .and_then(|path| self.metadata(&path).unwrap_or(Reading::Absent))
        })
    }

    fn resolve_links(&self, path: &str) -> Reading<String> {
        self.follow(path).map(|(path, _)| path)
    }

    /// Resolves links, one component at a time; also returns whether the last component was a link.
    fn follow(&self, path: &str) -> Reading<(String, bool)> {
        let mut path = path.trim_end_matches('/').to_owned();
        let mut by_link = false;
        for _ in 0..MAX_LINKS {
            if path.len() > MAX_PATH_BYTES {
                return Reading::Refused(Errno::NAMETOOLONG.raw_os_error());
            }
            let linked = ends(&path).find_map(|end| {
                let link = self.links.get(&path[..end])?;
                // A snapshot of the program also has paths that are not links: they point to themselves.
                let elsewhere = !matches!(link, Cached::Value(target) if *target == path[..end]);
                elsewhere.then_some((end, link))
            });
            path = match linked {
                None => return Reading::Value((path, by_link)),
                Some((end, Cached::Value(target))) => {
                    by_link = end == path.len();
                    format!("{target}{}", &path[end..])
                }
                Some((_, other)) => {
                    return other.to_reading::<String>().map(|target| (target, true));
                }
            };
        }
        Reading::Refused(Errno::LOOP.raw_os_error())
    }

    fn names_below(&self, folder: &str) -> Reading<Vec<String>> {
        let below = format!("{folder}/");
        let names: BTreeSet<&str> = self
            .paths_from(&below)
            .map(|path| path[below.len()..].split('/').next().unwrap_or_default())
            .filter(|name| !name.is_empty())
            .collect();
        if names.is_empty() {
            return Reading::Absent;
        }
        let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        super::sort_names(&mut names);
        Reading::Value(names)
    }

    fn exists(&self, path: &str) -> bool {
        let is_cached = |path: &str| {
            self.files.get(path).is_some_and(Cached::is_present)
                || self.folders.get(path).is_some_and(Cached::is_present)
                || self.metadata.get(path).is_some_and(Cached::is_present)
                || self.links.get(path).is_some_and(Cached::is_present)
        };
        is_cached(path) || self.paths_from(&format!("{path}/")).next().is_some()
    }

    /// Every path of something that exists and starts with `start`.
    fn paths_from<'l>(&'l self, start: &'l str) -> impl Iterator<Item = &'l str> {
        let files = from(&self.files, start);
        files
            .chain(from(&self.links, start))
            .chain(from(&self.folders, start))
            .chain(from(&self.metadata, start))
    }
}

/// The end of each component of the path, in order.
fn ends(path: &str) -> impl Iterator<Item = usize> {
    let inner = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    inner.chain([path.len()])
}

fn from<'l, T>(
    map: &'l BTreeMap<String, Cached<T>>,
    start: &'l str,
) -> impl Iterator<Item = &'l str> {
    map.range(start.to_owned()..)
        .take_while(move |(path, _)| path.starts_with(start))
        .filter(|(_, cached)| cached.is_present())
        .map(|(path, _)| path.as_str())
}

impl<T> Cached<T> {
    fn new(reading: Reading<T>) -> Self {
        match reading {
            Reading::Value(value) => Cached::Value(value),
            Reading::Absent => Cached::Absent { absent: true },
            Reading::Refused(refused) => Cached::Refused { refused },
            Reading::Invalid(invalid) => Cached::Invalid { invalid },
        }
    }

    fn is_present(&self) -> bool {
        !matches!(self, Cached::Absent { .. })
    }
}

impl<T: Clone> Cached<T> {
    fn to_reading<U>(&self) -> Reading<U>
    where
        T: Into<U>,
    {
        match self {
            Cached::Value(value) => Reading::Value(value.clone().into()),
            Cached::Absent { .. } => Reading::Absent,
            Cached::Refused { refused } => Reading::Refused(*refused),
            Cached::Invalid { invalid } => Reading::Invalid(invalid.clone()),
        }
    }
}

impl Contents {
    fn new(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Contents::Text(text),
            Err(error) => Contents::Bytes {
                hex: error.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect(),
            },
        }
    }

    fn into_bytes(self) -> Reading<Vec<u8>> {
        match self {
            Contents::Text(text) => Reading::Value(text.into_bytes()),
            Contents::Bytes { hex } => Reading::Value(hex.into_bytes()).and_then(|hex| {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let byte = |pair: &[u8]| match *pair {
                    [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
                    _ => None,
                };
                hex.chunks(2)
                    .map(byte)
                    .collect::<Option<Vec<u8>>>()
                    .map_or(Reading::Invalid("not hex".into()), Reading::Value)
            }),
        }
    }
}

const MAX_LINKS: usize = 40;
/// As in the kernel (`PATH_MAX`).
const MAX_PATH_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(json: &str) -> FileCache {
        serde_json::from_str(json).expect("a cache")
    }

    #[test]
    fn files_and_links_are_resolved_like_a_file_system() {
        let cache = cache(
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
            cache.resolve_file(&format!("{device}/ports/1/state")),
            Reading::Value(b"4: ACTIVE\n".to_vec())
        );
        assert_eq!(
            cache.resolve_file(&format!("{device}/ports/1/gid_attrs/types/0")),
            Reading::Refused(22)
        );
        assert_eq!(
            cache.resolve_file(&format!("{device}/device/config")),
            Reading::Value(vec![0xb3, 0x15, 0, 0xff])
        );
        assert_eq!(
            cache.resolve_names("/sys/class/infiniband"),
            Reading::Value(vec!["mlx5_0".to_owned()])
        );
        let names = vec!["device".to_owned(), "ports".to_owned()];
        assert_eq!(cache.resolve_names(device), Reading::Value(names));
        assert_eq!(
            cache.resolve_real(&format!("{device}/device")),
            Reading::Value("/sys/devices/pci0000:00/0000:3b:00.0".to_owned())
        );
        assert_eq!(cache.resolve_file("/sys/class/infiniband/mlx5_1/fw_ver"), Reading::Absent);
    }

    #[test]
    fn a_loop_of_links_is_refused() {
        let cache = cache(r#"{"links": {"/a": "/b/x", "/b": "/a/y"}}"#);
        assert_eq!(cache.resolve_file("/a"), Reading::Refused(40));
    }
}
