//! Concurrent operations on the same keys, from threads and processes: no value is torn, mixed or reappears
//! after it was deleted, and at the end all memory is free.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fabric::link::Transport;
use kv_client::{Client, Condition, ErrorKind, PutOptions};

use crate::stamped_values::{Random, value, verify};
use crate::test_server::{TestServer, over, seconds, settings, until};

const KEYS: u64 = 40;
const CHILD: &str = "WIRELANE_TEST_RACER";

/// The newest known version of each key: no older one may be read afterwards.
struct MinVersions([AtomicU64; KEYS as usize]);

impl MinVersions {
    fn new() -> Self {
        MinVersions(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    fn raise(&self, key: u64, version: u64) {
        self.0[key as usize].fetch_max(version, Ordering::SeqCst);
    }

    fn get(&self, key: u64) -> u64 {
        self.0[key as usize].load(Ordering::SeqCst)
    }
}

#[test]
fn racing_on_the_same_keys() {
    // So small that values are evicted constantly.
    let server = TestServer::open(&settings(2 << 20), Default::default());
    let time = seconds(4);
    let mut children: Vec<_> = [Transport::Shm, Transport::Tcp]
        .into_iter()
        .enumerate()
        .map(|(number, transport)| {
            let task =
                format!("{} {} {} {}", server.address, transport.name(), number, time.as_millis());
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "race::child_process", "--nocapture"]).env(CHILD, task);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    race(server.address, &[Transport::Shm, Transport::Tcp, Transport::Shm], 100, time);
    for child in &mut children {
        assert!(child.wait().unwrap().success(), "a child process failed");
    }
    // On a busy machine it takes longer until each has happened once.
    let mut first = 1000;
    until("values were evicted, expired and deleted", || {
        let usage = server.engine.index.usage();
        let happened = usage.evicted > 0 && usage.expired > 0 && usage.deletes > 0;
        if !happened {
            first += 10;
            race(
                server.address,
                &[Transport::Shm, Transport::Tcp],
                first,
                Duration::from_millis(500),
            );
        }
        happened
    });
    let mut client = server.client(over(Transport::Tcp));
    for key in 0..KEYS {
        client.delete(&key.to_le_bytes(), Condition::Always).unwrap();
    }
    drop(client);
    until("all memory is free", || {
        let usage = server.engine.index.usage();
        let held = [usage.keys, usage.pins, usage.detached, usage.used_bytes, usage.reserved_bytes];
        held == [0; 5]
    });
}

/// The child process of the test above.
#[test]
fn child_process() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let task: Vec<&str> = task.split(' ').collect();
    let [address, transport, number, time] = task[..] else { panic!("{task:?}") };
    let transport = if transport == "shm" { Transport::Shm } else { Transport::Tcp };
    let (number, time): (u64, u64) = (number.parse().unwrap(), time.parse().unwrap());
    race(
        address.parse().unwrap(),
        &[transport, transport],
        200 + number * 10,
        Duration::from_millis(time),
    );
}

fn race(address: SocketAddr, transports: &[Transport], first: u64, time: Duration) {
    let min_versions = MinVersions::new();
    std::thread::scope(|scope| {
        for (at, transport) in transports.iter().enumerate() {
            let min_versions = &min_versions;
            scope.spawn(move || racer(address, *transport, first + at as u64, min_versions, time));
        }
    });
}

fn racer(
    address: SocketAddr,
    transport: Transport,
    number: u64,
    min_versions: &MinVersions,
    time: Duration,
) {
    let mut settings = kv_client::Settings::new(address);
    settings.link = over(transport);
    settings.client_buffer_bytes = 16 << 20;
    let mut client = Client::connect(settings).unwrap();
    let mut random = Random(0x1234_5678 + number * 0x9e37_79b9);
    let (started, mut stamp) = (Instant::now(), number << 40);
    while started.elapsed() < time {
        let key = random.below(KEYS);
        let name = key.to_le_bytes();
        let min_version = min_versions.get(key);
        match random.below(10) {
            0..=4 => read(&mut client, key, min_version, &mut random),
            5..=7 => {
                stamp += 1;
                let bytes = value(key, stamp, length(&mut random));
                let ttl = random.below(4) == 0;
                let ttl = ttl.then(|| Duration::from_millis(random.below(30)));
                let condition = match random.below(6) {
                    0 => Condition::IfAbsent,
                    1 => Condition::IfVersion(min_version.max(1)),
                    _ => Condition::Always,
                };
                match client.put(
                    &name,
                    &bytes,
                    &PutOptions::default().with_ttl(ttl).with_condition(condition),
                ) {
                    Ok(stored) => min_versions.raise(key, stored.version),
                    Err(error) if matches!(error.kind(), ErrorKind::Condition(_)) => {}
                    // All memory is pinned or reserved by others: rare, and reported.
                    Err(error) if error.kind() == ErrorKind::Full => {}
                    Err(error) => panic!("put: {error}"),
                }
            }
            8 => {
                if let Some(version) = client.delete(&name, Condition::Always).unwrap() {
                    min_versions.raise(key, version + 1);
                }
            }
            _ => {
                let keys = [key, (key + 1) % KEYS, (key + 2) % KEYS];
                let before = keys.map(|key| min_versions.get(key));
                let names = keys.map(u64::to_le_bytes);
                let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
                let got = client.get_many(&names).unwrap();
                for ((key, min_version), got) in keys.into_iter().zip(before).zip(got) {
                    let Some(got) = got else { continue };
                    verify(key, &got.to_vec()).unwrap();
                    assert!(
                        got.metadata().version >= min_version,
                        "key {key}: an older version was read"
                    );
                }
            }
        }
    }
}

/// Reads a value, at once or in chunks, and verifies it.
fn read(client: &mut Client, key: u64, min_version: u64, random: &mut Random) {
    let name = key.to_le_bytes();
    let (bytes, version) = if random.below(4) > 0 {
        let Some(got) = client.get(&name).unwrap() else { return };
        (got.to_vec(), got.metadata().version)
    } else {
        let Some(mut reader) = client.open(&name, 0, None).unwrap() else { return };
        let mut bytes = Vec::new();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            bytes.extend(chunk.to_vec());
        }
        (bytes, reader.metadata().version)
    };
    verify(key, &bytes).unwrap();
    assert!(version >= min_version, "key {key}: version {version} was read after {min_version}");
}

fn length(random: &mut Random) -> usize {
    let limit = [100, 2_000, 20_000, 100_000, 400_000][random.below(5) as usize];
    random.below(limit) as usize
}
