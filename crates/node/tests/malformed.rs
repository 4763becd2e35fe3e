//! Malformed trees: nothing hangs or panics, and valid devices are still read.
#![allow(clippy::disallowed_methods, reason = "a test creates the files that it reads")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use node::{Node, PortState, Reading, Tree};
use rustix::fs::{CWD, FileType, Mode};

/// A folder of a machine with one valid device, `good0`.
fn machine() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    write(root.path(), "sys/class/infiniband/good0/node_type", b"1: CA\n");
    write(root.path(), "sys/class/infiniband/good0/ports/1/state", b"4: ACTIVE\n");
    write(root.path(), "sys/class/infiniband/good0/ports/1/rate", b"100 Gb/sec (4X EDR)\n");
    write(root.path(), "sys/class/net/eth0/mtu", b"9000\n");
    root
}

fn write(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, bytes).expect("a file");
}

fn fifo(path: &Path) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).expect("a fifo");
}

/// Reads the machine, and again from its snapshot with the same result; the valid device is found.
#[track_caller]
fn read(root: &Path) -> Node {
    let tree = Tree::at(root).expect("a tree");
    let node = Node::read(&tree);
    let good = node.device("good0").expect("the good device");
    assert_eq!(good.ports[0].state, Reading::Value(PortState::Active));
    assert_eq!(good.ports[0].rate.value().map(|rate| rate.mbps), Some(100_000));
    let json = serde_json::to_value(&node).expect("facts are JSON");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let snapshot = tree.snapshot(&node::About::default()).expect("a snapshot");
    fs::write(file.path(), snapshot).expect("is written");
    let again = Node::read(&Tree::at(file.path()).expect("the snapshot"));
    assert_eq!(serde_json::to_value(&again).expect("facts are JSON"), json);
    node
}

#[test]
fn dangling_and_looped_links_and_links_out_of_the_root() {
    let root = machine();
    let class = root.path().join("sys/class/infiniband");
    symlink("../../devices/gone", class.join("bad0")).expect("a link");
    symlink("bad2", class.join("bad1")).expect("a link");
    symlink("bad1", class.join("bad2")).expect("a link");
    symlink(".", class.join("bad3")).expect("a link");
    symlink("../../../../../../../../etc", class.join("bad4")).expect("a link");
    symlink("x".repeat(300), class.join("bad5")).expect("a link");
    let good = class.join("good0");
    symlink("device", good.join("device")).expect("a link");
    symlink("..", good.join("ports/2")).expect("a link");
    symlink("good0", root.path().join("sys/class/net/eth1")).expect("a link");
    symlink("/", root.path().join("sys/class/net/eth2")).expect("a link");
    read(root.path());
}

#[test]
fn a_folder_for_a_file_and_a_file_for_a_folder() {
    let root = machine();
    let sys = root.path().join("sys/class/infiniband");
    fs::create_dir_all(sys.join("good0/fw_ver")).expect("a folder");
    fs::create_dir_all(sys.join("good0/ports/1/lid")).expect("a folder");
    for file in [
        "sys/class/infiniband/bad0",
        "sys/class/infiniband/bad1/ports",
        "sys/class/infiniband/good0/ports/1/gids",
        "sys/class/infiniband/good0/ports/1/counters",
        "sys/devices/system/node",
        "sys/kernel/iommu_groups",
        "dev/infiniband",
    ] {
        write(root.path(), file, b"a file\n");
    }
    let node = read(root.path());
    assert_eq!(node.device("good0").expect("good").firmware, Reading::Refused(21), "EISDIR");
}

#[test]
fn contents_that_are_too_long_binary_or_invalid() {
    let root = machine();
    let port = "sys/class/infiniband/good0/ports/1";
    write(root.path(), &format!("{port}/counters/symbol_error"), &vec![b'1'; 10 << 20]);
    write(root.path(), &format!("{port}/counters/link_downed"), &[0xff, 0xfe, 0]);
    let invalid = [
        "99999999999999999999999999999999",
        "-1",
        "0x",
        "",
        "\0\0\0",
        "4294967296",
        "18446744073709551616",
        "NaN",
        "4: ACTIVE: 5",
        "1e308 Gb/sec (4X EDR)",
        "99999999999 Gb/sec (99999999999X)",
    ];
    for (number, contents) in invalid.iter().enumerate() {
        for file in ["state", "phys_state", "rate", "lid", "sm_lid", "link_layer", "cap_mask"] {
            let path = format!("sys/class/infiniband/bad{number}/ports/1/{file}");
            write(root.path(), &path, contents.as_bytes());
        }
        for file in ["gids/0", "gid_attrs/types/0", "gid_attrs/ndevs/0", "pkeys/0", "counters/x"] {
            let path = format!("sys/class/infiniband/bad{number}/ports/1/{file}");
            write(root.path(), &path, contents.as_bytes());
        }
        for file in ["mtu", "speed", "ifindex", "dev_port", "carrier", "type", "address"] {
            let path = format!("sys/class/net/bad{number}/{file}");
            write(root.path(), &path, contents.as_bytes());
        }
        write(
            root.path(),
            &format!("sys/class/infiniband/bad{number}/node_guid"),
            contents.as_bytes(),
        );
        let port = format!("sys/class/infiniband/bad{number}/ports/{contents}x/state");
        write(root.path(), &port.replace('\0', "0"), b"4: ACTIVE\n");
    }
    for file in ["proc/meminfo", "proc/cpuinfo", "proc/self/status", "proc/self/limits"] {
        write(root.path(), file, &vec![b':'; 2 << 20]);
    }
    write(root.path(), "proc/self/cgroup", "0::/../../../..\n1:memory:/a/../b\n".as_bytes());
    write(root.path(), "sys/devices/system/cpu/online", b"0-4294967295\n");
    let node = read(root.path());
    assert_eq!(node.devices.len(), 1 + invalid.len());
    let counters = &node.device("good0").expect("good").ports[0].counters;
    let invalid =
        counters.iter().filter(|counter| matches!(counter.value, Reading::Invalid(_))).count();
    assert_eq!(invalid, 2, "{counters:?}");
}

