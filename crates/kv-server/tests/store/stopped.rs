//! Clients that are stopped (SIGSTOP) in the middle of an operation: others are not affected, and their resources are
//! released when they end.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fabric::link::Transport;
use kv_client::PutOptions;
use rustix::process::{Pid, Signal, kill_process};

use crate::killed::{CHILD, LONG};
use crate::stamped_values::{Random, value, verify};
use crate::test_server::{TestServer, over, settings, until};

/// A client in a child process.
struct ChildClient(Child);

impl ChildClient {
    fn start(server: &TestServer, what: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::child_process", "--nocapture"]);
        command.env(CHILD, format!("{} {what}", server.address));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("working") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the child process ended");
        }
        ChildClient(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for ChildClient {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Several clients are stopped, each in the middle of an operation; two others do a fixed amount of work; one of the
/// stopped continues; then all are killed.
#[test]
fn stopped_clients_do_not_block_others_and_leave_nothing_behind() {
    let server = TestServer::open(&settings(256 << 20), Default::default());
    let mut client = server.client(over(Transport::Shm));
    client.put(&0_u64.to_le_bytes(), &value(0, 1, LONG), &PutOptions::default()).unwrap();
    let mut random = Random(31);
    let what = ["get shm", "put shm", "get tcp", "put tcp", "stage shm", "read tcp"];
    let children: Vec<ChildClient> = what
        .into_iter()
        .map(|what| {
            let child = ChildClient::start(&server, what);
            std::thread::sleep(Duration::from_micros(random.below(8000)));
            child.signal(Signal::STOP);
            child
        })
        .collect();
    std::thread::scope(|scope| {
        for (number, transport) in [(1, Transport::Shm), (2, Transport::Tcp)] {
            let mut client = server.client(over(transport));
            scope.spawn(move || {
                for round in 0..200_u64 {
                    let name = number * 100 + round % 8;
                    let key = name.to_le_bytes();
                    let length = [64, 5000, 1 << 20][round as usize % 3];
                    let bytes = value(name, round, length);
                    client.put(&key, &bytes, &PutOptions::default()).unwrap();
                    let got = client.get(&key).unwrap().unwrap();
                    verify(name, &got.to_vec()).unwrap();
                }
            });
        }
    });
    // On a busy machine so much time may have passed that the stopped ones were disconnected, too.
    until("the two are disconnected", || server.connections() <= 1 + children.len());
    children[0].signal(Signal::CONT);
    drop(children);
    until("pins, reservations and links are released", || {
        let usage = server.engine.index.usage();
        let held = [usage.pins, usage.detached, usage.reserved_bytes];
        held == [0; 3] && server.connections() == 1 && server.engine.quota().used() == 0
    });
    let got = client.get(&0_u64.to_le_bytes()).unwrap().unwrap();
    verify(0, &got.to_vec()).unwrap();
}
