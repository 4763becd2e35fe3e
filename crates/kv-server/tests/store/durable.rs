//! A store with a disk: acknowledged writes survive, and memory is a cache.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fabric::link::Transport;
use kv_client::{Client, Condition, Cursor, ErrorKind, PutOptions};
use kv_disk::{Change, DiskWriter, Error};
use kv_server::{Engine, Settings};

use crate::stamped_values::Random;
use crate::test_server::{TestServer, over, settings, until};

/// A temporary directory.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kv-durable-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }

    pub(crate) fn settings(&self, memory: usize) -> Settings {
        Settings { data_dir: Some(self.0.clone()), ..settings(memory) }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn put(client: &mut Client, key: &[u8], value: &[u8]) -> u64 {
    client.put(key, value, &PutOptions::default()).unwrap().version
}

fn get(client: &mut Client, key: &[u8]) -> Option<Vec<u8>> {
    client.get(key).unwrap().map(|value| value.to_vec())
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| ((at ^ seed).wrapping_mul(31) % 251) as u8).collect()
}

#[test]
fn acknowledged_writes_survive_a_restart() {
    for transport in [Transport::Shm, Transport::Tcp] {
        let directory = Directory::new(transport.name());
        let settings = directory.settings(64 << 20);
        let lengths = [0, 1, 512, 4096, 65_536, 256 << 10, (256 << 10) + 1, 3 << 20];
        let key = |length: usize| format!("key{length}").into_bytes();
        let last = {
            let server = TestServer::open(&settings, over(transport));
            let mut client = server.client(over(transport));
            for length in lengths {
                put(&mut client, &key(length), b"an older value");
                put(&mut client, &key(length), &bytes(length, 7));
            }
            put(&mut client, b"gone", b"x");
            client.delete(b"gone", Condition::Always).unwrap();
            let soon = PutOptions::default().with_ttl(Duration::from_millis(1));
            client.put(b"expired", b"x", &soon).unwrap();
            let late = PutOptions::default().with_ttl(Duration::from_secs(900));
            client.put(b"expires", b"x", &late).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            put(&mut client, b"last", b"last")
        };
        let server = TestServer::open(&settings, over(transport));
        let mut client = server.client(over(transport));
        for length in lengths {
            assert!(
                get(&mut client, &key(length)) == Some(bytes(length, 7)),
                "{length} {transport:?}"
            );
        }
        assert_eq!(get(&mut client, b"gone"), None);
        assert_eq!(get(&mut client, b"expired"), None);
        let expires = client.stat(b"expires").unwrap().unwrap().expires_in.unwrap();
        assert!(expires > Duration::from_secs(800) && expires < Duration::from_secs(901));
        assert!(put(&mut client, b"newer", b"") > last, "versions increase");
        let mut listed = Vec::new();
        let mut page = client.list(b"key", Cursor::START).unwrap();
        loop {
            listed.extend(page.keys.into_iter().map(|(key, _)| key));
            match page.next {
                Some(next) => page = client.list(b"key", next).unwrap(),
                None => break,
            }
        }
        let mut expected: Vec<Vec<u8>> = lengths.iter().map(|length| key(*length)).collect();
        expected.sort();
        assert_eq!(listed, expected);
    }
}

