//! A store with a disk: what it acknowledged is there afterwards, and memory is only the hot part of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fabric::link::Class;
use kv_client::{Client, Condition, Cursor, Kind, PutOptions};
use kv_disk::{Change, DiskWriter, Error, RowInfo};
use kv_server::{Engine, Settings};

use crate::stamped_values::Chance;
use crate::test_server::{Place, by, settings, until};

/// A directory of a test's own.
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
fn what_was_acknowledged_is_there_after_a_restart() {
    for class in [Class::Shm, Class::Tcp] {
        let directory = Directory::new(class.name());
        let settings = directory.settings(64 << 20);
        let lengths = [0, 1, 512, 4096, 65_536, 256 << 10, (256 << 10) + 1, 3 << 20];
        let key = |length: usize| format!("key{length}").into_bytes();
        let last = {
            let place = Place::open(&settings, by(class));
            let mut client = place.client(by(class));
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
        let place = Place::open(&settings, by(class));
        let mut client = place.client(by(class));
        for length in lengths {
            assert!(get(&mut client, &key(length)) == Some(bytes(length, 7)), "{length} {class:?}");
        }
        assert_eq!(get(&mut client, b"gone"), None);
        assert_eq!(get(&mut client, b"expired"), None);
        let expires = client.stat(b"expires").unwrap().unwrap().expires_in.unwrap();
        assert!(expires > Duration::from_secs(800) && expires < Duration::from_secs(901));
        assert!(put(&mut client, b"newer", b"") > last, "versions go on");
        let mut listed = Vec::new();
        let mut page = client.list(b"key", Cursor::START).unwrap();
        loop {
            listed.extend(page.keys.into_iter().map(|(key, _)| key));
            match page.next {
                Some(next) => page = client.list(b"key", next).unwrap(),
                None => break,
            }
        }
        let mut wanted: Vec<Vec<u8>> = lengths.iter().map(|length| key(*length)).collect();
        wanted.sort();
        assert_eq!(listed, wanted);
    }
}

#[test]
fn there_may_be_more_than_fits_into_memory() {
    let directory = Directory::new("more");
    let place = Place::open(&directory.settings(8 << 20), by(Class::Shm));
    let mut client = place.client(by(Class::Shm));
    let key = |n: usize| format!("{n}").into_bytes();
    for n in 0..2000 {
        put(&mut client, &key(n), &bytes(10_000 + n, n));
    }
    for n in (0..2000).rev() {
        assert!(get(&mut client, &key(n)) == Some(bytes(10_000 + n, n)), "{n}");
    }
    // Several at once, some hot and some cold, and some that are not there.
    let keys: Vec<Vec<u8>> = [5, 1999, 7, 100_000, 9, 11].into_iter().map(key).collect();
    let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let got = client.get_many(&asked).unwrap();
    let got: Vec<Option<usize>> = got.iter().map(|got| got.as_ref().map(|got| got.len())).collect();
    assert_eq!(got, [Some(10_005), Some(11_999), Some(10_007), None, Some(10_009), Some(10_011)]);
    let durability = place.engine.durability().unwrap();
    assert!(durability.counts.loads.load(Ordering::Relaxed) > 1000);
    // A long one comes in pieces, under a cursor.
    put(&mut client, b"long", &bytes(5 << 20, 3));
    (0..700).for_each(|n| _ = get(&mut client, &key(n)));
    assert!(get(&mut client, b"long") == Some(bytes(5 << 20, 3)));
    drop(client);
    until("everything is back", || {
        let usage = place.engine.store.usage();
        [usage.pins, usage.detached, usage.reserved_bytes] == [0; 3]
    });
}

#[test]
fn conditions_hold_for_what_is_only_on_the_disk() {
    let directory = Directory::new("conditions");
    let version = {
        let place = Place::open(&directory.settings(16 << 20), by(Class::Shm));
        let mut client = place.client(by(Class::Shm));
        put(&mut client, b"cold", b"value")
    };
    let place = Place::open(&directory.settings(16 << 20), by(Class::Shm));
    let mut client = place.client(by(Class::Shm));
    let when = |condition| PutOptions::default().with_condition(condition);
    let refused = client.put(b"cold", b"new", &when(Condition::IfAbsent)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Condition(Some(version)));
    let refused = client.delete(b"cold", Condition::IfVersion(1)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Condition(Some(version)));
    assert_eq!(client.stat(b"cold").unwrap().map(|facts| facts.version), Some(version));
    let stored = client.put(b"cold", b"new", &when(Condition::IfVersion(version))).unwrap();
    assert!(stored.replaced && stored.version > version);
    assert_eq!(client.delete(b"cold", Condition::Always).unwrap(), Some(stored.version));
    assert_eq!(client.delete(b"cold", Condition::Always).unwrap(), None);
    assert!(!client.put(b"cold", b"again", &when(Condition::IfAbsent)).unwrap().replaced);
}

/// A disk that does what the test wants.
struct Puppet {
    disk: Box<dyn DiskWriter>,
    strings: Arc<Strings>,
}

#[derive(Default)]
struct Strings {
    full: AtomicBool,
    fails: AtomicBool,
    /// Whoever changes this key meets a damaged page.
    damaged: Mutex<Option<&'static [u8]>>,
    /// How many have begun, were let go on, and are done.
    begun: AtomicU64,
    saves: AtomicU64,
    saved: AtomicU64,
    /// While this is set a save waits before it begins.
    held: Mutex<bool>,
    /// While this is set a save waits when it is done, before anybody is answered.
    silent: Mutex<bool>,
    let_go: Condvar,
}

impl Strings {
    fn hold(&self, held: bool) {
        *self.held.lock().unwrap() = held;
        self.let_go.notify_all();
    }

    fn silence(&self, silent: bool) {
        *self.silent.lock().unwrap() = silent;
        self.let_go.notify_all();
    }
}

impl DiskWriter for Puppet {
    fn row_info(&mut self, key: &[u8]) -> Result<Option<RowInfo>, Error> {
        self.disk.known(key)
    }

    fn save(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        self.strings.begun.fetch_add(1, Ordering::SeqCst);
        let held = self.strings.held.lock().unwrap();
        drop(self.strings.let_go.wait_while(held, |held| *held).unwrap());
        self.strings.saves.fetch_add(1, Ordering::SeqCst);
        if self.strings.full.load(Ordering::SeqCst) {
            return Err(Error::injected(kv_disk::Kind::Full));
        }
        if self.strings.fails.load(Ordering::SeqCst) {
            return Err(Error::injected(kv_disk::Kind::Failed));
        }
        let damaged = *self.strings.damaged.lock().unwrap();
        let meets = |change: &Change<'_>| match change {
            Change::Put { key, .. } | Change::Delete { key } => Some(*key) == damaged,
            Change::Piece { .. } => false,
        };
        if changes.iter().any(meets) {
            return Err(Error::injected(kv_disk::Kind::Damaged));
        }
        self.disk.save(changes)?;
        self.strings.saved.fetch_add(1, Ordering::SeqCst);
        let silent = self.strings.silent.lock().unwrap();
        drop(self.strings.let_go.wait_while(silent, |silent| *silent).unwrap());
        Ok(())
    }

    fn discard_pieces(&mut self, owner: u64) {
        self.disk.discard_pieces(owner);
    }

    fn clean_up(&mut self, now: u64) -> Result<Option<Duration>, Error> {
        self.disk.tidy(now)
    }
}

