//! A store whose disk fails at every possible call: what is acknowledged is there afterwards, and what is there is sound.
//!
//! A library that is preloaded makes the calls fail, since nothing else can: `failing_calls.c`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use kv_client::{Client, Condition, PutOptions};
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::disk::{client, name, value};
use crate::durable::by_run;

/// A data directory, and the library.
struct Faults {
    folder: TempDir,
    library: PathBuf,
}

impl Faults {
    fn new() -> Self {
        let folder = TempDir::new().expect("a directory");
        let library = folder.path().join("calls.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/failing_calls.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(&library).arg(source);
        assert!(compiler.arg("-ldl").status().expect("cc runs").success());
        Faults { folder, library }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The command of a server with this fault.
    fn command(&self, fault: Option<&str>) -> Command {
        let any = "127.0.0.1:0";
        let mut command = wirelane(&["serve", "--http", any, "--listen", any, "--memory", "4MiB"]);
        command.arg("--data-dir").arg(self.data());
        if let Some(fault) = fault {
            command.env("LD_PRELOAD", &self.library).env("WIRELANE_FAULT", fault);
        }
        command
    }

    fn serve(&self, fault: Option<&str>) -> Server {
        Server::of(self.command(fault))
    }

    /// A server that may not start because of the fault; then its output.
    fn try_serve(&self, fault: &str) -> Result<Server, Output> {
        Server::try_of(self.command(Some(fault)))
    }

    #[track_caller]
    fn assert_sound(&self, context: &str) {
        let fsck = wirelane(&["kv", "fsck"]).arg(self.data()).output().expect("fsck runs");
        assert_eq!(fsck.status.code(), Some(0), "{context}: {}{}", stdout(&fsck), stderr(&fsck));
    }
}

/// What is known of each key: the acknowledged stamp (`None`: deleted), and those that were refused after it.
#[derive(Default)]
struct Known(HashMap<u32, Vec<Option<u32>>>);

impl Known {
    fn acknowledged(&mut self, key: u32, stamp: Option<u32>) {
        self.0.insert(key, vec![stamp]);
    }

    fn refused(&mut self, key: u32, stamp: Option<u32>) {
        self.0.entry(key).or_insert_with(|| vec![None]).push(stamp);
    }

    /// Each key has what was acknowledged, or what was refused after it: a refused write may have been done.
    fn check(&mut self, client: &mut Client, context: &str) {
        for (key, possible) in &mut self.0 {
            let got = client.get(&name(*key)).expect("an answer").map(|got| got.to_vec());
            let is_found = |stamp: &&Option<u32>| stamp.map(|stamp| value(*key, stamp)) == got;
            let found = possible.iter().find(is_found).copied();
            let length = got.map(|got| got.len());
            *possible = vec![found.unwrap_or_else(|| {
                panic!("{context}: key {key} has {length:?} bytes, possible stamps {possible:?}")
            })];
        }
    }
}

/// Puts values of all kinds, replaces and deletes some; returns whether anything was refused.
fn work(client: &mut Client, known: &mut Known) -> bool {
    let mut is_refused = false;
    for n in 0..26 {
        let (key, stamp) = (n % 9, (n % 4 != 3).then_some(n));
        let done = match stamp {
            Some(stamp) => {
                client.put(&name(key), &value(key, stamp), &PutOptions::default()).map(drop)
            }
            None => client.delete(&name(key), Condition::Always).map(drop),
        };
        match done {
            Ok(()) => known.acknowledged(key, stamp),
            Err(error) => {
                assert!(error.to_string().contains("disk"), "{error}");
                known.refused(key, stamp);
                is_refused = true;
            }
        }
    }
    is_refused
}

/// Some of the numbers from 1 on: all in a long run.
fn calls() -> impl Iterator<Item = u32> {
    (1..10_000).step_by(by_run(29, 13, 1))
}

/// From some call on, the disk is full: the first one, the second one, and so on, also while the store starts.
#[test]
fn a_disk_that_is_full_at_any_call_loses_nothing() {
    let faults = Faults::new();
    let (mut started, mut not_started) = (0, 0);
    for call in calls() {
        let context = format!("full from call {call} on");
        let _ = std::fs::remove_dir_all(faults.data());
        let mut known = Known::default();
        let is_over = match faults.try_serve(&format!("full:{call}")) {
            Ok(server) => {
                started += 1;
                !work(&mut client(&server), &mut known)
            }
            Err(output) => {
                not_started += 1;
                assert_eq!(output.status.code(), Some(3), "{context}: {}", stderr(&output));
                assert!(stderr(&output).contains("space"), "{context}: {}", stderr(&output));
                false
            }
        };
        let server = faults.serve(None);
        let mut client = client(&server);
        known.check(&mut client, &context);
        assert!(!work(&mut client, &mut known), "{context}: there is space again");
        drop((client, server));
        faults.assert_sound(&context);
        if is_over {
            assert!(started > 2 && not_started > 0, "{started} started, {not_started} did not");
            return;
        }
    }
    panic!("the calls do not end");
}

/// Killed at some call: the first one, the second one, and so on, also while the store starts.
#[test]
fn a_store_that_is_killed_at_any_call_loses_nothing() {
    let faults = Faults::new();
    for (killed, call) in calls().enumerate() {
        let context = format!("killed at call {call}");
        let _ = std::fs::remove_dir_all(faults.data());
        let mut known = Known::default();
        if let Ok(mut server) = faults.try_serve(&format!("kill:{call}")) {
            let mut settings = kv_client::Settings::new(&*server.links);
            settings.timeout = Duration::from_secs(5);
            let client = Client::connect(settings);
            let is_over = client.is_ok_and(|mut client| {
                (0..26).all(|n| {
                    let (key, stamp) = (n % 9, (n % 4 != 3).then_some(n));
                    let done = match stamp {
                        Some(stamp) => {
                            let value = value(key, stamp);
                            client.put(&name(key), &value, &PutOptions::default()).is_ok()
                        }
                        None => client.delete(&name(key), Condition::Always).is_ok(),
                    };
                    match done {
                        true => known.acknowledged(key, stamp),
                        // The outcome of the last one is unknown.
                        false => known.refused(key, stamp),
                    }
                    done
                })
            });
            if is_over && server.child.try_wait().expect("it is our child").is_none() {
                assert!(killed > 3, "{killed}");
                return;
            }
        }
        let server = faults.serve(None);
        known.check(&mut client(&server), &context);
        drop(server);
        faults.assert_sound(&context);
    }
    panic!("the calls do not end");
}

/// A directory that the 0.1 program wrote.
const FORMAT_1: &str = include_str!("../../../kv-disk/tests/disk/format-1.sql");

fn write_format_1(data: &Path) {
    let _ = std::fs::remove_dir_all(data);
    std::fs::create_dir_all(data).expect("a directory");
    let database = Connection::open(data.join("wirelane.db")).expect("a database");
    database.execute_batch(FORMAT_1).expect("tables");
}

/// Killed at some call of the upgrade: the next start upgrades again, and has all values.
#[test]
fn an_upgrade_that_is_killed_at_any_call_begins_again() {
    let faults = Faults::new();
    let mut killed = 0;
    for call in calls() {
        write_format_1(&faults.data());
        let is_over = faults.try_serve(&format!("kill:{call}")).is_ok();
        killed += u32::from(!is_over);
        let context = format!("killed at call {call}");
        let server = faults.serve(None);
        let mut client = client(&server);
        let mut get =
            |key: &str| client.get(key.as_bytes()).expect("an answer").map(|v| v.to_vec());
        for (key, value) in
            [("greeting", "hello"), ("empty", ""), ("replaced", "second"), ("longer", "short")]
        {
            assert_eq!(get(key).as_deref(), Some(value.as_bytes()), "{context}: {key}");
        }
        assert_eq!(get("long"), Some(vec![0; 263_144]), "{context}");
        drop((client, server));
        faults.assert_sound(&context);
        if is_over {
            assert!(killed > 3, "{killed}");
            return;
        }
    }
    panic!("the calls do not end");
}

/// Writes and syncs fail now and then. What is acknowledged is there, also after kills; what is refused may be there.
#[test]
fn a_disk_with_errors_loses_nothing() {
    let faults = Faults::new();
    let mut known = Known::default();
    let (mut acknowledged, mut refused) = (0, 0);
    for round in 0..4 {
        // The first start creates files.
        let server = faults.serve((round > 0).then_some("eio:23"));
        let mut client = client(&server);
        for n in 0..150 {
            let (key, stamp) = (n * 7 % 53, round * 1000 + n);
            match client.put(&name(key), &value(key, stamp), &PutOptions::default()) {
                Ok(_) => {
                    known.acknowledged(key, Some(stamp));
                    acknowledged += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("disk"), "{error}");
                    known.refused(key, Some(stamp));
                    refused += 1;
                }
            }
        }
        drop((client, server));
        let server = faults.serve(None);
        known.check(&mut self::client(&server), &format!("round {round}"));
        drop(server);
        faults.assert_sound(&format!("round {round}"));
    }
    assert!(acknowledged > 300 && refused > 10, "{acknowledged} acknowledged, {refused} refused");
}
