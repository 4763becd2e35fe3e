//! Commands that write files, where nothing can be written: on a full disk, beyond `ulimit -f`, and without descriptors. The error
//! names the file and the cause, the old file stays as it was, and no temporary file is left.
//!
//! The full disk is a small tmpfs in a private mount namespace, which needs root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::disk::Small;
use super::sweep::World;
use super::*;

/// Commands and the file that each writes, below the directory that cannot be written.
const WRITERS: &[(&str, &str)] = &[
    ("snapshot {full}/snapshot --force --root {tree}", "snapshot"),
    ("topo --svg {full}/topo --root {tree}", "topo"),
    ("bench report {document} --output {full}/page", "page"),
    ("bench nccl --read {nccl} --report {full}/nccl", "nccl"),
    ("kv get --server {links} --deadline 2 long -o {full}/value", "value"),
    ("kv backup {data} {full}/backup", "backup"),
    ("kv restore {backup} {full}/restored", "restored"),
    ("man {full}", "wirelane.1"),
    ("tune apply --yes --root {full}/machine", "/var/lib/wirelane/changes"),
];

/// Every file below a directory that is not empty, like a lock.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match fs::symlink_metadata(&path).expect("metadata").is_dir() {
                true => folders.push(path),
                false => _ = found.insert(path.clone(), fs::read(&path).unwrap_or_default()),
            }
        }
    }
    found.retain(|_, content| !content.is_empty());
    found
}

/// A store with a long value.
fn world() -> World {
    let world = World::new();
    let settings = kv_client::Settings::new(&*world.server.links);
    let mut client = kv_client::Client::connect(settings).expect("it is there");
    let value = vec![7; 100_000];
    client.put(b"long", &value, &kv_client::PutOptions::default()).expect("it is put");
    world
}

/// The files that are replaced, and a machine to change.
fn prepare(folder: &Path) {
    for name in ["snapshot", "topo", "page", "nccl", "value", "wirelane.1"] {
        fs::write(folder.join(name), "old").expect("a file");
    }
    sweep::machine(&folder.join("machine"));
}

/// Checks that a command failed, and left everything as it was.
fn refused(line: &str, output: &Output, name: &str, causes: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(3), "{line}: {text}");
    assert!(
        text.contains(name) && causes.iter().any(|cause| text.contains(cause)),
        "{line}: {text}"
    );
}

#[test]
fn a_full_disk_leaves_the_old_files() {
    let world = world();
    let small = Small::mount(1);
    let inside = small.path("");
    prepare(&inside);
    fill(&small.path("ballast"));
    let before = files(&inside);
    for (line, name) in WRITERS {
        let line = line.replace("{full}", small.directory.path().to_str().expect("a plain path"));
        let output = small.enter(world.command(&line, "")).output().expect("it runs");
        // SQLite has its own words.
        refused(&line, &output, name, &["No space left on device", "disk is full"]);
        let after = files(&inside);
        assert!(after == before, "{line}: {:?}", after.keys());
    }
}

/// Fills the file system to the last byte.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).expect("a file");
    for length in [4096, 1] {
        while file.write_all(&vec![0; length]).is_ok() {}
    }
}

#[test]
fn a_limit_of_the_size_of_files_leaves_the_old_files() {
    let world = world();
    let folder = tempfile::tempdir().expect("a folder");
    prepare(folder.path());
    let before = files(folder.path());
    // These fail before: a client allocates memory that counts as a file, and SQLite needs a file to read a backup.
    let fails_before = |line: &str| line.starts_with("kv get") || line.starts_with("kv restore");
    for (line, name) in WRITERS.iter().filter(|(line, _)| !fails_before(line)) {
        let line = line.replace("{full}", folder.path().to_str().expect("a plain path"));
        let mut limited = Command::new("prlimit");
        limited.arg("--fsize=0");
        let output = within(limited, world.command(&line, "")).output().expect("it runs");
        refused(&line, &output, name, &["File too large", "disk I/O error", "disk is full"]);
        let after = files(folder.path());
        assert!(after == before, "{line}: {:?}", after.keys());
    }
}

/// With few descriptors a command fails at some point, or just not: what it leaves is complete, or the old file.
#[test]
fn without_descriptors_files_are_complete_or_as_before() {
    let world = world();
    for limit in [4, 5, 6, 8, 12] {
        let folder = tempfile::tempdir().expect("a folder");
        prepare(folder.path());
        for (line, name) in WRITERS {
            let line = line.replace("{full}", folder.path().to_str().expect("a plain path"));
            let mut limited = Command::new("prlimit");
            limited.arg(format!("--nofile={limit}"));
            let output = within(limited, world.command(&line, "")).output().expect("it runs");
            let text = String::from_utf8_lossy(&output.stderr);
            // 127: even a library cannot be loaded.
            let is_known = matches!(output.status.code(), Some(0 | 1 | 3 | 127));
            assert!(is_known && !text.contains("panicked"), "{line}: {}: {text}", output.status);
            let file = folder.path().join(name);
            if output.status.code() != Some(0) && before_existed(name) {
                let content = fs::read(&file).expect("a file");
                assert!(content == b"old" || *name == "wirelane.1", "{line}");
            }
            let left = files(folder.path()).into_keys().find(|path| {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                name.is_some_and(|name| name.starts_with(".wirelane-") || name.ends_with(".part"))
            });
            assert_eq!(left, None, "{line} with {limit} descriptors");
        }
    }
}

/// A machine whose files cannot be opened is not one without RDMA.
#[test]
fn without_descriptors_no_plan_is_made() {
    let world = World::new();
    for line in ["tune plan --root {machine}", "doctor --root {machine}", "env --root {machine}"] {
        let mut limited = Command::new("prlimit");
        limited.arg("--nofile=4");
        let output = within(limited, world.command(line, "")).output().expect("it runs");
        assert_eq!(output.status.code(), Some(3), "{line}: {}", stdout(&output));
        let text = stderr(&output);
        assert!(text.contains("EMFILE") || text.contains("Too many open files"), "{line}: {text}");
    }
}

fn before_existed(name: &str) -> bool {
    !["backup", "restored", "/var/lib/wirelane/changes"].contains(&name)
}

/// The same command, started by another one.
fn within(mut by: Command, command: Command) -> Command {
    by.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => by.env(name, value),
            None => by.env_remove(name),
        };
    }
    by.current_dir(command.get_current_dir().expect("a folder")).stdin(Stdio::null());
    by
}

impl Small {
    /// The same command, in the namespace with the file system.
    fn enter(&self, command: Command) -> Command {
        let mut nsenter = Command::new("nsenter");
        // Or it changes to the root of the namespace.
        let folder = command.get_current_dir().expect("a folder").to_owned();
        nsenter.arg(self.namespace()).arg(format!("--wd={}", folder.display()));
        within(nsenter, command)
    }
}
