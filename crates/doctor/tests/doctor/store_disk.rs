//! Findings on the disk of a store.

use doctor::{CheckInput, Finding, Severity, StoreDisk, check, run_checks};
use node::{Node, Tree};

/// The findings on this store, on a machine with these files.
fn findings(disk: &StoreDisk, files: &[(&str, &str)]) -> Vec<Finding> {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, text) in files.iter().chain([&("srv/data/identity", "")]) {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let tree = Tree::at(folder.path()).expect("a tree");
    let node = Node::read(&tree);
    let input = CheckInput { store_disk: Some(disk), ..CheckInput::new(&node, &tree) };
    run_checks(&input, &[check("store-disk").expect("the check")]).findings
}

fn healthy() -> StoreDisk {
    StoreDisk {
        address: "127.0.0.1:8080".to_owned(),
        path: "/srv/data".to_owned(),
        saves: 1000,
        save_p50: Some((0.0005, 0.001)),
        save_p99: Some((0.004, 0.008)),
        log_bytes: 5_000_000,
        bytes: 7_000_000,
        ..StoreDisk::default()
    }
}

const EXT4: (&str, &str) =
    ("proc/self/mountinfo", "31 24 8:1 / /srv rw shared:7 - ext4 /dev/sda1 rw\n");

#[test]
fn a_quick_disk_is_ok_and_its_times_are_evidence() {
    let found = findings(&healthy(), &[EXT4]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].severity, Severity::Ok);
    let evidence = &found[0].evidence[0];
    assert_eq!(evidence.source, "http://127.0.0.1:8080/metrics");
    assert_eq!(
        evidence.value,
        "1000 saves, p50 0.5 ms to 1.0 ms, p99 4.0 ms to 8.0 ms, log 5 MB, all 7 MB, 0 writes wait"
    );
}

#[test]
fn each_fault_of_a_stores_disk_is_found() {
    let mount = |kind: &str, options: &str| {
        let line = format!("31 24 8:1 / /srv rw - {kind} /dev/sda1 rw{options}\n");
        findings(&healthy(), &[("proc/self/mountinfo", &line)])
    };
    let with = |change: &dyn Fn(&mut StoreDisk)| {
        let mut disk = healthy();
        change(&mut disk);
        findings(&disk, &[EXT4])
    };
    let cases = [
        (with(&|disk| disk.failing = true), Severity::Problem, "refuses writes"),
        (with(&|disk| disk.save_running = 12.0), Severity::Problem, "not answered for 12 s"),
        (
            with(&|disk| disk.save_p99 = Some((0.067, 0.134))),
            Severity::Warning,
            "more than 67.0 ms",
        ),
        (with(&|disk| disk.damaged = 2), Severity::Problem, "2 reads found a damaged value"),
        (with(&|disk| disk.clock_set = 60.0), Severity::Warning, "the clock was set"),
        (with(&|disk| disk.suspended = 60.0), Severity::Note, "the machine slept"),
        (with(&|disk| disk.path = "/elsewhere".to_owned()), Severity::Unknown, "not visible here"),
        (mount("tmpfs", ""), Severity::Problem, "in memory"),
        (mount("overlay", ",lowerdir=/a"), Severity::Warning, "container"),
        (mount("ext4", ",nobarrier"), Severity::Problem, "power loss loses"),
        (mount("ext4", ",barrier=0"), Severity::Problem, "power loss loses"),
    ];
    for (found, severity, words) in &cases {
        let worst = found.iter().max_by_key(|finding| finding.severity).expect("a finding");
        assert_eq!(worst.severity, *severity, "{words}: {found:?}");
        assert!(worst.summary.contains(words), "{words}: {found:?}");
        assert_eq!(worst.fix.is_empty(), *severity == Severity::Note, "{found:?}");
    }
}

/// Not a slow disk: the p99 is at most 50 ms, or says nothing. Not a stuck one: a save may run for a moment.
#[test]
fn a_disk_is_not_called_slow_without_proof() {
    let changes: [&dyn Fn(&mut StoreDisk); 3] = [
        &|disk| disk.save_p99 = Some((0.025, 0.05)),
        &|disk| (disk.saves, disk.save_p99) = (3, Some((1.0, 2.0))),
        &|disk| (disk.queue, disk.save_running) = (50, 0.2),
    ];
    for change in changes {
        let mut disk = healthy();
        change(&mut disk);
        let found = findings(&disk, &[EXT4]);
        assert!(found.iter().all(|finding| finding.severity == Severity::Ok), "{found:?}");
    }
}

/// A partition has the settings of its disk.
#[test]
fn a_disk_without_a_volatile_cache_needs_no_barriers() {
    for (source, disk) in [("/dev/sda1", "sda"), ("/dev/nvme0n1p2", "nvme0n1"), ("/dev/vdb", "vdb")]
    {
        let line = format!("31 24 8:1 / /srv rw - ext4 {source} rw,nobarrier\n");
        let cache = format!("sys/class/block/{disk}/queue/write_cache");
        let files = |cached| [("proc/self/mountinfo", &line[..]), (&cache[..], cached)];
        for (cached, severity) in
            [("write through\n", Severity::Note), ("write back\n", Severity::Problem)]
        {
            let found = findings(&healthy(), &files(cached));
            let worst = found.iter().max_by_key(|finding| finding.severity).expect("a finding");
            assert_eq!(worst.severity, severity, "{source}: {found:?}");
            assert!(
                worst.evidence.iter().any(|evidence| evidence.value == cached.trim()),
                "{found:?}"
            );
        }
    }
}