fn with_strings(settings: &Settings) -> (Place, Arc<Strings>) {
    let strings = Arc::new(Strings::default());
    let pulled = strings.clone();
    let engine = Engine::with_disk_writer(settings, access::Access::open(), |disk| {
        Box::new(Puppet { disk, strings: pulled })
    })
    .unwrap();
    (Place::with(engine, by(Class::Shm)), strings)
}

#[test]
fn nobody_reads_what_is_not_yet_durable() {
    let directory = Directory::new("undurable");
    let (place, strings) = with_strings(&directory.settings(16 << 20));
    let [mut writer, mut reader] = [(); 2].map(|()| place.client(by(Class::Shm)));
    put(&mut writer, b"k", b"old");
    strings.hold(true);
    let saves = strings.saves.load(Ordering::SeqCst);
    let token = writer.begin_put(b"k", b"new", &PutOptions::default()).unwrap();
    writer.flush().unwrap();
    for _ in 0..200 {
        assert_eq!(get(&mut reader, b"k").as_deref(), Some(&b"old"[..]));
        assert_eq!(get(&mut reader, b"other"), None);
    }
    assert_eq!(strings.saves.load(Ordering::SeqCst), saves, "it was held all the while");
    strings.hold(false);
    let mut ready = Vec::new();
    while ready.is_empty() {
        writer.ready(&mut ready).unwrap();
    }
    writer.finish_put(b"k", token).unwrap();
    assert_eq!(get(&mut reader, b"k").as_deref(), Some(&b"new"[..]));
}

