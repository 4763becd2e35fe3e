//! Clients that stand still in the middle of whatever they do: nobody else notices, and what they held comes back when
//! they are gone.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fabric::link::Class;
use kv_client::PutOptions;
use rustix::process::{Pid, Signal, kill_process};

use crate::killed::{CHILD, LONG};
use crate::stamped_values::{Chance, examine, value};
use crate::test_server::{Place, by, settings, until};

/// A client in a process of its own, at its work.
struct Victim(Child);

impl Victim {
    fn start(place: &Place, what: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::the_childs_part", "--nocapture"]);
        command.env(CHILD, format!("{} {what}", place.address));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("at it") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the victim ended by itself");
        }
        Victim(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All of them are stopped at once, each in the middle of something; two others do a fixed amount of work; one of the
/// stopped goes on; then all are killed.
#[test]
fn stopped_clients_stop_nobody_and_leave_nothing_behind() {
    let place = Place::open(&settings(256 << 20), Default::default());
    let mut client = place.client(by(Class::Shm));
    client.put(&0_u64.to_le_bytes(), &value(0, 1, LONG), &PutOptions::default()).unwrap();
    let mut chance = Chance(31);
    let what = ["get shm", "put shm", "get tcp", "put tcp", "stage shm", "read tcp"];
    let victims: Vec<Victim> = what
        .into_iter()
        .map(|what| {
            let victim = Victim::start(&place, what);
            std::thread::sleep(Duration::from_micros(chance.below(8000)));
            victim.signal(Signal::STOP);
            victim
        })
        .collect();
    std::thread::scope(|scope| {
        for (number, class) in [(1, Class::Shm), (2, Class::Tcp)] {
            let mut client = place.client(by(class));
            scope.spawn(move || {
                for round in 0..200_u64 {
                    let name = number * 100 + round % 8;
                    let key = name.to_le_bytes();
                    let length = [64, 5000, 1 << 20][round as usize % 3];
                    let bytes = value(name, round, length);
                    client.put(&key, &bytes, &PutOptions::default()).unwrap();
                    let got = client.get(&key).unwrap().unwrap();
                    examine(name, &got.to_vec()).unwrap();
                }
            });
        }
    });
    // On a busy machine so much time has passed that the silent are taken for gone, too.
    until("the two are gone", || place.connections() <= 1 + victims.len());
    victims[0].signal(Signal::CONT);
    drop(victims);
    until("pins, reservations and links are back", || {
        let usage = place.engine.store.usage();
        let held = [usage.pins, usage.detached, usage.reserved_bytes];
        held == [0; 3] && place.connections() == 1 && place.engine.quota().used() == 0
    });
    let got = client.get(&0_u64.to_le_bytes()).unwrap().unwrap();
    examine(0, &got.to_vec()).unwrap();
}
