//! Saved values are read back, and damage is detected.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kv_disk::{
    Body, CHUNK_BYTES, Change, Disk, DiskReader, DiskWriter, ErrorKind, Metadata, Reader, Sink,
    check,
};

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
    Change::Put { key, version, expires, length, body: Body::Inline(value) }
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| ((at ^ seed) * 31 % 251) as u8).collect()
}

fn save_long(writer: &mut dyn DiskWriter, key: &[u8], owner: u64, version: u64, value: &[u8]) {
    for (number, chunk) in value.chunks(CHUNK_BYTES).enumerate() {
        writer.save(&[Change::Chunk { owner, number: number as u32, bytes: chunk }]).unwrap();
    }
    let (expires, length) = (None, value.len() as u64);
    let body = Body::Chunks(owner);
    writer.save(&[Change::Put { key, version, expires, length, body }]).unwrap();
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
        writer.save(&[Change::Delete { key: b"gone" }, put(b"a", 4, b"newer")]).unwrap();
        save_long(&mut writer, b"long", 50, 5, &long);
        let mut reader = disk.reader().unwrap();
        assert_eq!(read(&mut reader, b"a"), Some((b"newer".to_vec(), 4)), "read by the same run");
        epoch
    };
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    assert_eq!((first, writer.begin_run(7).unwrap()), (7, 8), "each run has its own number");
    let mut reader = disk.reader().unwrap();
    assert_eq!(read(&mut reader, b"a"), Some((b"newer".to_vec(), 4)));
    assert_eq!(read(&mut reader, b"empty"), Some((Vec::new(), 2)));
    assert_eq!(read(&mut reader, b"gone"), None);
    assert_eq!(read(&mut reader, b"long"), Some((long, 5)));
    assert_eq!(writer.row_info(b"long").unwrap().map(|info| info.in_chunks), Some(true));
    let listed = reader.list(b"", b"", (10, 1000), 0).unwrap();
    let keys: Vec<&[u8]> = listed.iter().map(|(key, _)| &key[..]).collect();
    assert_eq!(keys, [&b"a"[..], b"empty", b"long"]);
    let listed = reader.list(b"", b"a", (1, 1000), 0).unwrap();
    assert_eq!((listed.len(), &listed[0].0[..]), (1, &b"empty"[..]), "the next page");
    assert!(check(&dir.0, |_, _| {}).unwrap().is_sound());
}

#[test]
fn unused_chunks_are_removed_and_staged_ones_stay() {
    let dir = TempDir::new("chunks");
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    let long = bytes(100 * CHUNK_BYTES, 3);
    save_long(&mut writer, b"k", 1, 1, &long);
    writer.save(&[Change::Chunk { owner: 2, number: 0, bytes: &long[..CHUNK_BYTES] }]).unwrap();
    writer.save(&[Change::Delete { key: b"k" }]).unwrap();
    while writer.clean_up(0).unwrap() == Some(Duration::ZERO) {}
    save_long(&mut writer, b"other", 3, 3, &long[..2 * CHUNK_BYTES]);
    // The value whose first chunk was saved before the clean-ups.
    writer
        .save(&[Change::Chunk { owner: 2, number: 1, bytes: &long[CHUNK_BYTES..2 * CHUNK_BYTES] }])
        .unwrap();
    let (length, body) = (2 * CHUNK_BYTES as u64, Body::Chunks(2));
    writer.save(&[Change::Put { key: b"late", version: 9, expires: None, length, body }]).unwrap();
    while writer.clean_up(0).unwrap() == Some(Duration::ZERO) {}
    let mut reader = disk.reader().unwrap();
    assert_eq!(read(&mut reader, b"late"), Some((long[..2 * CHUNK_BYTES].to_vec(), 9)));
    assert_eq!(read(&mut reader, b"other"), Some((long[..2 * CHUNK_BYTES].to_vec(), 3)));
    // The freed space is reused.
    let before = disk.bytes();
    save_long(&mut writer, b"again", 4, 10, &long[..90 * CHUNK_BYTES]);
    drop((reader, writer));
    assert!(disk.bytes() <= before, "{} bytes, {before} before", disk.bytes());
}

