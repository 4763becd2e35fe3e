//! Saved values are read back, and damage is detected.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kv_disk::{
    Body, CHUNK_BYTES, CachedRead, Change, Disk, DiskReader, DiskWriter, ErrorKind, Metadata,
    Reader, RemovalCause, Sink, check,
};

mod damage;
mod log;
mod shards;
mod upgrade;

/// A temporary directory, removed at the end.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kv-disk-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Default)]
struct ReadValue {
    metadata: Option<Metadata>,
    bytes: Vec<u8>,
}

impl Sink for ReadValue {
    fn begin(&mut self, metadata: &Metadata) -> bool {
        self.metadata = Some(*metadata);
        true
    }
    fn bytes(&mut self, offset: u64, bytes: &[u8]) {
        assert_eq!(offset, self.bytes.len() as u64);
        self.bytes.extend(bytes);
    }
}

fn read(reader: &mut Reader, key: &[u8]) -> Option<(Vec<u8>, u64)> {
    let mut value = ReadValue::default();
    reader.read(key, &mut value).unwrap()?;
    Some((value.bytes, value.metadata.unwrap().version))
}

fn put<'c>(key: &'c [u8], version: u64, value: &'c [u8]) -> Change<'c> {
    let (expires, length) = (None, value.len() as u64);
    Change::Put { shard: None, key, version, expires, length, body: Body::Inline(value) }
}

fn deletion(key: &[u8], version: u64) -> Change<'_> {
    Change::Remove { shard: None, key, version, cause: RemovalCause::Deletion }
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| ((at ^ seed) * 31 % 251) as u8).collect()
}

fn save_long(writer: &mut dyn DiskWriter, key: &[u8], value_id: u64, version: u64, value: &[u8]) {
    for (number, chunk) in value.chunks(CHUNK_BYTES).enumerate() {
        writer.save(&[Change::Chunk { value_id, number: number as u32, bytes: chunk }]).unwrap();
    }
    let (expires, length) = (None, value.len() as u64);
    let body = Body::Chunks(value_id);
    writer.save(&[Change::Put { shard: None, key, version, expires, length, body }]).unwrap();
}

#[test]
fn saved_values_are_read_by_the_same_and_the_next_run() {
    let dir = TempDir::new("saved");
    let (short, long) = (bytes(4096, 1), bytes(3 * CHUNK_BYTES + 5, 2));
    let first = {
        let disk = Disk::open(&dir.0).unwrap();
        let mut writer = disk.writer().unwrap();
        let epoch = writer.begin_run(7).unwrap();
        writer.save(&[put(b"a", 1, &short), put(b"empty", 2, b""), put(b"gone", 3, b"x")]).unwrap();
        writer.save(&[deletion(b"gone", 4), put(b"a", 5, b"newer")]).unwrap();
        save_long(&mut writer, b"long", 50, 6, &long);
        let mut reader = writer.reader().unwrap();
        assert_eq!(read(&mut reader, b"a"), Some((b"newer".to_vec(), 5)), "read by the same run");
        epoch
    };
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    assert_eq!((first, writer.begin_run(7).unwrap()), (7, 8), "each run has its own number");
    let mut reader = writer.reader().unwrap();
    assert_eq!(read(&mut reader, b"a"), Some((b"newer".to_vec(), 5)));
    assert_eq!(read(&mut reader, b"empty"), Some((Vec::new(), 2)));
    assert_eq!(read(&mut reader, b"gone"), None);
    assert_eq!(read(&mut reader, b"long"), Some((long, 6)));
    let length = |key| reader.stat(key).unwrap().map(|metadata: Metadata| metadata.length);
    assert_eq!([&b"empty"[..], b"gone"].map(length), [Some(0), None]);
    let listed = reader.list(b"", b"", (10, 1000), 0).unwrap();
    let keys: Vec<&[u8]> = listed.iter().map(|(key, _)| &key[..]).collect();
    assert_eq!(keys, [&b"a"[..], b"empty", b"long"]);
    let listed = reader.list(b"", b"a", (1, 1000), 0).unwrap();
    assert_eq!((listed.len(), &listed[0].0[..]), (1, &b"empty"[..]), "the next page");
    assert!(check(&dir.0, |_, _| {}).unwrap().is_sound());
}

