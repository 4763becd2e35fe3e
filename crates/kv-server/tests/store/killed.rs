//! Clients that are killed in the middle of whatever they do: everything they held comes back.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use fabric::link::Class;
use kv_client::{Client, PutOptions};

use crate::stamped_values::{Chance, examine, value};
use crate::test_server::{Place, by, number, settings, until};

pub(crate) const CHILD: &str = "WIRELANE_TEST_VICTIM";
pub(crate) const LONG: usize = 6 << 20;

#[test]
fn clients_killed_in_the_middle_leave_nothing_behind() {
    let place = Place::open(&settings(256 << 20), Default::default());
    let mut client = place.client(by(Class::Shm));
    client.put(&0_u64.to_le_bytes(), &value(0, 1, LONG), &PutOptions::default()).unwrap();
    let mut chance = Chance(77);
    for round in 0..number("WIRELANE_TEST_KILLS", 24) {
        let what = ["get shm", "put shm", "get tcp", "put tcp", "stage shm", "read tcp"];
        let orders = format!("{} {}", place.address, what[round % what.len()]);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::the_childs_part", "--nocapture"]).env(CHILD, orders);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("at it") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the victim ended by itself");
        }
        std::thread::sleep(Duration::from_micros(chance.below(12_000)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    until("pins, cursors, staged values and links are back", || {
        let usage = place.engine.store.usage();
        let held = [usage.pins, usage.detached, usage.reserved_bytes];
        held == [0; 3] && place.connections() == 1
    });
    let got = client.get(&0_u64.to_le_bytes()).unwrap().unwrap();
    examine(0, &got.to_vec()).unwrap();
    drop(got);
    let usage = place.engine.store.usage();
    assert!(usage.keys <= 2 && usage.used_bytes <= 3 * LONG as u64, "{usage:?}");
}

/// What a victim does until it is killed.
#[test]
fn the_childs_part() {
    let Ok(orders) = std::env::var(CHILD) else { return };
    let orders: Vec<&str> = orders.split(' ').collect();
    let [address, what, class] = orders[..] else { panic!("orders") };
    let mut settings = kv_client::Settings::new(address);
    settings.link = by(if class == "shm" { Class::Shm } else { Class::Tcp });
    let mut client = Client::connect(settings).unwrap();
    let (long, options) = (value(1, 2, LONG), PutOptions::default());
    // In one piece: the runner of tests speaks on the same line.
    std::io::Write::write_all(&mut std::io::stdout(), b"\nat it\n").unwrap();
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
                reader.next_piece().unwrap();
            }
        }
    }
}
