//! How much memory this process can still take, and what stands in its way.

use std::fs;
use std::path::{Path, PathBuf};

/// A limit that a request would break.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Whose limit it is, with its value where it has one.
    pub(super) name: String,
    /// Bytes left under it.
    pub(super) left: u64,
    pub(super) remedy: &'static str,
}

/// The tightest limit that `wanted` bytes would break, by the files below `root`. What cannot be
/// read limits nothing.
pub(super) fn exceeded(root: &Path, wanted: u64) -> Option<Limit> {
    let limits = machine(root).into_iter().chain(cgroups(root));
    limits.filter(|limit| limit.left < wanted).min_by_key(|limit| limit.left)
}

fn machine(root: &Path) -> Option<Limit> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(Limit {
        name: "MemAvailable in /proc/meminfo".to_owned(),
        left: kib.saturating_mul(1024),
        remedy: "ask for less, or free memory on this machine",
    })
}

/// The limits of our control group and of each above it (version 2).
fn cgroups(root: &Path) -> Vec<Limit> {
    let Ok(ours) = fs::read_to_string(root.join("proc/self/cgroup")) else { return Vec::new() };
    let Some(path) = ours.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return Vec::new();
    };
    let mount = PathBuf::from("sys/fs/cgroup");
    let group = mount.join(path);
    group
        .ancestors()
        .take_while(|group| group.starts_with(&mount))
        .filter_map(|group| cgroup(root, group))
        .collect()
}

fn cgroup(root: &Path, group: &Path) -> Option<Limit> {
    let number = |file: &str| {
        let text = fs::read_to_string(root.join(group).join(file)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    // "max" is no number, and no limit.
    let most = number("memory.max")?;
    Some(Limit {
        name: format!("memory.max is {} in /{}", super::size(most), group.display()),
        left: most.saturating_sub(number("memory.current")?),
        remedy: "ask for less, or raise the limit (in Kubernetes: resources.limits.memory)",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A root with 8 GiB available, and a container limited to 4 GiB of which 1 is used.
    fn container() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let file = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        file("proc/meminfo", "MemTotal: 99999999 kB\nMemAvailable:    8388608 kB\n");
        file("proc/self/cgroup", "0::/pods/one\n");
        file("sys/fs/cgroup/pods/memory.max", "max\n");
        file("sys/fs/cgroup/pods/one/memory.max", "4294967296\n");
        file("sys/fs/cgroup/pods/one/memory.current", "1073741824\n");
        root
    }

    #[test]
    fn the_tightest_limit_is_named() {
        let root = container();
        assert_eq!(exceeded(root.path(), 2 * GIB), None);
        let limit = exceeded(root.path(), 5 * GIB).expect("a limit");
        assert_eq!(limit.left, 3 * GIB);
        assert_eq!(limit.name, "memory.max is 4.0 GiB in /sys/fs/cgroup/pods/one");
        assert_eq!(exceeded(root.path(), 9 * GIB).expect("a limit").left, 3 * GIB);
    }

    #[test]
    fn the_machine_itself_is_a_limit() {
        let root = container();
        fs::remove_file(root.path().join("proc/self/cgroup")).expect("removed");
        let limit = exceeded(root.path(), 9 * GIB).expect("a limit");
        assert_eq!((limit.left, limit.name.as_str()), (8 * GIB, "MemAvailable in /proc/meminfo"));
    }

    #[test]
    fn an_unreadable_root_limits_nothing() {
        assert_eq!(exceeded(Path::new("/nowhere"), u64::MAX), None);
    }
}