#[test]
fn files_of_long_values_are_removed_with_them_and_staged_ones_stay() {
    let dir = TempDir::new("chunks");
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    let files = || std::fs::read_dir(dir.0.join("long")).unwrap().count();
    let long = bytes(100 * CHUNK_BYTES, 3);
    save_long(&mut writer, b"k", 1, 1, &long);
    save_long(&mut writer, b"replaced", 5, 2, &long[..2 * CHUNK_BYTES]);
    writer.save(&[put(b"replaced", 3, b"short")]).unwrap();
    writer.save(&[Change::Chunk { value_id: 2, number: 0, bytes: &long[..CHUNK_BYTES] }]).unwrap();
    writer.save(&[Change::Chunk { value_id: 9, number: 0, bytes: &long[..CHUNK_BYTES] }]).unwrap();
    writer.discard_chunks(9);
    writer.save(&[deletion(b"k", 4)]).unwrap();
    until("only the staged value has a file", || files() == 1);
    until("its bytes are counted", || disk.bytes() < 20 * CHUNK_BYTES as u64);
    // The value whose first chunk was saved before.
    writer
        .save(&[Change::Chunk {
            value_id: 2,
            number: 1,
            bytes: &long[CHUNK_BYTES..2 * CHUNK_BYTES],
        }])
        .unwrap();
    let (length, body) = (2 * CHUNK_BYTES as u64, Body::Chunks(2));
    writer
        .save(&[Change::Put { shard: None, key: b"late", version: 9, expires: None, length, body }])
        .unwrap();
    let mut reader = writer.reader().unwrap();
    assert_eq!(read(&mut reader, b"late"), Some((long[..2 * CHUNK_BYTES].to_vec(), 9)));
    // A value that was not complete when the process died.
    writer.save(&[Change::Chunk { value_id: 3, number: 0, bytes: &long[..CHUNK_BYTES] }]).unwrap();
    std::fs::copy(dir.0.join("long/0000000000000003"), dir.0.join("long/0000000000000004"))
        .unwrap();
    drop((reader, writer));
    let writer = disk.writer().unwrap();
    until("the file without a key is removed", || files() == 1);
    assert!(writer.reader().unwrap().stat(b"late").unwrap().is_some());
}

#[test]
fn expired_values_are_removed() {
    let dir = TempDir::new("expired");
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    let until_time = |key, expires| Change::Put {
        shard: None,
        key,
        version: 1,
        expires: Some(expires),
        length: 1,
        body: Body::Inline(b"v"),
    };
    let all = [until_time(b"early", 10), until_time(b"late", 20), put(b"always", 1, b"v")];
    writer.save(&all).unwrap();
    let mut reader = writer.reader().unwrap();
    let mut keys = |now| reader.list(b"", b"", (9, 99), now).unwrap().len();
    assert_eq!((keys(9), keys(10), keys(20)), (3, 2, 1), "before anything is removed");
    until("it is removed", || {
        writer.clean_up(10).unwrap();
        keys(0) == 2
    });
    assert_eq!(writer.reader().unwrap().stat(b"early").unwrap(), None);
}

