//! A disk that is really full, and one that really fails: writes are refused with the reason, reads continue,
//! acknowledged writes stay, and when the disk accepts writes again so does the store.
//!
//! The full one is a small tmpfs in a private mount namespace, which needs root; the failing one is a file with a size
//! limit.

use std::collections::HashMap;
use std::path::PathBuf;

use kv_client::{Client, Condition, ErrorKind, PutOptions};
use tempfile::TempDir;

use super::*;

/// A file system of this many MiB, in a private mount namespace that ends with this value.
pub(super) struct Small {
    holder: Child,
    pub(super) directory: TempDir,
}

impl Small {
    pub(super) fn mount(mebibytes: u32) -> Self {
        let directory = TempDir::new().expect("a directory");
        let script = "mount -t tmpfs -o size=$1m,mode=700 none \"$0\" && echo mounted && exec cat";
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .arg(directory.path())
            .arg(mebibytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let mut said = String::new();
        let out = holder.stdout.as_mut().expect("piped");
        BufReader::new(out).read_line(&mut said).expect("text");
        assert_eq!(
            said, "mounted\n",
            "this test mounts a tmpfs: run it as root, with CAP_SYS_ADMIN"
        );
        Small { holder, directory }
    }

    /// The program, in the namespace with the file system.
    pub(super) fn wirelane(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(self.namespace());
        let program = wirelane(arguments);
        command.arg(program.get_program()).args(program.get_args());
        command.env("WIRELANE_LIBIBVERBS", "/nowhere/libibverbs.so.1");
        command
    }

    /// The option of nsenter.
    pub(super) fn namespace(&self) -> String {
        format!("--mount=/proc/{}/ns/mnt", self.holder.id())
    }

    pub(super) fn serve(&self) -> Server {
        Server::of(self.command())
    }

    /// The command of a server with a directory there.
    pub(super) fn command(&self) -> Command {
        let data = self.directory.path().join("data");
        let data = data.to_str().expect("a plain path");
        let any = "127.0.0.1:0";
        let more = ["--memory", "4MiB", "--data-dir", data];
        self.wirelane(&[&["serve", "--http", any, "--listen", any], &more[..]].concat())
    }

    /// The path of a file there, from outside the namespace.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        let inside = self.directory.path().strip_prefix("/").expect("an absolute path");
        root.join(inside).join(name)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

pub(super) fn client(server: &Server) -> Client {
    let settings = kv_client::Settings::new(&*server.links);
    Client::connect(settings).expect("it is there")
}

/// A unique value for this key and stamp.
pub(super) fn value(key: u32, stamp: u32) -> Vec<u8> {
    let length = [300, 5000, 40_000, 700_000][key as usize % 4];
    let word = |at: u32| (at ^ key << 16 ^ stamp << 8).wrapping_mul(0x9e37_79b9).to_le_bytes();
    (0..length / 4).flat_map(word).collect()
}

pub(super) fn name(key: u32) -> Vec<u8> {
    format!("key/{key}").into_bytes()
}

/// Writes old and new keys until the store refuses one; returns its error.
fn fill(client: &mut Client, stamp: u32, kept: &mut HashMap<u32, u32>) -> kv_client::Error {
    for key in (0..4000).map(|n| n * 7 % 4001) {
        match client.put(&name(key), &value(key, stamp), &PutOptions::default()) {
            Ok(_) => _ = kept.insert(key, stamp),
            Err(error) => return error,
        }
    }
    panic!("4000 values, and the disk is not full");
}

/// Checks that every acknowledged value is there and complete.
fn has(client: &mut Client, kept: &HashMap<u32, u32>) {
    for (key, stamp) in kept {
        let got = client.get(&name(*key)).expect("reads go on").map(|got| got.to_vec());
        assert!(got.as_deref() == Some(&value(*key, *stamp)[..]), "{key}, {stamp}");
    }
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space_and_loses_nothing() {
    let small = Small::mount(40);
    let ballast = small.path("ballast");
    std::fs::write(&ballast, vec![7; 16 << 20]).expect("there is room for it");
    let server = small.serve();
    let mut client = client(&server);
    let mut kept = HashMap::new();
    for round in 1..=3 {
        let refused = fill(&mut client, round, &mut kept);
        assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
        assert!(refused.to_string().contains("disk is full"), "{refused}");
        has(&mut client, &kept);
    }
    assert!(server.get("/metrics").contains("wirelane_disk_failing 1"));
    assert!(kept.len() > 20, "{}", kept.len());
    // Killed, because a graceful shutdown would clean up. It restarts with a disk that is still full.
    drop((client, server));
    let server = small.serve();
    let mut client = self::client(&server);
    has(&mut client, &kept);
    assert_eq!(fill(&mut client, 4, &mut kept).kind(), ErrorKind::Full);
    std::fs::remove_file(&ballast).expect("it is there");
    for key in 5000..5016 {
        client
            .put(&name(key), &value(key, 1), &PutOptions::default())
            .expect("there is room again");
        kept.insert(key, 1);
    }
    assert!(server.get("/metrics").contains("wirelane_disk_failing 0"));
    has(&mut client, &kept);
    drop((client, server));
    let server = small.serve();
    has(&mut self::client(&server), &kept);
    server.signal("-TERM");
    assert_eq!(server.exit_code(), Some(0));
    let data = small.directory.path().join("data");
    let fsck = small.wirelane(&["kv", "fsck", data.to_str().expect("a plain path")]).output();
    let fsck = fsck.expect("fsck runs");
    assert_eq!(fsck.status.code(), Some(0), "{}{}", stdout(&fsck), stderr(&fsck));
}

/// Values of a megabyte until the disk is full; returns how many there are.
fn fill_with_megabytes(client: &mut Client, prefix: &str) -> u32 {
    let value = vec![7; 1_000_000];
    for number in 0..60 {
        let name = format!("{prefix}/{number}");
        if let Err(error) = client.put(name.as_bytes(), &value, &PutOptions::default()) {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            return number;
        }
    }
    panic!("60 values, and the disk is not full");
}

#[test]
fn a_full_disk_is_emptied_by_deletions() {
    let small = Small::mount(24);
    let server = small.serve();
    let mut client = self::client(&server);
    let mut counts = Vec::new();
    for round in ["first", "second", "third"] {
        let count = fill_with_megabytes(&mut client, round);
        counts.push(count);
        // Others still try to write: their refusals must not keep deletions from being saved.
        let stops = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut client = self::client(&server);
                    while !stops.load(std::sync::atomic::Ordering::Relaxed) {
                        let _ = client.put(b"refused", &[1; 900_000], &PutOptions::default());
                    }
                });
            }
            for number in 0..count {
                let deleted =
                    client.delete(format!("{round}/{number}").as_bytes(), Condition::Always);
                assert!(deleted.is_ok(), "{number} of {count}: {deleted:?}");
            }
            stops.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        client.delete(b"refused", Condition::Always).expect("it is deleted, or was never there");
    }
    assert!(counts.iter().all(|count| *count >= 10), "{counts:?}");
}

