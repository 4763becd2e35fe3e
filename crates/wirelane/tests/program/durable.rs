//! A store with a disk whose process is killed: acknowledged writes are there, and no value is partial.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kv_client::{Client, Condition, PutOptions};
use tempfile::TempDir;

use super::*;

/// A writer's knowledge of its keys: the last acknowledged write, and the one requested after it.
#[derive(Default)]
struct Known {
    acknowledged: Option<u64>,
    asked: Vec<Option<u64>>,
}

/// A value that identifies its writer, key and stamp in every part.
fn value(writer: u64, key: u64, stamp: u64) -> Vec<u8> {
    // One in fifty is so long that it is stored in chunks.
    let length = if stamp % 50 == 7 { 600_000 } else { 100 + stamp % 6000 };
    let seed = writer << 48 ^ key << 32 ^ stamp;
    let word = |at: u64| (seed ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let mut bytes = [writer, key, stamp].map(u64::to_le_bytes).concat();
    bytes.extend((0..length / 8).flat_map(word));
    bytes
}

fn stamp_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[16..24].try_into().expect("a stamp"))
}

fn client(server: &str) -> Option<Client> {
    let mut settings = kv_client::Settings::new(server);
    settings.timeout = Duration::from_secs(2);
    Client::connect(settings).ok()
}

/// Writes and deletes until the store is gone.
fn write(
    server: &str,
    writer: u64,
    round: u64,
    known: &mut HashMap<u64, Known>,
    over: &AtomicBool,
) {
    let Some(mut client) = client(server) else { return };
    for count in 1.. {
        let (key, stamp) = ((count * 7) % 23, round << 32 | count);
        let name = format!("{writer}/{key}");
        let known = known.entry(key).or_default();
        let deletes = count % 11 == 0;
        known.asked.push((!deletes).then_some(stamp));
        let done = match deletes {
            true => client.delete(name.as_bytes(), Condition::Always).is_ok(),
            false => {
                let value = value(writer, key, stamp);
                client.put(name.as_bytes(), &value, &PutOptions::default()).is_ok()
            }
        };
        // The first failure is the last write: the store was killed, and its outcome is unknown.
        if !done || over.load(Ordering::SeqCst) {
            return;
        }
        known.acknowledged = known.asked.drain(..).next_back().flatten();
    }
}

/// A number for `cargo xtask test --quick`, for a usual run, and for `--full`.
pub(super) fn by_run<T>(quick: T, usual: T, long: T) -> T {
    match std::env::var("WIRELANE_TEST_DISK").as_deref() {
        Ok("quick") => quick,
        Ok("long") => long,
        _ => usual,
    }
}

#[test]
fn acknowledged_writes_survive_kills() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    let data = data.to_str().expect("a plain path");
    let start = || Server::start(&["--memory", "16MiB", "--data-dir", data]);
    let mut writers: Vec<HashMap<u64, Known>> = (0..4).map(|_| HashMap::new()).collect();
    let mut acknowledged = 0;
    let rounds = by_run(4, 10, 200);
    for round in 1..=rounds {
        let mut server = start();
        let (address, over) = (server.links.clone(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for (writer, known) in writers.iter_mut().enumerate() {
                let (address, over) = (&address, &over);
                scope.spawn(move || write(address, writer as u64, round, known, over));
            }
            std::thread::sleep(Duration::from_millis(200 + 37 * (round % 10)));
            server.child.kill().expect("it is there to be killed");
            over.store(true, Ordering::SeqCst);
        });
        drop(server);
        let server = start();
        let mut client = client(&server.links).expect("it is there again");
        for (writer, known) in writers.iter_mut().enumerate() {
            for (key, known) in known.iter_mut() {
                let name = format!("{writer}/{key}");
                let got = client.get(name.as_bytes()).expect("an answer").map(|got| got.to_vec());
                let stamp = got.as_deref().map(stamp_of);
                let fits = stamp == known.acknowledged || known.asked.contains(&stamp);
                assert!(fits, "round {round}, {name}: {stamp:?}, {:?}", known.acknowledged);
                if let (Some(stamp), Some(got)) = (stamp, got) {
                    assert!(got == value(writer as u64, *key, stamp), "{name} is not whole");
                }
                acknowledged += usize::from(known.acknowledged.is_some());
                (known.acknowledged, known.asked) = (stamp, Vec::new());
            }
        }
        drop(server);
        let fsck = wirelane(&["kv", "fsck", data]).output().expect("fsck runs");
        assert_eq!(fsck.status.code(), Some(0), "{}{}", stdout(&fsck), stderr(&fsck));
    }
    assert!(acknowledged > 200, "{acknowledged} is too little to prove anything");
}

#[test]
fn the_disk_can_be_checked_and_backed_up_while_in_use() {
    let directory = TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a plain path").to_owned();
    let [data, copy, again] = ["data", "copy", "again"].map(path);
    let server = Server::start(&["--memory", "16MiB", "--data-dir", &data]);
    assert!(server.greeting[0].contains(&data), "{:?}", server.greeting);
    assert_eq!(server.status()["store"]["data_dir"], data.as_str());
    let kv = |server: &str, arguments: &[&str]| {
        wirelane(&[&["kv", "--server", server], arguments].concat()).output().expect("kv runs")
    };
    assert_eq!(kv(&server.links, &["put", "k", "kept"]).status.code(), Some(0));
    assert!(server.get("/metrics").contains("wirelane_disk_writes_total 1"));
    let output = wirelane(&["kv", "backup", &data, &copy]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(kv(&server.links, &["put", "k", "later"]).status.code(), Some(0));
    let output = wirelane(&["kv", "fsck", &data, "--json"]).output().expect("it runs");
    assert_eq!(json(&stdout(&output))["sound"], true, "{}", stderr(&output));
    // No other process may open it, or overwrite it with a copy.
    for arguments in [
        &["serve", "--data-dir", &data, "--http", "127.0.0.1:0"][..],
        &["kv", "restore", &copy, &data],
    ] {
        let output = wirelane(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains(&server.child.id().to_string()), "{}", stderr(&output));
        assert_eq!(stderr(&output).trim_end().lines().count(), 1, "{}", stderr(&output));
    }
    server.signal("-TERM");
    assert_eq!(server.exit_code(), Some(0));
    let output = wirelane(&["kv", "restore", &copy, &again]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for (data, value) in [(&data, "later"), (&again, "kept")] {
        let server = Server::start(&["--memory", "16MiB", "--data-dir", data]);
        assert_eq!(stdout(&kv(&server.links, &["get", "k"])), value);
    }
    let output = wirelane(&["serve", "--data-dir", "/proc/nowhere", "--http", "127.0.0.1:0"]);
    let output = { output }.output().expect("it runs");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("/proc/nowhere"), "{}", stderr(&output));
}