#[test]
fn fifos_and_sockets_do_not_block() {
    let root = machine();
    fifo(&root.path().join("sys/class/infiniband/good0/fw_ver"));
    fifo(&root.path().join("sys/class/infiniband/good0/ports/1/phys_state"));
    fifo(&root.path().join("sys/class/infiniband/bad0"));
    fifo(&root.path().join("proc/cmdline"));
    fs::create_dir_all(root.path().join("sys/class/net/eth0")).expect("a folder");
    let socket = root.path().join("sys/class/net/eth0/operstate");
    let _listener = UnixListener::bind(socket).expect("a socket");
    read(root.path());
}

#[test]
fn names_that_are_not_utf8_and_thousands_of_them() {
    let root = machine();
    let class = root.path().join("sys/class/infiniband");
    fs::create_dir(class.join(OsStr::from_bytes(b"bad\xff0"))).expect("a folder");
    fs::create_dir(class.join("bad\n0")).expect("a folder");
    fs::create_dir(class.join("bad\u{202e}0")).expect("a folder");
    fs::create_dir(class.join("x".repeat(255))).expect("a folder");
    for number in 0..5000 {
        fs::create_dir(class.join(format!("many{number}"))).expect("a folder");
        let gid = format!("sys/class/infiniband/good0/ports/1/gids/{number}");
        write(root.path(), &gid, b"0000:0000:0000:0000:0000:0000:0000:0000\n");
    }
    let node = read(root.path());
    assert!(node.devices.len() > 4000, "{} devices", node.devices.len());
    assert!(node.devices.iter().all(|device| !device.name.contains(['\n', '\u{fffd}'])));
}

/// A few hundred links that form a hundred million paths.
#[test]
fn links_that_form_endless_paths_are_limited() {
    let mut links = serde_json::Map::new();
    (0..4000).for_each(|n| {
        links.insert(format!("/sys/class/infiniband/d{n}"), "/d".into());
    });
    (1..250).for_each(|n| {
        links.insert(format!("/d/ports/{n}"), "/p".into());
    });
    let gid = |n| (format!("/p/gids/{n}"), "fe80:0000:0000:0000:0000:0000:0000:0001\n".into());
    let files: serde_json::Map<String, serde_json::Value> = (0..256).map(gid).collect();
    let bomb = serde_json::json!({"format": "wirelane snapshot 1", "links": links, "files": files});
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bomb.json");
    std::fs::write(&file, bomb.to_string()).expect("a file");
    let node = Node::read(&node::Tree::at(&file).expect("a tree"));
    assert!(!node.devices.is_empty());
}

#[test]
fn snapshots_with_wrong_types_and_deep_links() {
    let snapshot = |text: &str| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("is written");
        Tree::at(file.path()).map(|tree| Node::read(&tree)).map_err(|error| error.to_string())
    };
    let with = |rest: &str| format!(r#"{{"format": "wirelane snapshot 1", {rest}}}"#);
    let deep = "[".repeat(100_000);
    for wrong in [
        with(r#""files": {"/a": 7}"#),
        with(r#""links": ["/a"]"#),
        with(r#""folders": {"/a": "b"}"#),
        with(r#""nodes": {"/a": {"mode": -1}}"#),
        with(r#""answers": {"ethtool": []}"#),
        with(&format!(r#""files": {deep}"#)),
        deep,
    ] {
        assert!(snapshot(&wrong).is_err(), "{}", &wrong[..wrong.len().min(100)]);
    }
    // Links that grow with every step, point to themselves, or to relative paths.
    let long = "/x".repeat(5000);
    let links = with(&format!(
        r#""links": {{"/sys/class/infiniband/a": "/sys/class/infiniband/a/a/a/a/a/a",
                      "/sys/class/infiniband/b": "{long}", "/sys/class/infiniband/c": "",
                      "/sys/class/infiniband/d": "../d", "/sys": "/sys/sys", "": "/", "/": ""}},
            "folders": {{"/sys/class/infiniband": ["a", "b", "c", "d", "..", "", "/", "e/../f"]}},
            "files": {{"/sys/class/infiniband/a/ports/1/state": {{"hex": "0"}},
                       "/proc/self/status": {{"hex": "zz"}}, "sys": "no slash"}}"#
    ));
    snapshot(&links).expect("a node");
}