/// A key is read when the disk has its new value and memory does not: there is one of each version, and whoever asks what
/// is known of it is not told of more than he can read.
#[test]
fn what_is_read_while_it_is_saved_is_there_once() {
    let directory = Directory::new("between");
    let (place, strings) = with_strings(&directory.settings(16 << 20));
    let [mut writer, mut reader, mut looker] = [(); 3].map(|()| place.client(by(Class::Shm)));
    let key = kv_store::Key::new(b"k").unwrap();
    for round in 0..20 {
        let old = put(&mut writer, b"k", &bytes(5000, round));
        place.engine.store.clear();
        strings.silence(true);
        let saved = strings.saved.load(Ordering::SeqCst);
        let token = writer.begin_put(b"k", &bytes(5000, round + 1), &PutOptions::default());
        writer.flush().unwrap();
        until("it is saved", || strings.saved.load(Ordering::SeqCst) > saved);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| get(&mut reader, b"k"));
            let looked = scope.spawn(|| looker.stat(b"k").unwrap());
            // They have their chance to come first.
            std::thread::sleep(Duration::from_millis(5));
            let pinned = place.engine.store.pin(key, place.engine.now());
            strings.silence(false);
            assert!(read.join().unwrap() == Some(bytes(5000, round + 1)), "{round}");
            assert!(looked.join().unwrap().is_some_and(|facts| facts.version > old), "{round}");
            let mut ready = Vec::new();
            while ready.is_empty() {
                writer.ready(&mut ready).unwrap();
            }
            writer.finish_put(b"k", token.unwrap()).unwrap();
            if let Some(pinned) = pinned {
                place.engine.store.unpin(pinned.pin);
            }
        });
    }
    drop((writer, reader, looker));
    until("everything is back", || {
        let usage = place.engine.store.usage();
        [usage.pins, usage.detached, usage.reserved_bytes] == [0; 3]
    });
}

#[test]
fn a_disk_that_is_full_or_fails_costs_writes_and_nothing_else() {
    let directory = Directory::new("full");
    let (place, strings) = with_strings(&directory.settings(16 << 20));
    let mut client = place.client(by(Class::Shm));
    put(&mut client, b"k", b"before");
    put(&mut client, b"cold", &bytes(5000, 1));
    for (string, kind) in [(&strings.full, Kind::Full), (&strings.fails, Kind::Other)] {
        string.store(true, Ordering::SeqCst);
        for value in [&b"refused"[..], &bytes(2 << 20, 4)] {
            let refused = client.put(b"k", value, &PutOptions::default()).unwrap_err();
            assert_eq!(refused.kind(), kind, "{refused}");
            assert!(refused.to_string().contains("disk"), "{refused}");
        }
        let refused = client.delete(b"k", Condition::Always).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
        assert_eq!(get(&mut client, b"k").as_deref(), Some(&b"before"[..]));
        assert!(place.engine.durability().unwrap().counts.is_failing());
        string.store(false, Ordering::SeqCst);
        put(&mut client, b"k", b"between");
        put(&mut client, b"k", b"before");
        assert!(!place.engine.durability().unwrap().counts.is_failing());
    }
    put(&mut client, b"k", b"after");
    drop((client, place));
    let place = Place::open(&directory.settings(16 << 20), by(Class::Shm));
    let mut client = place.client(by(Class::Shm));
    assert_eq!(get(&mut client, b"k").as_deref(), Some(&b"after"[..]));
    assert!(get(&mut client, b"cold") == Some(bytes(5000, 1)));
}

