//! How much memory this process can still allocate, and which limit applies.

use std::fs;
use std::path::{Path, PathBuf};

/// A limit that a request would exceed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Its name, with its value if it has one.
    pub(super) name: String,
    /// Bytes left under it.
    pub(super) left: u64,
    pub(super) fix: &'static str,
}

/// The lowest limit that `wanted` bytes would exceed, by the files below `root`. Unreadable files
/// are no limit.
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
        fix: "request less, or free memory on this machine",
    })
}

/// Whether a control group has too few huge pages of 2 MiB left. Then mapping them would succeed,
/// and accessing them kill the process.
pub(super) fn huge_exceeded(root: &Path, wanted: u64) -> bool {
    groups(root, "hugetlb").iter().any(|group| {
        let left = |limit, used| {
            Some(group.number(root, limit)?.saturating_sub(group.number(root, used)?))
        };
        let left = left("hugetlb.2MB.max", "hugetlb.2MB.current")
            .or_else(|| left("hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.usage_in_bytes"));
        left.is_some_and(|left| left < wanted)
    })
}

/// The memory limits of our control group and of each above it.
fn cgroups(root: &Path) -> Vec<Limit> {
    groups(root, "memory").iter().filter_map(|group| group.memory(root)).collect()
}

/// A control group: its folder below the root.
struct Group(PathBuf);

/// Our control group for `controller` and all above it, of version 2 or 1.
fn groups(root: &Path, controller: &str) -> Vec<Group> {
    let Ok(ours) = fs::read_to_string(root.join("proc/self/cgroup")) else { return Vec::new() };
    // Each line: number, controllers, path; version 2 has no controllers.
    let find = |wanted: &dyn Fn(&str) -> bool| {
        ours.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(":/")?;
            wanted(controllers).then(|| path.to_owned())
        })
    };
    let mount = PathBuf::from("sys/fs/cgroup");
    let version_1 = find(&|controllers| controllers.split(',').any(|one| one == controller));
    let (mount, path) = match (version_1, find(&str::is_empty)) {
        (Some(path), _) => (mount.join(controller), path),
        (None, Some(path)) => (mount, path),
        (None, None) => return Vec::new(),
    };
    let group = mount.join(path);
    let above = group.ancestors().take_while(|group| group.starts_with(&mount));
    above.map(|group| Group(group.to_owned())).collect()
}

impl Group {
    fn memory(&self, root: &Path) -> Option<Limit> {
        let (file, limit, used) = self
            .numbers(root, "memory.max", "memory.current")
            .or_else(|| self.numbers(root, "memory.limit_in_bytes", "memory.usage_in_bytes"))?;
        // The kernel reclaims the page cache when memory is needed.
        let used = used.saturating_sub(self.file_cache(root));
        Some(Limit {
            name: format!("{file} is {} in /{}", super::size(limit), self.0.display()),
            left: limit.saturating_sub(used),
            fix: "request less, or raise the limit (in Kubernetes: resources.limits.memory)",
        })
    }

    fn numbers<'f>(&self, root: &Path, limit: &'f str, used: &str) -> Option<(&'f str, u64, u64)> {
        Some((limit, self.number(root, limit)?, self.number(root, used)?))
    }

    /// The number in one of its files; `None` for "max", which is no limit.
    fn number(&self, root: &Path, file: &str) -> Option<u64> {
        fs::read_to_string(root.join(&self.0).join(file)).ok()?.trim().parse().ok()
    }

    fn file_cache(&self, root: &Path) -> u64 {
        let stat = fs::read_to_string(root.join(&self.0).join("memory.stat")).unwrap_or_default();
        let number = |line: &str| {
            let (name, number) = line.split_once(' ')?;
            matches!(name, "inactive_file" | "active_file").then(|| number.parse::<u64>().ok())?
        };
        stat.lines().filter_map(number).sum()
    }
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
    fn the_lowest_limit_is_returned() {
        let root = container();
        assert_eq!(exceeded(root.path(), 2 * GIB), None);
        let limit = exceeded(root.path(), 5 * GIB).expect("a limit");
        assert_eq!(limit.left, 3 * GIB);
        assert_eq!(limit.name, "memory.max is 4.0 GiB in /sys/fs/cgroup/pods/one");
        assert_eq!(exceeded(root.path(), 9 * GIB).expect("a limit").left, 3 * GIB);
    }

    #[test]
    fn the_page_cache_does_not_count_as_used() {
        let root = container();
        let stat = "anon 5\nactive_file 536870912\ninactive_file 268435456\n";
        let group = root.path().join("sys/fs/cgroup/pods/one");
        fs::write(group.join("memory.stat"), stat).expect("written");
        assert_eq!(
            exceeded(root.path(), 5 * GIB).expect("a limit").left,
            3 * GIB + 768 * (1 << 20)
        );
    }

    #[test]
    fn control_groups_of_version_1_are_limits_too() {
        let root = container();
        let file = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        file("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/pod\n0::/\n");
        file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        file("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
        file("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "2147483648\n");
        file("sys/fs/cgroup/memory/pod/memory.usage_in_bytes", "0\n");
        let limit = exceeded(root.path(), 3 * GIB).expect("a limit");
        assert_eq!(limit.left, 2 * GIB);
        assert!(limit.name.starts_with("memory.limit_in_bytes is 2.0 GiB"), "{}", limit.name);
    }

    #[test]
    fn too_few_huge_pages_in_the_group_are_detected() {
        let root = container();
        let group = root.path().join("sys/fs/cgroup/pods/one");
        assert!(!huge_exceeded(root.path(), GIB));
        fs::write(group.join("hugetlb.2MB.max"), "2097152\n").expect("written");
        fs::write(group.join("hugetlb.2MB.current"), "0\n").expect("written");
        assert!(!huge_exceeded(root.path(), 2 << 20));
        assert!(huge_exceeded(root.path(), 4 << 20));
    }

    #[test]
    fn available_memory_is_a_limit() {
        let root = container();
        fs::remove_file(root.path().join("proc/self/cgroup")).expect("removed");
        let limit = exceeded(root.path(), 9 * GIB).expect("a limit");
        assert_eq!((limit.left, limit.name.as_str()), (8 * GIB, "MemAvailable in /proc/meminfo"));
    }

    #[test]
    fn an_unreadable_root_has_no_limits() {
        assert_eq!(exceeded(Path::new("/nowhere"), u64::MAX), None);
    }
}