/// A listing has what the index has and what it does not have yet, each key once, in order.
#[test]
fn a_listing_is_complete_while_the_index_is_filled() {
    let dir = TempDir::new("listing");
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    let name = |n: u32| format!("k{n:04}").into_bytes();
    for n in 0..2000_u32 {
        let (new, old) = (name(n), name(n / 2));
        match n % 3 {
            0 => writer.save(&[put(&new, u64::from(n) + 1, b"v"), put(b"other", 1, b"v")]).unwrap(),
            1 => writer.save(&[put(&new, u64::from(n) + 1, b"v")]).unwrap(),
            _ => {
                let gone = deletion(&old, u64::from(n) + 1);
                writer.save(&[put(&new, u64::from(n) + 1, b"v"), gone]).unwrap();
            }
        }
        if n % 97 == 0 {
            let is_there = |key: &u32| {
                // Deleted by the change at twice its number, or at the next one.
                ![key * 2, key * 2 + 1].iter().any(|by| by % 3 == 2 && *by <= n)
            };
            let expected: Vec<Vec<u8>> = (0..=n).filter(is_there).map(name).collect();
            let (mut listed, mut after) = (Vec::new(), Vec::new());
            loop {
                let page = reader.list(b"k", &after, (50, 1 << 20), 0).unwrap();
                let Some((last, _)) = page.last() else { break };
                after = last.to_vec();
                listed.extend(page.into_iter().map(|(key, _)| key.into_vec()));
            }
            assert!(listed == expected, "after {n}: {} of {}", listed.len(), expected.len());
        }
    }
}

/// A reader that keeps its reading of the index never returns an earlier value.
#[test]
fn a_cached_read_is_of_the_last_value() {
    let dir = TempDir::new("cached");
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    let mut read = |key: &[u8]| {
        let mut value = ReadValue::default();
        let cached = reader.read_cached(key, &mut value).unwrap();
        // A file system that cannot tell always waits.
        if cached == CachedRead::Waits {
            value = ReadValue::default();
            reader.read(key, &mut value).unwrap();
        }
        value.metadata.map(|metadata| metadata.version)
    };
    let mut indexed = 0;
    for version in 1..=60 {
        writer.save(&[put(b"k", version, &bytes(4096, 1)), put(b"other", version, b"")]).unwrap();
        assert_eq!(read(b"k"), Some(version));
        // Now and then until the index has it.
        if version % 10 == 0 {
            let deadline = std::time::Instant::now() + Duration::from_secs(60);
            while writer.clean_up(0).unwrap().is_some() && std::time::Instant::now() < deadline {
                assert_eq!(read(b"k"), Some(version));
                std::thread::sleep(Duration::from_millis(20));
            }
            indexed += 1;
            assert_eq!((read(b"k"), read(b"none")), (Some(version), None));
        }
    }
    assert_eq!(indexed, 6);
    writer.save(&[deletion(b"k", 61)]).unwrap();
    assert_eq!(read(b"k"), None);
    // Another use of the same reader.
    assert_eq!(reader.stat(b"k").unwrap(), None);
    assert_eq!(reader.list(b"", b"", (9, 99), 0).unwrap().len(), 1);
}

/// Waits for what another thread does.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_directory_has_one_user_and_a_known_format() {
    let dir = TempDir::new("taken");
    let disk = Disk::open(&dir.0).unwrap();
    drop(disk.writer().unwrap());
    let refused = Disk::open(&dir.0).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InUse);
    assert!(refused.to_string().contains(&std::process::id().to_string()), "{refused}");
    drop(disk);
    let database = dir.0.join("wirelane.db");
    let was = std::fs::read(&database).unwrap();
    let with = |at: usize, byte: u8| {
        let mut changed = was.clone();
        changed[at] = byte;
        std::fs::write(&database, &changed).unwrap();
        let disk = Disk::open(&dir.0).unwrap();
        let error = disk.writer().map(drop).unwrap_err();
        assert_eq!(std::fs::read(&database).unwrap(), changed, "the file is unchanged");
        error
    };
    // The offset of `application_id` in SQLite's header.
    let foreign = with(68, 9);
    assert!(foreign.to_string().contains("another program"), "{foreign}");
    let noise = with(0, 0);
    assert_eq!(noise.kind(), ErrorKind::Damaged, "{noise}");
}

