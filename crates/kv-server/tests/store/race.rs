//! Everything at once on the same keys, from threads and processes: no value is torn, mixed or comes back
//! after it was deleted, and at the end all memory is there again.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fabric::link::Class;
use kv_client::{Client, Condition, Kind, PutOptions};

use crate::stamped_values::{Chance, examine, value};
use crate::test_server::{Place, by, seconds, settings, until};

const KEYS: u64 = 40;
const CHILD: &str = "WIRELANE_TEST_RACER";

/// What is known of each key: no older version may be seen any more.
struct Floors([AtomicU64; KEYS as usize]);

impl Floors {
    fn new() -> Self {
        Floors(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    fn raise(&self, key: u64, version: u64) {
        self.0[key as usize].fetch_max(version, Ordering::SeqCst);
    }

    fn of(&self, key: u64) -> u64 {
        self.0[key as usize].load(Ordering::SeqCst)
    }
}

#[test]
fn racing_on_the_same_keys() {
    // So small that values are evicted all the time.
    let place = Place::open(&settings(2 << 20), Default::default());
    let time = seconds(4);
    let mut children: Vec<_> = [Class::Shm, Class::Tcp]
        .into_iter()
        .enumerate()
        .map(|(number, class)| {
            let orders =
                format!("{} {} {} {}", place.address, class.name(), number, time.as_millis());
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "race::the_childs_part", "--nocapture"]).env(CHILD, orders);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    race(place.address, &[Class::Shm, Class::Tcp, Class::Shm], 100, time);
    for child in &mut children {
        assert!(child.wait().unwrap().success(), "a racer of another process saw something wrong");
    }
    // On a busy machine it takes longer until everything has happened once.
    let mut first = 1000;
    until("values were evicted, expired and deleted", || {
        let usage = place.engine.store.usage();
        let happened = usage.evicted > 0 && usage.expired > 0 && usage.deletes > 0;
        if !happened {
            first += 10;
            race(place.address, &[Class::Shm, Class::Tcp], first, Duration::from_millis(500));
        }
        happened
    });
    let mut client = place.client(by(Class::Tcp));
    for key in 0..KEYS {
        client.delete(&key.to_le_bytes(), Condition::Always).unwrap();
    }
    drop(client);
    until("all memory is back", || {
        let usage = place.engine.store.usage();
        let held = [usage.keys, usage.pins, usage.detached, usage.used_bytes, usage.reserved_bytes];
        held == [0; 5]
    });
}

/// The other process's part of the test above.
#[test]
fn the_childs_part() {
    let Ok(orders) = std::env::var(CHILD) else { return };
    let orders: Vec<&str> = orders.split(' ').collect();
    let [address, class, number, time] = orders[..] else { panic!("orders") };
    let class = if class == "shm" { Class::Shm } else { Class::Tcp };
    let (number, time): (u64, u64) = (number.parse().unwrap(), time.parse().unwrap());
    race(address.parse().unwrap(), &[class, class], 200 + number * 10, Duration::from_millis(time));
}

fn race(address: SocketAddr, classes: &[Class], first: u64, time: Duration) {
    let floors = Floors::new();
    std::thread::scope(|scope| {
        for (at, class) in classes.iter().enumerate() {
            let floors = &floors;
            scope.spawn(move || racer(address, *class, first + at as u64, floors, time));
        }
    });
}

fn racer(address: SocketAddr, class: Class, number: u64, floors: &Floors, time: Duration) {
    let mut settings = kv_client::Settings::new(address);
    settings.link = by(class);
    settings.receive_buffer_bytes = 16 << 20;
    let mut client = Client::connect(settings).unwrap();
    let mut chance = Chance(0x1234_5678 + number * 0x9e37_79b9);
    let (begun, mut stamp) = (Instant::now(), number << 40);
    while begun.elapsed() < time {
        let key = chance.below(KEYS);
        let name = key.to_le_bytes();
        let floor = floors.of(key);
        match chance.below(10) {
            0..=4 => look(&mut client, key, floor, &mut chance),
            5..=7 => {
                stamp += 1;
                let bytes = value(key, stamp, length(&mut chance));
                let ttl = chance.below(4) == 0;
                let ttl = ttl.then(|| Duration::from_millis(chance.below(30)));
                let condition = match chance.below(6) {
                    0 => Condition::IfAbsent,
                    1 => Condition::IfVersion(floor.max(1)),
                    _ => Condition::Always,
                };
                match client.put(
                    &name,
                    &bytes,
                    &PutOptions::default().with_ttl(ttl).with_condition(condition),
                ) {
                    Ok(stored) => floors.raise(key, stored.version),
                    Err(error) if matches!(error.kind(), Kind::Condition(_)) => {}
                    // Everything else is pinned, or reserved by others: seldom, and said.
                    Err(error) if error.kind() == Kind::Full => {}
                    Err(error) => panic!("put: {error}"),
                }
            }
            8 => {
                if let Some(version) = client.delete(&name, Condition::Always).unwrap() {
                    floors.raise(key, version + 1);
                }
            }
            _ => {
                let keys = [key, (key + 1) % KEYS, (key + 2) % KEYS];
                let before = keys.map(|key| floors.of(key));
                let names = keys.map(u64::to_le_bytes);
                let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
                let got = client.get_many(&names).unwrap();
                for ((key, floor), got) in keys.into_iter().zip(before).zip(got) {
                    let Some(got) = got else { continue };
                    examine(key, &got.to_vec()).unwrap();
                    assert!(got.facts().version >= floor, "key {key} went back in time");
                }
            }
        }
    }
}

/// Reads a value, whole or in pieces, and examines it.
fn look(client: &mut Client, key: u64, floor: u64, chance: &mut Chance) {
    let name = key.to_le_bytes();
    let (bytes, version) = if chance.below(4) > 0 {
        let Some(got) = client.get(&name).unwrap() else { return };
        (got.to_vec(), got.facts().version)
    } else {
        let Some(mut reader) = client.open(&name, 0, None).unwrap() else { return };
        let mut bytes = Vec::new();
        while let Some(piece) = reader.next_piece().unwrap() {
            bytes.extend(piece.to_vec());
        }
        (bytes, reader.facts().version)
    };
    examine(key, &bytes).unwrap();
    assert!(version >= floor, "key {key}: version {version} after {floor} was known");
}

fn length(chance: &mut Chance) -> usize {
    let most = [100, 2_000, 20_000, 100_000, 400_000][chance.below(5) as usize];
    chance.below(most) as usize
}