#[test]
fn expired_values_are_removed() {
    let dir = TempDir::new("expired");
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    let until = |key, expires| Change::Put {
        key,
        version: 1,
        expires: Some(expires),
        length: 1,
        body: Body::Inline(b"v"),
    };
    writer.save(&[until(b"early", 10), until(b"late", 20), put(b"always", 1, b"v")]).unwrap();
    let keys = |now| disk.reader().unwrap().list(b"", b"", (9, 99), now).unwrap().len();
    assert_eq!((keys(9), keys(10), keys(20)), (3, 2, 1), "before anything is removed");
    while writer.clean_up(10).unwrap() == Some(Duration::ZERO) {}
    assert_eq!(keys(0), 2);
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
    // The offsets of `user_version` and `application_id` in SQLite's header.
    let newer = with(63, 9);
    assert_eq!(newer.kind(), ErrorKind::Refused);
    assert!(newer.to_string().contains("format 9"), "{newer}");
    let foreign = with(68, 9);
    assert!(foreign.to_string().contains("another program"), "{foreign}");
    let noise = with(0, 0);
    assert_eq!(noise.kind(), ErrorKind::Damaged, "{noise}");
}

/// Flips bytes all over the file: each value is read as written, or is an error; the rest still works.
#[test]
fn damage_affects_only_damaged_values_and_is_never_returned() {
    let dir = TempDir::new("damaged");
    let value = |n: usize| bytes(3000 + n, n);
    let names: Vec<Vec<u8>> = (0..200).map(|n| format!("key{n}").into_bytes()).collect();
    {
        let disk = Disk::open(&dir.0).unwrap();
        let mut writer = disk.writer().unwrap();
        for (n, name) in names.iter().enumerate() {
            writer.save(&[put(name, 1, &value(n))]).unwrap();
        }
        save_long(&mut writer, b"long", 7, 1, &bytes(4 * CHUNK_BYTES, 9));
    }
    let database = dir.0.join("wirelane.db");
    let was = std::fs::read(&database).unwrap();
    let (mut found, mut refused, mut written) = (0, 0, 0);
    for round in 0..60_usize {
        let mut changed = was.clone();
        // Not the first page, which has the file's header.
        let at = 4096 + (round * 7_919_317) % (was.len() - 4096);
        changed[at] ^= 0x40;
        std::fs::write(&database, &changed).unwrap();
        let disk = Disk::open(&dir.0).unwrap();
        let (mut reader, mut right) = (disk.reader().unwrap(), 0);
        for (n, name) in names.iter().enumerate() {
            let mut read = ReadValue::default();
            match reader.read(name, &mut read) {
                Ok(Some(_)) => {
                    assert!(read.bytes == value(n), "round {round}: a damaged value was returned");
                    right += 1;
                }
                Ok(None) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "{error}"),
            }
        }
        let checked = check(&dir.0, |_, _| {}).unwrap();
        found += usize::from(!checked.is_sound());
        refused += 200 - right;
        drop(reader);
        let mut writer = disk.writer().unwrap();
        // New keys are written, unless their path in the tree is damaged.
        let new = |n: usize| writer.save(&[put(&bytes(20, n), 1, b"still written")]).is_ok();
        written += (0..20).map(new).filter(|written| *written).count();
    }
    // The other flips hit unused bytes.
    assert!(found >= 30, "only {found} of 60 were detected");
    assert!(written > 60 * 18, "only {written} of 1200 were written");
    assert!(refused < 60 * 20, "one byte damages {} of 200 values", refused / 60);
}