/// A page of the disk is damaged: who writes there is told so, and those whose writes were to be saved with it are not.
#[test]
fn a_damaged_page_costs_the_writes_that_meet_it_and_no_others() {
    let directory = Directory::new("page");
    let (place, strings) = with_strings(&directory.settings(16 << 20));
    let mut client = place.client(by(Class::Shm));
    put(&mut client, b"bad", b"before");
    *strings.damaged.lock().unwrap() = Some(b"bad");
    let mut later = |keys: &[&[u8]]| {
        // The first is held up, so that the others are saved together.
        strings.hold(true);
        let begun = strings.begun.load(Ordering::SeqCst);
        let first = client.begin_put(b"first", b"x", &PutOptions::default()).unwrap();
        client.flush().unwrap();
        until("it is being saved", || strings.begun.load(Ordering::SeqCst) > begun);
        let begin = |key: &&[u8]| client.begin_put(key, b"after", &PutOptions::default()).unwrap();
        let tokens: Vec<_> = keys.iter().map(begin).collect();
        client.flush().unwrap();
        let queue = || place.engine.durability().unwrap().counts.queue();
        until("all have come", || queue() == keys.len() as u64);
        strings.hold(false);
        let mut ready = Vec::new();
        while ready.len() <= keys.len() {
            client.ready(&mut ready).unwrap();
        }
        client.finish_put(b"first", first).unwrap();
        let finish = |(key, token): (&&[u8], _)| client.finish_put(key, token);
        let done = keys.iter().zip(tokens).map(finish);
        done.map(|done| done.err().map(|error| error.kind())).collect::<Vec<_>>()
    };
    let damaged = Some(Kind::Damaged);
    assert_eq!(later(&[b"a", b"bad", b"b", b"bad", b"c"]), [None, damaged, None, damaged, None]);
    assert!(!place.engine.durability().unwrap().counts.is_failing(), "others are written");
    assert_eq!(get(&mut client, b"bad").as_deref(), Some(&b"before"[..]));
    *strings.damaged.lock().unwrap() = None;
    put(&mut client, b"bad", b"again");
    drop((client, place));
    let place = Place::open(&directory.settings(16 << 20), by(Class::Shm));
    let mut client = place.client(by(Class::Shm));
    for key in [b"a", b"b", b"c"] {
        assert_eq!(get(&mut client, key).as_deref(), Some(&b"after"[..]));
    }
    assert_eq!(get(&mut client, b"bad").as_deref(), Some(&b"again"[..]));
}