#[test]
fn a_store_may_be_larger_than_its_memory() {
    let directory = Directory::new("more");
    let server = TestServer::open(&directory.settings(8 << 20), over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    let key = |n: usize| format!("{n}").into_bytes();
    for n in 0..2000 {
        put(&mut client, &key(n), &bytes(10_000 + n, n));
    }
    for n in (0..2000).rev() {
        assert!(get(&mut client, &key(n)) == Some(bytes(10_000 + n, n)), "{n}");
    }
    // Several in one call: some in memory, some on disk, some missing.
    let keys: Vec<Vec<u8>> = [5, 1999, 7, 100_000, 9, 11].into_iter().map(key).collect();
    let requested: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let got = client.get_many(&requested).unwrap();
    let got: Vec<Option<usize>> = got.iter().map(|got| got.as_ref().map(|got| got.len())).collect();
    assert_eq!(got, [Some(10_005), Some(11_999), Some(10_007), None, Some(10_009), Some(10_011)]);
    let status = server.engine.disk_status().unwrap();
    assert!(status.counts.loads.load(Ordering::Relaxed) > 1000);
    // A long value is read in chunks, with a read handle.
    put(&mut client, b"long", &bytes(5 << 20, 3));
    (0..700).for_each(|n| _ = get(&mut client, &key(n)));
    assert!(get(&mut client, b"long") == Some(bytes(5 << 20, 3)));
    drop(client);
    until("everything is released", || {
        let usage = server.engine.index.usage();
        [usage.pins, usage.detached, usage.reserved_bytes] == [0; 3]
    });
}

#[test]
fn conditions_apply_to_values_on_disk() {
    let directory = Directory::new("conditions");
    let version = {
        let server = TestServer::open(&directory.settings(16 << 20), over(Transport::Shm));
        let mut client = server.client(over(Transport::Shm));
        put(&mut client, b"cold", b"value")
    };
    let server = TestServer::open(&directory.settings(16 << 20), over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    let when = |condition| PutOptions::default().with_condition(condition);
    let refused = client.put(b"cold", b"new", &when(Condition::IfAbsent)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Condition(Some(version)));
    let refused = client.delete(b"cold", Condition::IfVersion(1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Condition(Some(version)));
    assert_eq!(client.stat(b"cold").unwrap().map(|metadata| metadata.version), Some(version));
    let stored = client.put(b"cold", b"new", &when(Condition::IfVersion(version))).unwrap();
    assert!(stored.replaced && stored.version > version);
    assert_eq!(client.delete(b"cold", Condition::Always).unwrap(), Some(stored.version));
    assert_eq!(client.delete(b"cold", Condition::Always).unwrap(), None);
    assert!(!client.put(b"cold", b"again", &when(Condition::IfAbsent)).unwrap().replaced);
}

/// A disk with injected faults.
struct FaultyDisk {
    disk: Box<dyn DiskWriter>,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    full: AtomicBool,
    fails: AtomicBool,
    /// Changes of this key fail because of a damaged page.
    damaged: Mutex<Option<&'static [u8]>>,
    /// The numbers of saves that were started, executed and saved.
    started: AtomicU64,
    saves: AtomicU64,
    saved: AtomicU64,
    /// While this is set, a save waits before it starts.
    blocked_before: Mutex<bool>,
    /// While this is set, a save waits when it is done, before any write is answered.
    blocked_after: Mutex<bool>,
    unblocked: Condvar,
}

impl Faults {
    fn block_before(&self, blocked: bool) {
        *self.blocked_before.lock().unwrap() = blocked;
        self.unblocked.notify_all();
    }

    fn block_after(&self, blocked: bool) {
        *self.blocked_after.lock().unwrap() = blocked;
        self.unblocked.notify_all();
    }
}

impl DiskWriter for FaultyDisk {
    fn save(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        self.faults.started.fetch_add(1, Ordering::SeqCst);
        let blocked = self.faults.blocked_before.lock().unwrap();
        drop(self.faults.unblocked.wait_while(blocked, |blocked| *blocked).unwrap());
        self.faults.saves.fetch_add(1, Ordering::SeqCst);
        if self.faults.full.load(Ordering::SeqCst) {
            return Err(Error::injected(kv_disk::ErrorKind::Full));
        }
        if self.faults.fails.load(Ordering::SeqCst) {
            return Err(Error::injected(kv_disk::ErrorKind::Failed));
        }
        let damaged = *self.faults.damaged.lock().unwrap();
        let is_damaged = |change: &Change<'_>| match change {
            Change::Put { key, .. } | Change::Remove { key, .. } => Some(*key) == damaged,
            Change::Chunk { .. } => false,
        };
        if changes.iter().any(is_damaged) {
            return Err(Error::injected(kv_disk::ErrorKind::Damaged));
        }
        self.disk.save(changes)?;
        self.faults.saved.fetch_add(1, Ordering::SeqCst);
        let blocked = self.faults.blocked_after.lock().unwrap();
        drop(self.faults.unblocked.wait_while(blocked, |blocked| *blocked).unwrap());
        Ok(())
    }

    fn check_files(&mut self) -> Result<(), Error> {
        self.disk.check_files()
    }

    fn discard_chunks(&mut self, owner: u64) {
        self.disk.discard_chunks(owner);
    }

    fn clean_up(&mut self, now: u64) -> Result<Option<Duration>, Error> {
        self.disk.clean_up(now)
    }
}

fn with_faults(settings: &Settings) -> (TestServer, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let injected = faults.clone();
    let engine = Engine::with_disk_writer(settings, access::Access::allow_all(), |disk| {
        Box::new(FaultyDisk { disk, faults: injected })
    })
    .unwrap();
    (TestServer::with(engine, over(Transport::Shm)), faults)
}

#[test]
fn values_are_not_read_before_they_are_durable() {
    let directory = Directory::new("undurable");
    let (server, faults) = with_faults(&directory.settings(16 << 20));
    let [mut writer, mut reader] = [(); 2].map(|()| server.client(over(Transport::Shm)));
    put(&mut writer, b"k", b"old");
    faults.block_before(true);
    let saves = faults.saves.load(Ordering::SeqCst);
    let token = writer.begin_put(b"k", b"new", &PutOptions::default()).unwrap();
    writer.flush().unwrap();
    for _ in 0..200 {
        assert_eq!(get(&mut reader, b"k").as_deref(), Some(&b"old"[..]));
        assert_eq!(get(&mut reader, b"other"), None);
    }
    assert_eq!(faults.saves.load(Ordering::SeqCst), saves, "the save was blocked throughout");
    faults.block_before(false);
    let mut ready = Vec::new();
    while ready.is_empty() {
        writer.ready(&mut ready).unwrap();
    }
    writer.finish_put(b"k", token).unwrap();
    assert_eq!(get(&mut reader, b"k").as_deref(), Some(&b"new"[..]));
}

/// A key is read while the disk has its new value and memory does not: each version is loaded once, and
/// a stat is not newer than a read.
#[test]
fn a_value_read_during_its_save_is_loaded_once() {
    let directory = Directory::new("between");
    let (server, faults) = with_faults(&directory.settings(16 << 20));
    let [mut writer, mut reader, mut other] = [(); 3].map(|()| server.client(over(Transport::Shm)));
    let key = kv_store::Key::new(b"k").unwrap();
    for round in 0..20 {
        let old = put(&mut writer, b"k", &bytes(5000, round));
        server.engine.index.clear();
        faults.block_after(true);
        let saved = faults.saved.load(Ordering::SeqCst);
        let token = writer.begin_put(b"k", &bytes(5000, round + 1), &PutOptions::default());
        writer.flush().unwrap();
        until("it is saved", || faults.saved.load(Ordering::SeqCst) > saved);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| get(&mut reader, b"k"));
            let stat = scope.spawn(|| other.stat(b"k").unwrap());
            // Lets both start before the save ends.
            std::thread::sleep(Duration::from_millis(5));
            let pinned = server.engine.index.pin(key, server.engine.now());
            faults.block_after(false);
            assert!(read.join().unwrap() == Some(bytes(5000, round + 1)), "{round}");
            assert!(stat.join().unwrap().is_some_and(|metadata| metadata.version > old), "{round}");
            let mut ready = Vec::new();
            while ready.is_empty() {
                writer.ready(&mut ready).unwrap();
            }
            writer.finish_put(b"k", token.unwrap()).unwrap();
            if let Some(pinned) = pinned {
                server.engine.index.unpin(pinned.pin);
            }
        });
    }
    drop((writer, reader, other));
    until("everything is released", || {
        let usage = server.engine.index.usage();
        [usage.pins, usage.detached, usage.reserved_bytes] == [0; 3]
    });
}