/// A log as a killed process leaves it: SQLite itself would treat any damage in it as its end.
#[test]
fn a_damaged_log_is_refused_and_a_truncated_one_is_not() {
    const KEYS: u64 = 40;
    let dir = TempDir::new("log");
    std::fs::create_dir_all(&dir.0).unwrap();
    let disk = Disk::open(&dir.0.join("first")).unwrap();
    let mut writer = disk.writer().unwrap();
    let name = |n: u64| n.to_be_bytes();
    // Overwrites the frames of the table creation, so that every later commit extends the file.
    for n in 0..20 {
        writer.save(&[put(b"before", n, &bytes(9000, 3))]).unwrap();
    }
    let mut ends = Vec::new();
    for n in 0..KEYS {
        writer.save(&[put(&name(n), n, &bytes(9000, n as usize))]).unwrap();
        ends.push(std::fs::metadata(disk.path().join("wirelane.db-wal")).unwrap().len() as usize);
    }
    let [database, log] = ["wirelane.db", "wirelane.db-wal"]
        .map(|file| std::fs::read(disk.path().join(file)).unwrap());
    let left = dir.0.join("left");
    let leave = |database: &[u8], log: &[u8]| {
        let _ = std::fs::remove_dir_all(&left);
        let disk = Disk::open(&left).unwrap();
        std::fs::write(left.join("wirelane.db"), database).unwrap();
        std::fs::write(left.join("wirelane.db-wal"), log).unwrap();
        disk
    };
    let kept = |disk: &Disk| {
        let mut reader = disk.reader().unwrap();
        (0..KEYS).take_while(|n| read(&mut reader, &name(*n)).is_some()).count()
    };
    let flipped = |at: usize| {
        let mut log = log.clone();
        log[at] ^= 1;
        log
    };
    // Truncated anywhere, as after a power loss: complete commits are there.
    for cut in (0..log.len()).step_by(7919) {
        let disk = leave(&database, &log[..cut]);
        drop(disk.writer().unwrap_or_else(|error| panic!("cut at {cut}: {error}")));
        assert_eq!(kept(&disk), ends.iter().filter(|end| **end <= cut).count(), "cut at {cut}");
    }
    // The last commit may never have been acknowledged.
    let last = ends[ends.len() - 2];
    for at in (last..log.len()).step_by(509) {
        let disk = leave(&database, &flipped(at));
        drop(disk.writer().unwrap_or_else(|error| panic!("changed at {at}: {error}")));
        assert_eq!(kept(&disk), KEYS as usize - 1);
    }
    for at in (0..last).step_by(4999) {
        let disk = leave(&database, &flipped(at));
        let error = disk.writer().err().unwrap_or_else(|| panic!("changed at {at}: not detected"));
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(error.to_string().contains("wirelane kv backup"), "{error}");
        assert_eq!(std::fs::read(left.join("wirelane.db-wal")).unwrap(), flipped(at), "unchanged");
    }
    assert_eq!(leave(&[], &log).writer().err().unwrap().kind(), ErrorKind::Damaged, "no database");
    // A backup saves what can still be read.
    let middle = ends[19] + 100;
    let disk = leave(&database, &flipped(middle));
    assert_eq!(disk.writer().err().unwrap().kind(), ErrorKind::Damaged);
    drop(disk);
    let [file, again] = ["copy", "again"].map(|name| dir.0.join(name));
    kv_disk::back_up(&left, &file, |_, _| {}).unwrap();
    kv_disk::restore(&file, &again, |_, _| {}).unwrap();
    assert_eq!(kept(&Disk::open(&again).unwrap()), 20);
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
    for n in 0..100 {
        writer.save(&[put(format!("k{n}").as_bytes(), n, &value)]).unwrap();
    }
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
    let mut reader = Disk::open(&again).unwrap().reader().unwrap();
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
    kv_disk::back_up(&dir.0, &dir.0.join("copy"), |_, _| {}).unwrap();
    for file in std::fs::read_dir(&dir.0).unwrap().flatten() {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?} has {mode:o}", file.file_name());
    }
}

fn has_no_partial_file(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.flatten().all(|entry| !entry.file_name().to_string_lossy().ends_with(".part"))
}