/// Values are fetched, evicted and written all at once: whoever wrote a key reads what he wrote, or what came later.
#[test]
fn what_is_fetched_never_hides_what_was_written() {
    let directory = Directory::new("race");
    // So little memory that most reads fetch.
    let any = || fabric::link::Settings::default();
    let place = Place::open(&directory.settings(2 << 20), any());
    let rounds = crate::test_server::number("WIRELANE_TEST_SECONDS", 4) * 200;
    std::thread::scope(|scope| {
        for owner in 0..4_u64 {
            let mut client = place.client(by(if owner == 3 { Class::Tcp } else { Class::Shm }));
            scope.spawn(move || {
                let mut chance = Chance(owner + 1);
                let mut last = [0_u64; 40];
                for round in 1..=rounds as u64 {
                    // A key of one's own is written; those of others are read, so that they are fetched.
                    let mine = chance.below(40);
                    let name = |owner: u64, n: u64| format!("{owner}-{n}").into_bytes();
                    let mut value = vec![0; 20_000];
                    value[..8].copy_from_slice(&round.to_le_bytes());
                    if chance.below(5) == 0 {
                        client.delete(&name(owner, mine), Condition::Always).unwrap();
                        last[mine as usize] = 0;
                    } else {
                        put(&mut client, &name(owner, mine), &value);
                        last[mine as usize] = round;
                    }
                    let other = name(chance.below(4), chance.below(40));
                    get(&mut client, &other);
                    let look = chance.below(40);
                    let got = get(&mut client, &name(owner, look));
                    let seen = got.map_or(0, |got| {
                        assert_eq!(got.len(), 20_000);
                        u64::from_le_bytes(got[..8].try_into().unwrap())
                    });
                    assert_eq!(seen, last[look as usize], "{owner}-{look} in round {round}");
                }
            });
        }
    });
    until("everything is back", || {
        let usage = place.engine.store.usage();
        [usage.pins, usage.detached, usage.reserved_bytes] == [0; 3]
    });
}

#[test]
fn a_directory_in_use_is_refused_by_name() {
    let directory = Directory::new("in-use");
    let _place = Place::open(&directory.settings(16 << 20), by(Class::Shm));
    let refused = Engine::new(&directory.settings(16 << 20)).map(drop).unwrap_err().to_string();
    assert!(refused.contains(&std::process::id().to_string()), "{refused}");
    assert!(refused.contains(&*directory.0.to_string_lossy()), "{refused}");
}

/// A byte of a long value changes on the disk: it is an error each time, and never what was read of it.
#[test]
fn a_value_that_is_damaged_on_the_disk_is_an_error_each_time() {
    let directory = Directory::new("damaged");
    let value = bytes(2 << 20, 5);
    {
        let place = Place::open(&directory.settings(16 << 20), by(Class::Shm));
        let mut client = place.client(by(Class::Shm));
        put(&mut client, b"long", &value);
        put(&mut client, b"other", b"sound");
    }
    let file = directory.0.join("wirelane.db");
    let mut all = std::fs::read(&file).unwrap();
    let part = &value[(1 << 20) + 512..(1 << 20) + 1024];
    let at = all.windows(part.len()).position(|window| window == part).unwrap();
    all[at] ^= 1;
    std::fs::write(&file, all).unwrap();
    let place = Place::open(&directory.settings(16 << 20), by(Class::Shm));
    let mut client = place.client(by(Class::Shm));
    for _ in 0..3 {
        assert_eq!(client.get(b"long").unwrap_err().kind(), Kind::Damaged);
    }
    assert_eq!(get(&mut client, b"other").as_deref(), Some(&b"sound"[..]));
    put(&mut client, b"long", b"again");
    assert_eq!(get(&mut client, b"long").as_deref(), Some(&b"again"[..]));
    drop(client);
    until("everything is back", || {
        let usage = place.engine.store.usage();
        [usage.pins, usage.detached, usage.reserved_bytes] == [0; 3]
    });
    assert_eq!(place.engine.durability().unwrap().counts.damaged.load(Ordering::Relaxed), 3);
}

/// Long values are replaced without a pause: what they took is used again.
#[test]
fn a_disk_that_is_written_all_the_time_is_maintained_all_the_same() {
    let directory = Directory::new("maintained");
    let place = Place::open(&directory.settings(16 << 20), by(Class::Shm));
    let mut client = place.client(by(Class::Shm));
    let begun = std::time::Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < Duration::from_secs(4) {
        put(&mut client, b"k", &bytes(1 << 20, count as usize));
        count += 1;
    }
    let disk = place.engine.durability().unwrap().disk.bytes();
    let written = count << 20;
    assert!(written < 64 << 20 || disk < written / 2 + (160 << 20), "{disk} of {written}");
}