/// A key that is put and deleted all the time is in every save: it can be read, and so can others.
#[test]
fn a_key_that_is_always_being_saved_can_be_read() {
    let directory = Directory::new("hot");
    let server = TestServer::open(&directory.settings(2 << 20), over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    for key in 0..200_u8 {
        put(&mut client, &[b'c', key], &bytes(20_000, usize::from(key)));
    }
    let reads = AtomicU64::new(0);
    let is_done = || reads.load(Ordering::SeqCst) >= 1000;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = server.client(over(Transport::Shm));
            scope.spawn(move || {
                while !is_done() {
                    let puts: Vec<_> = (0..4)
                        .map(|_| client.begin_put(b"k", b"value", &PutOptions::default()).unwrap())
                        .collect();
                    for token in puts {
                        client.finish_put(b"k", token).unwrap();
                    }
                    client.delete(b"k", Condition::Always).unwrap();
                }
            });
        }
        for number in 0..6_u8 {
            let mut client = server.client(over(Transport::Shm));
            let reads = &reads;
            scope.spawn(move || {
                let mut random = Random(u64::from(number) + 1);
                while !is_done() {
                    match number {
                        0..4 => _ = get(&mut client, b"k"),
                        4 => _ = client.stat(b"k").unwrap(),
                        _ => {
                            let key = random.below(200) as u8;
                            let value = get(&mut client, &[b'c', key]);
                            assert!(value == Some(bytes(20_000, usize::from(key))));
                        }
                    }
                    reads.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
}

/// A save that is refused for a key, or for some writes of a round, is not reported as running.
#[test]
fn a_refused_save_is_not_running_afterwards() {
    let directory = Directory::new("refused");
    let (server, faults) = with_faults(&directory.settings(16 << 20));
    let mut client = server.client(over(Transport::Shm));
    *faults.damaged.lock().unwrap() = Some(b"bad");
    client.put(b"bad", b"x", &PutOptions::default()).unwrap_err();
    let running = || server.engine.disk_status().unwrap().counts.save_running();
    until("no save is running", || running() == Duration::ZERO);
}

#[test]
fn a_full_or_failing_disk_refuses_only_writes() {
    let directory = Directory::new("full");
    let (server, faults) = with_faults(&directory.settings(16 << 20));
    let mut client = server.client(over(Transport::Shm));
    put(&mut client, b"k", b"before");
    put(&mut client, b"cold", &bytes(5000, 1));
    for (fault, kind) in [(&faults.full, ErrorKind::Full), (&faults.fails, ErrorKind::Other)] {
        fault.store(true, Ordering::SeqCst);
        for value in [&b"refused"[..], &bytes(2 << 20, 4)] {
            let refused = client.put(b"k", value, &PutOptions::default()).unwrap_err();
            assert_eq!(refused.kind(), kind, "{refused}");
            assert!(refused.to_string().contains("disk"), "{refused}");
        }
        let refused = client.delete(b"k", Condition::Always).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
        assert_eq!(get(&mut client, b"k").as_deref(), Some(&b"before"[..]));
        assert!(server.engine.disk_status().unwrap().counts.is_failing());
        fault.store(false, Ordering::SeqCst);
        put(&mut client, b"k", b"between");
        put(&mut client, b"k", b"before");
        assert!(!server.engine.disk_status().unwrap().counts.is_failing());
    }
    put(&mut client, b"k", b"after");
    drop((client, server));
    let server = TestServer::open(&directory.settings(16 << 20), over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    assert_eq!(get(&mut client, b"k").as_deref(), Some(&b"after"[..]));
    assert!(get(&mut client, b"cold") == Some(bytes(5000, 1)));
}

/// A write to a damaged page is refused, but not the writes that were to be saved with it.
#[test]
fn a_damaged_page_refuses_only_its_own_writes() {
    let directory = Directory::new("page");
    let (server, faults) = with_faults(&directory.settings(16 << 20));
    let mut client = server.client(over(Transport::Shm));
    put(&mut client, b"bad", b"before");
    *faults.damaged.lock().unwrap() = Some(b"bad");
    let mut put_together = |keys: &[&[u8]]| {
        // The first save is blocked, so that the other writes are saved together.
        faults.block_before(true);
        let started = faults.started.load(Ordering::SeqCst);
        let first = client.begin_put(b"first", b"x", &PutOptions::default()).unwrap();
        client.flush().unwrap();
        until("it is being saved", || faults.started.load(Ordering::SeqCst) > started);
        let begin = |key: &&[u8]| client.begin_put(key, b"after", &PutOptions::default()).unwrap();
        let tokens: Vec<_> = keys.iter().map(begin).collect();
        client.flush().unwrap();
        let queue = || server.engine.disk_status().unwrap().counts.queue();
        until("all are queued", || queue() == keys.len() as u64);
        faults.block_before(false);
        let mut ready = Vec::new();
        while ready.len() <= keys.len() {
            client.ready(&mut ready).unwrap();
        }
        client.finish_put(b"first", first).unwrap();
        let finish = |(key, token): (&&[u8], _)| client.finish_put(key, token);
        let done = keys.iter().zip(tokens).map(finish);
        done.map(|done| done.err().map(|error| error.kind())).collect::<Vec<_>>()
    };
    let damaged = Some(ErrorKind::Damaged);
    assert_eq!(
        put_together(&[b"a", b"bad", b"b", b"bad", b"c"]),
        [None, damaged, None, damaged, None]
    );
    assert!(!server.engine.disk_status().unwrap().counts.is_failing(), "other writes succeed");
    assert_eq!(get(&mut client, b"bad").as_deref(), Some(&b"before"[..]));
    *faults.damaged.lock().unwrap() = None;
    put(&mut client, b"bad", b"again");
    drop((client, server));
    let server = TestServer::open(&directory.settings(16 << 20), over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    for key in [b"a", b"b", b"c"] {
        assert_eq!(get(&mut client, key).as_deref(), Some(&b"after"[..]));
    }
    assert_eq!(get(&mut client, b"bad").as_deref(), Some(&b"again"[..]));
}

/// Values are loaded, evicted and written concurrently: a client that wrote a key reads its value, or a later one.
#[test]
fn a_loaded_value_never_hides_a_newer_one() {
    let directory = Directory::new("race");
    // So little memory that most reads load.
    let any = || fabric::link::EndpointSettings::default();
    let server = TestServer::open(&directory.settings(2 << 20), any());
    let rounds = crate::test_server::number("WIRELANE_TEST_SECONDS", 4) * 200;
    std::thread::scope(|scope| {
        for owner in 0..4_u64 {
            let mut client =
                server.client(over(if owner == 3 { Transport::Tcp } else { Transport::Shm }));
            scope.spawn(move || {
                let mut random = Random(owner + 1);
                let mut last = [0_u64; 40];
                for round in 1..=rounds as u64 {
                    // Each thread writes its own keys, and reads those of others, so that they are loaded.
                    let own = random.below(40);
                    let name = |owner: u64, n: u64| format!("{owner}-{n}").into_bytes();
                    let mut value = vec![0; 20_000];
                    value[..8].copy_from_slice(&round.to_le_bytes());
                    if random.below(5) == 0 {
                        client.delete(&name(owner, own), Condition::Always).unwrap();
                        last[own as usize] = 0;
                    } else {
                        put(&mut client, &name(owner, own), &value);
                        last[own as usize] = round;
                    }
                    let other = name(random.below(4), random.below(40));
                    get(&mut client, &other);
                    let read = random.below(40);
                    let got = get(&mut client, &name(owner, read));
                    let seen = got.map_or(0, |got| {
                        assert_eq!(got.len(), 20_000);
                        u64::from_le_bytes(got[..8].try_into().unwrap())
                    });
                    assert_eq!(seen, last[read as usize], "{owner}-{read} in round {round}");
                }
            });
        }
    });
    until("everything is released", || {
        let usage = server.engine.index.usage();
        [usage.pins, usage.detached, usage.reserved_bytes] == [0; 3]
    });
}

#[test]
fn a_directory_in_use_is_refused() {
    let directory = Directory::new("in-use");
    let _server = TestServer::open(&directory.settings(16 << 20), over(Transport::Shm));
    let refused = Engine::new(&directory.settings(16 << 20)).map(drop).unwrap_err().to_string();
    assert!(refused.contains(&std::process::id().to_string()), "{refused}");
    assert!(refused.contains(&*directory.0.to_string_lossy()), "{refused}");
}

/// A byte of a long value is flipped on the disk: every read is an error.
#[test]
fn every_read_of_a_damaged_value_is_an_error() {
    let directory = Directory::new("damaged");
    let value = bytes(2 << 20, 5);
    {
        let server = TestServer::open(&directory.settings(16 << 20), over(Transport::Shm));
        let mut client = server.client(over(Transport::Shm));
        put(&mut client, b"long", &value);
        put(&mut client, b"other", b"sound");
    }
    let long = std::fs::read_dir(directory.0.join("long")).unwrap();
    let file = long.flatten().next().expect("it has a file of its own").path();
    let mut all = std::fs::read(&file).unwrap();
    let part = &value[(1 << 20) + 512..(1 << 20) + 1024];
    let at = all.windows(part.len()).position(|window| window == part).unwrap();
    all[at] ^= 1;
    std::fs::write(&file, all).unwrap();
    let server = TestServer::open(&directory.settings(16 << 20), over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    for _ in 0..3 {
        assert_eq!(client.get(b"long").unwrap_err().kind(), ErrorKind::Damaged);
    }
    assert_eq!(get(&mut client, b"other").as_deref(), Some(&b"sound"[..]));
    put(&mut client, b"long", b"again");
    assert_eq!(get(&mut client, b"long").as_deref(), Some(&b"again"[..]));
    drop(client);
    until("everything is released", || {
        let usage = server.engine.index.usage();
        [usage.pins, usage.detached, usage.reserved_bytes] == [0; 3]
    });
    assert_eq!(server.engine.disk_status().unwrap().counts.damaged.load(Ordering::Relaxed), 3);
}

/// Long values are replaced without a pause: their space is reused.
#[test]
fn a_busy_disk_is_maintained() {
    let directory = Directory::new("maintained");
    let server = TestServer::open(&directory.settings(16 << 20), over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    let started = std::time::Instant::now();
    let mut count = 0_u64;
    while started.elapsed() < Duration::from_secs(4) {
        put(&mut client, b"k", &bytes(1 << 20, count as usize));
        count += 1;
    }
    let disk = server.engine.disk_status().unwrap().disk.bytes();
    let written = count << 20;
    assert!(written < 64 << 20 || disk < written / 2 + (160 << 20), "{disk} of {written}");
}
