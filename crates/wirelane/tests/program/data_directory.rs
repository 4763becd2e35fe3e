//! What operators do to a data directory in use: the store notices it before it acknowledges a write.

use std::fs;
use std::path::Path;

use kv_client::{Client, PutOptions};
use tempfile::TempDir;

use super::*;
use crate::disk::Small;
use crate::lifecycle::until;

fn serve(data: &Path) -> Server {
    Server::start(&["--memory", "64MiB", "--data-dir", data.to_str().expect("a plain path")])
}

fn client(server: &Server) -> Client {
    Client::connect(kv_client::Settings::new(&*server.links)).expect("it is there")
}

fn put(client: &mut Client, key: &str) -> Result<(), kv_client::Error> {
    client.put(key.as_bytes(), b"value", &PutOptions::default()).map(drop)
}

#[track_caller]
fn assert_refused(client: &mut Client, key: &str) {
    let error = put(client, key).expect_err("it would be lost");
    assert!(error.to_string().contains("disk"), "{error}");
}

/// Waits until an idle server reports it by itself.
#[track_caller]
fn until_not_ready(server: &Server) {
    until("it is noticed", || server.get("/readyz").contains("removed, moved or replaced"));
    assert!(server.get("/metrics").contains("wirelane_disk_failing 1"));
}

/// `rm -rf` of the directory: acknowledged writes would be gone after a restart.
#[test]
fn a_directory_that_is_removed_refuses_writes() {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let server = serve(&data);
    let mut client = client(&server);
    put(&mut client, "before").expect("it is stored");
    assert_eq!(server.get("/readyz"), "ready\n");
    fs::remove_dir_all(&data).expect("it is there");
    assert_refused(&mut client, "after");
    until_not_ready(&server);
    let kept = client.get(b"before").expect("reads continue").expect("it is in memory");
    assert_eq!(kept.to_vec(), b"value");
    // A new directory of the same name is another one.
    fs::create_dir(&data).expect("it is free");
    assert_refused(&mut client, "after");
    let mut server = server;
    server.signal("-TERM");
    let log: Vec<String> = server.log.by_ref().map_while(Result::ok).collect();
    let log = log.join("\n");
    assert!(
        log.contains(".log: the file in use was removed") && log.contains("move it back"),
        "{log}"
    );
}

/// The log has the values; the index is made anew from it.
#[test]
fn a_log_that_is_removed_refuses_writes() {
    let folder = TempDir::new().expect("a folder");
    let server = serve(folder.path());
    let mut client = client(&server);
    put(&mut client, "before").expect("it is stored");
    fs::remove_file(folder.path().join("log/00000001.log")).expect("it is there");
    assert_refused(&mut client, "after");
    until_not_ready(&server);
}

#[test]
fn a_directory_that_is_moved_refuses_writes_until_it_is_moved_back() {
    let folder = TempDir::new().expect("a folder");
    let [data, moved] = ["data", "moved"].map(|name| folder.path().join(name));
    let server = serve(&data);
    let mut client = client(&server);
    put(&mut client, "before").expect("it is stored");
    fs::rename(&data, &moved).expect("it is there");
    until_not_ready(&server);
    assert_refused(&mut client, "meanwhile");
    fs::rename(&moved, &data).expect("it is there");
    until("it is noticed", || server.get("/readyz") == "ready\n");
    put(&mut client, "after").expect("it is stored");
    assert!(server.get("/metrics").contains("wirelane_disk_failing 0"));
    drop((client, server));
    let server = serve(&data);
    for key in [&b"before"[..], b"after"] {
        assert!(self::client(&server).get(key).expect("an answer").is_some());
    }
}

/// Two servers would each have half of the writes.
#[test]
fn a_second_server_is_refused_without_the_lock_file_and_by_other_names() {
    let folder = TempDir::new().expect("a folder");
    let [data, link] = ["data", "link"].map(|name| folder.path().join(name));
    let server = serve(&data);
    std::os::unix::fs::symlink(&data, &link).expect("it is free");
    fs::remove_file(data.join("lock")).expect("it is there");
    for name in [&data, &link, &data.join("../data/.")] {
        let name = name.to_str().expect("a plain path");
        let any = "127.0.0.1:0";
        let second = run(&["serve", "--listen", any, "--http", any, "--data-dir", name]);
        let text = stderr(&second);
        assert_eq!(second.status.code(), Some(3), "{text}");
        assert!(text.contains("in use by") && text.contains("choose another directory"), "{text}");
    }
    put(&mut client(&server), "key").expect("the first is not affected");
}

#[test]
fn a_read_only_file_system_is_refused_at_the_start() {
    let small = Small::mount(64);
    let server = small.serve();
    put(&mut client(&server), "before").expect("it is stored");
    drop(server);
    let remount = |mode: &str| {
        let mut command = Command::new("nsenter");
        command.arg(small.namespace()).args(["mount", "-o", &format!("remount,{mode}")]);
        assert!(command.arg(small.directory.path()).status().expect("mount runs").success());
    };
    remount("ro");
    let refused = small.command().output().expect("it ends");
    let text = stderr(&refused);
    assert_eq!(refused.status.code(), Some(3), "{text}");
    assert!(text.contains("Read-only file system"), "{text}");
    remount("rw");
    let server = small.serve();
    assert!(client(&server).get(b"before").expect("an answer").is_some());
}