#[test]
fn a_directory_has_an_identity_which_a_backup_does_not_have() {
    let dir = TempDir::new("identity");
    let [data, again] = ["data", "again"].map(|name| dir.0.join(name));
    let store_id = |path: &Path| {
        let disk = Disk::open(path).unwrap();
        disk.writer().map(drop)?;
        Ok::<_, kv_disk::Error>(disk.store_id().unwrap().to_owned())
    };
    let first = store_id(&data).unwrap();
    assert_eq!(store_id(&data).unwrap(), first, "the same after a restart");
    kv_disk::back_up(&data, &dir.0.join("copy"), |_, _| {}).unwrap();
    kv_disk::restore(&dir.0.join("copy"), &again, |_, _| {}).unwrap();
    let restored = store_id(&again).unwrap();
    assert_ne!(restored, first);
    // Restored into what is left of a store.
    for left in ["log", "long"] {
        std::fs::remove_dir_all(again.join(left)).unwrap();
    }
    for left in ["wirelane.db", "wirelane.db-wal", "wirelane.db-shm"] {
        let _ = std::fs::remove_file(again.join(left));
    }
    kv_disk::restore(&dir.0.join("copy"), &again, |_, _| {}).unwrap();
    assert_ne!(store_id(&again).unwrap(), restored);
    let identity = data.join("identity");
    let text = std::fs::read_to_string(&identity).unwrap();
    for bit in 0..text.len() * 8 {
        let mut flipped = text.clone().into_bytes();
        flipped[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&identity, flipped).unwrap();
        let error = store_id(&data).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "bit {bit}: {error}");
    }
    // The values can be reached nevertheless.
    let found = check(&data, |_, _| {}).unwrap().problems;
    assert!(found.len() == 1 && found[0].contains("identity"), "{found:?}");
    kv_disk::back_up(&data, &dir.0.join("rescue"), |_, _| {}).unwrap();
    std::fs::remove_file(&identity).unwrap();
    assert_ne!(store_id(&data).unwrap(), first);
}

/// The checksum is right: it is the format that is not.
#[test]
fn a_directory_of_a_newer_format_is_refused_and_unchanged() {
    let dir = TempDir::new("newer");
    drop(Disk::open(&dir.0).unwrap().writer().unwrap());
    let content = "format 4\nstore 0\n";
    let text = format!("{content}sum {:08x}\n", crc32c::crc32c(content.as_bytes()));
    std::fs::write(dir.0.join("identity"), &text).unwrap();
    let disk = Disk::open(&dir.0).unwrap();
    for error in [disk.writer().map(drop).unwrap_err(), check(&dir.0, |_, _| {}).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("format 4"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(dir.0.join("identity")).unwrap(), text);
}

/// A directory whose index has tables of another version.
fn with_other_index(dir: &TempDir) {
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    for n in 0..1000 {
        writer.save(&[put(format!("k{n}").as_bytes(), n, b"value")]).unwrap();
    }
    writer.save(&[deletion(b"k7", 1001)]).unwrap();
    drop(writer);
    assert!(!disk.has_other_index());
    let database = dir.0.join("wirelane.db");
    let mut index = std::fs::read(&database).unwrap();
    // The offset of `user_version` in SQLite's header.
    index[63] = 9;
    std::fs::write(&database, &index).unwrap();
    assert!(disk.has_other_index());
}

#[test]
fn an_index_of_another_version_is_made_again_from_the_log() {
    let dir = TempDir::new("other-index");
    with_other_index(&dir);
    let refused = check(&dir.0, |_, _| {}).unwrap_err();
    assert!(refused.to_string().contains("version 9"), "not by a reader: {refused}");
    let disk = Disk::open(&dir.0).unwrap();
    let writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    assert_eq!(read(&mut reader, b"k999"), Some((b"value".to_vec(), 999)));
    assert_eq!(read(&mut reader, b"k7"), None);
    drop(writer);
    assert_eq!(check(&dir.0, |_, _| {}).unwrap().sound, 999);
    assert!(!dir.0.join("wirelane.db-other").exists());
}

/// The other version can use it as before.
#[test]
fn an_index_of_another_version_stays_if_the_log_is_damaged() {
    let dir = TempDir::new("other-damaged");
    with_other_index(&dir);
    let before = std::fs::read(dir.0.join("wirelane.db")).unwrap();
    let segment = dir.0.join(log::SEGMENT);
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let refused = Disk::open(&dir.0).unwrap().writer().map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged, "{refused}");
    assert!(std::fs::read(dir.0.join("wirelane.db")).unwrap() == before);
    assert!(!dir.0.join("wirelane.db-other").exists());
}

