//! Clients that are killed in the middle of an operation: everything they held is released.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use fabric::link::Transport;
use kv_client::{Client, PutOptions};

use crate::stamped_values::{Random, value, verify};
use crate::test_server::{TestServer, number, over, settings, until};

pub(crate) const CHILD: &str = "WIRELANE_TEST_VICTIM";
pub(crate) const LONG: usize = 6 << 20;

#[test]
fn killed_clients_leave_nothing_behind() {
    let server = TestServer::open(&settings(256 << 20), Default::default());
    let mut client = server.client(over(Transport::Shm));
    client.put(&0_u64.to_le_bytes(), &value(0, 1, LONG), &PutOptions::default()).unwrap();
    let mut random = Random(77);
    for round in 0..number("WIRELANE_TEST_KILLS", 24) {
        let what = ["get shm", "put shm", "get tcp", "put tcp", "stage shm", "read tcp"];
        let task = format!("{} {}", server.address, what[round % what.len()]);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::child_process", "--nocapture"]).env(CHILD, task);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("working") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the child process ended");
        }
        std::thread::sleep(Duration::from_micros(random.below(12_000)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    until("pins, read handles, staged values and links are released", || {
        let usage = server.engine.index.usage();
        let held = [usage.pins, usage.detached, usage.reserved_bytes];
        held == [0; 3] && server.connections() == 1
    });
    let got = client.get(&0_u64.to_le_bytes()).unwrap().unwrap();
    verify(0, &got.to_vec()).unwrap();
    drop(got);
    let usage = server.engine.index.usage();
    assert!(usage.keys <= 2 && usage.used_bytes <= 3 * LONG as u64, "{usage:?}");
}

/// The child process: repeats one operation until it is killed.
#[test]
fn child_process() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let task: Vec<&str> = task.split(' ').collect();
    let [address, what, transport] = task[..] else { panic!("{task:?}") };
    let mut settings = kv_client::Settings::new(address);
    settings.link = over(if transport == "shm" { Transport::Shm } else { Transport::Tcp });
    let mut client = Client::connect(settings).unwrap();
    let (long, options) = (value(1, 2, LONG), PutOptions::default());
    // In one write, on its own line: the test runner prints to the same output.
    std::io::Write::write_all(&mut std::io::stdout(), b"\nworking\n").unwrap();
    loop {
        match what {
            "get" => drop(client.get_expecting(&0_u64.to_le_bytes(), LONG).unwrap()),
            "put" => drop(client.put(&1_u64.to_le_bytes(), &long, &options).unwrap()),
            "stage" => {
                let mut writer = client.create(b"staged", LONG as u64, &options).unwrap();
                writer.write(&long[..LONG / 2]).unwrap();
            }
            _ => {
                let mut reader = client.open(&0_u64.to_le_bytes(), 0, None).unwrap().unwrap();
                reader.next_chunk().unwrap();
            }
        }
    }
}
