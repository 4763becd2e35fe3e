//! Mounted file systems.

use serde::Serialize;

use crate::Tree;

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The mount point.
    pub point: String,
    /// `ext4`, `nfs4`.
    pub kind: String,
    /// The source: `/dev/sda1`, `10.0.0.1:/data`.
    pub source: String,
    /// Whether it is on a block device.
    pub on_disk: bool,
    /// The file system's own options, in the kernel's order: `proto=rdma`.
    pub options: Vec<String>,
}

impl Mount {
    /// All mounts in this process's namespace, in the order of mounting.
    pub fn read_all(tree: &Tree) -> Vec<Mount> {
        let table = tree.text("/proc/self/mountinfo").into_value().unwrap_or_default();
        table.lines().take(MAX_MOUNTS).filter_map(parse).collect()
    }

    /// The mount that contains a path: the longest mount point, and of equal ones the last.
    pub fn containing<'m>(mounts: &'m [Mount], path: &str) -> Option<&'m Mount> {
        mounts.iter().filter(|mount| mount.contains(path)).max_by_key(|mount| mount.point.len())
    }

    /// The mount that is visible at this mount point.
    pub fn at<'m>(mounts: &'m [Mount], point: &str) -> Option<&'m Mount> {
        mounts.iter().rev().find(|mount| mount.point == point)
    }

    /// The value of an option: `rdma` of `proto=rdma`.
    pub fn option(&self, name: &str) -> Option<&str> {
        let value = |option: &'_ String| -> Option<usize> {
            let rest = option.strip_prefix(name)?;
            rest.starts_with('=').then_some(name.len() + 1)
        };
        self.options.iter().find_map(|option| value(option).map(|at| &option[at..]))
    }

    fn contains(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.point.trim_end_matches('/'));
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// A line of /proc/PID/mountinfo: `man 5 proc_pid_mountinfo`.
fn parse(line: &str) -> Option<Mount> {
    let (place, file_system) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let (major, _) = place.next()?.split_once(':')?;
    let point = unescaped(place.nth(1)?);
    let mut words = file_system.split(' ');
    let (kind, source) = (unescaped(words.next()?), unescaped(words.next()?));
    let options = words.next()?.split(',').map(str::to_owned).collect();
    Some(Mount { point, kind, source, on_disk: major != "0", options })
}

/// Blanks and backslashes are escaped as three octal digits.
fn unescaped(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let octal = digits.and_then(|digits| str::from_utf8(digits).ok());
        match octal.and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A host of many pods has thousands.
const MAX_MOUNTS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
24 1 0:22 / / rw,relatime - overlay overlay rw,lowerdir=/a
31 24 8:1 / /srv rw shared:7 - ext4 /dev/sda1 rw
40 24 0:40 / /mnt/my\\040data rw,relatime shared:9 master:2 - nfs4 10.0.0.1:/data rw,vers=4.2,proto=rdma,port=20049
";

    #[test]
    fn mountinfo_is_parsed() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("proc/self")).expect("a folder");
        std::fs::write(dir.path().join("proc/self/mountinfo"), TABLE).expect("a file");
        let mounts = Mount::read_all(&Tree::at(dir.path()).expect("a tree"));
        assert_eq!(mounts.len(), 3);
        let nfs = Mount::containing(&mounts, "/mnt/my data/x").expect("a mount");
        assert_eq!((nfs.kind.as_str(), nfs.source.as_str()), ("nfs4", "10.0.0.1:/data"));
        assert_eq!((nfs.option("proto"), nfs.option("pro")), (Some("rdma"), None));
        let mount_point = |path| Mount::containing(&mounts, path).map(|mount| mount.point.as_str());
        assert_eq!(mount_point("/srv"), Some("/srv"));
        assert_eq!(mount_point("/srvx"), Some("/"), "a longer name with the same prefix");
        assert!(mounts[1].on_disk && !mounts[0].on_disk);
    }

    #[test]
    fn invalid_lines_are_skipped() {
        for line in ["", " - ", "1 2 3 - a", "1 2 0:1 / /x rw - nfs", "\\04 - \\"] {
            assert_eq!(parse(line), None, "{line}");
        }
        assert_eq!(unescaped("a\\040b\\9\\"), "a b\\9\\");
    }
}