#[test]
fn a_backup_is_a_snapshot_and_can_be_restored() {
    let dir = TempDir::new("backup");
    let [data, again] = ["data", "again"].map(|name| dir.0.join(name));
    let file = dir.0.join("copy");
    std::fs::create_dir_all(&dir.0).unwrap();
    let disk = Disk::open(&data).unwrap();
    let mut writer = disk.writer().unwrap();
    let value = bytes(100_000, 4);
    assert_eq!(writer.begin_run(3).unwrap(), 3);
    for n in 0..100 {
        writer.save(&[put(format!("k{n}").as_bytes(), n, &value)]).unwrap();
    }
    save_long(&mut writer, b"long", 7, 200, &bytes(3 * CHUNK_BYTES + 1, 8));
    let mut progress = Vec::new();
    kv_disk::back_up(&data, &file, |done, of| {
        // Written during the backup.
        writer.save(&[put(b"later", 1000 + done, &value)]).unwrap();
        progress.push((done, of));
    })
    .unwrap();
    assert!(progress.last().is_some_and(|(done, of)| done == of), "{progress:?}");
    assert_eq!(kv_disk::back_up(&data, &file, |_, _| {}).unwrap_err().kind(), ErrorKind::Refused);
    kv_disk::restore(&file, &again, |_, _| {}).unwrap();
    assert_eq!(kv_disk::restore(&file, &again, |_, _| {}).unwrap_err().kind(), ErrorKind::Refused);
    // SQLite would replay the log of an earlier store.
    let left = dir.0.join("left");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("wirelane.db-wal"), b"old").unwrap();
    let refused = kv_disk::restore(&file, &left, |_, _| {}).unwrap_err();
    assert!(refused.to_string().contains("wirelane.db-wal"), "{refused}");
    let restored = Disk::open(&again).unwrap();
    let mut restored = restored.writer().unwrap();
    let mut reader = restored.reader().unwrap();
    assert!(restored.begin_run(0).unwrap() > 3, "a later run than those of the backup");
    assert_eq!(read(&mut reader, b"long"), Some((bytes(3 * CHUNK_BYTES + 1, 8), 200)));
    assert_eq!(read(&mut reader, b"k99"), Some((value.clone(), 99)));
    assert_eq!(read(&mut reader, b"later"), None);
    assert!(check(&again, |_, _| {}).unwrap().is_sound());
    assert!(has_no_partial_file(&dir.0));
}

/// Also in a directory that all users may read.
#[test]
fn only_the_owner_may_read_the_files() {
    let dir = TempDir::new("rights");
    std::fs::create_dir_all(&dir.0).unwrap();
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    writer.save(&[put(b"k", 1, b"secret")]).unwrap();
    save_long(&mut writer, b"long", 5, 2, &bytes(2 * CHUNK_BYTES, 1));
    kv_disk::back_up(&dir.0, &dir.0.join("copy"), |_, _| {}).unwrap();
    let mut folders = vec![dir.0.clone()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(&folder).unwrap().flatten() {
            let mode = file.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{:?} has {mode:o}", file.path());
            files += 1;
            if file.file_type().unwrap().is_dir() {
                folders.push(file.path());
            }
        }
    }
    assert!(files > 8, "{files}");
}

/// Whether no file of an unfinished copy is left.
fn has_no_partial_file(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.flatten().all(|entry| !entry.file_name().to_string_lossy().ends_with(".part"))
}