#[test]
fn a_disk_that_fails_refuses_writes_until_it_works_and_loses_nothing() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    let data = data.to_str().expect("a plain path");
    let server = Server::start(&["--memory", "4MiB", "--data-dir", data]);
    let mut client = client(&server);
    let mut kept = HashMap::new();
    for key in 0..40 {
        client.put(&name(key), &value(key, 1), &PutOptions::default()).expect("it works");
        kept.insert(key, 1);
    }
    let limit = |bytes: &str| {
        let (pid, limit) = (server.child.id().to_string(), format!("--fsize={bytes}"));
        let set = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(set.expect("prlimit runs").success(), "a limit of files' sizes cannot be set");
    };
    // A larger file cannot be written: the kernel returns EFBIG, and sends SIGXFSZ, which kills a process that does not
    // ignore it.
    limit("65536:unlimited");
    let refused = fill(&mut client, 2, &mut kept);
    assert!(refused.to_string().contains("disk"), "{refused}");
    has(&mut client, &kept);
    assert!(server.get("/metrics").contains("wirelane_disk_failing 1"));
    limit("unlimited:unlimited");
    for key in 5000..5016 {
        client.put(&name(key), &value(key, 1), &PutOptions::default()).expect("it works again");
        kept.insert(key, 1);
    }
    has(&mut client, &kept);
    drop((client, server));
    let server = Server::start(&["--memory", "4MiB", "--data-dir", data]);
    has(&mut self::client(&server), &kept);
}
