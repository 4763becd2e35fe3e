//! The log: what a crash leaves, how the index is made anew from it, and how its space is freed.

use std::path::Path;

use super::*;

/// Copies a directory as it is while a store writes to it: what a killed process leaves.
pub(crate) fn copy_directory(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let path = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_directory(&entry.path(), &path),
            false => _ = std::fs::copy(entry.path(), path).unwrap(),
        }
    }
}

/// The first and only segment.
pub(crate) const SEGMENT: &str = "log/00000001.log";

/// A log as a killed process leaves it, with an index that has none of it, or only its beginning.
#[test]
fn a_damaged_log_is_refused_and_a_truncated_one_is_not() {
    const BATCHES: u64 = 40;
    let dir = TempDir::new("log");
    let [first, early, left] = ["first", "early", "left"].map(|name| dir.0.join(name));
    let name = |n: u64| n.to_be_bytes();
    let disk = Disk::open(&first).unwrap();
    let mut writer = disk.writer().unwrap();
    for n in 0..10 {
        writer.save(&[put(b"before", n, &bytes(9000, 3))]).unwrap();
    }
    drop(writer);
    // The index has the log up to here.
    copy_directory(&first, &early);
    let start = std::fs::metadata(first.join(SEGMENT)).unwrap().len() as usize;
    let mut writer = disk.writer().unwrap();
    let mut ends = vec![start];
    for n in 0..BATCHES {
        let value = bytes(9000, n as usize);
        writer.save(&[put(&name(n), n, &value), put(b"same", n, &value[..500])]).unwrap();
        ends.push(ends[n as usize] + 64 + 8 + 9000 + 64 + 4 + 500);
    }
    drop(writer);
    let log = std::fs::read(first.join(SEGMENT)).unwrap();
    assert_eq!(Some(&log.len()), ends.last());
    let leave = |log: &[u8]| {
        copy_directory(&early, &left);
        std::fs::write(left.join(SEGMENT), log).unwrap();
        Disk::open(&left).unwrap()
    };
    let kept = |writer: &kv_disk::Writer| {
        let mut reader = writer.reader().unwrap();
        let is_there = |n: &u64| match read(&mut reader, &name(*n)) {
            Some((value, version)) => {
                assert!(value == bytes(9000, *n as usize) && version == *n);
                true
            }
            None => false,
        };
        (0..BATCHES).take_while(is_there).count()
    };
    let flipped = |at: usize| {
        let mut log = log.clone();
        log[at] ^= 1;
        log
    };
    // Truncated anywhere, as after a power loss, also before space that was allocated: complete batches are there.
    for cut in (start..log.len()).step_by(9973) {
        for allocated in [0, 100_000] {
            let mut log = log[..cut].to_vec();
            log.resize(cut + allocated, 0);
            let disk = leave(&log);
            let mut writer = disk.writer().unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            let complete = ends[1..].iter().filter(|end| **end <= cut).count();
            assert_eq!(kept(&writer), complete, "cut at {cut}");
            // It goes on after them.
            writer.save(&[put(b"later", 1000, b"written")]).unwrap();
            drop(writer);
            let writer = disk.writer().unwrap();
            assert_eq!(kept(&writer), complete);
            assert!(read(&mut writer.reader().unwrap(), b"later").is_some());
        }
    }
    // The last batch may never have been acknowledged.
    let last = ends[BATCHES as usize - 1];
    for at in (last..log.len()).step_by(1201) {
        let disk = leave(&flipped(at));
        let writer = disk.writer().unwrap_or_else(|error| panic!("changed at {at}: {error}"));
        assert_eq!(kept(&writer), BATCHES as usize - 1, "changed at {at}");
    }
    // A value that is damaged affects its key; a record that is damaged would hide a key.
    let (mut refused, mut damaged) = (0, 0);
    for at in (start..last).step_by(4507).chain((ends[3]..ends[3] + 72).step_by(5)) {
        let disk = leave(&flipped(at));
        match disk.writer() {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                assert!(error.to_string().contains("wirelane kv backup"), "{error}");
                assert!(std::fs::read(left.join(SEGMENT)).unwrap() == flipped(at), "unchanged");
                refused += 1;
            }
            Ok(writer) => {
                let mut reader = writer.reader().unwrap();
                for n in 0..BATCHES {
                    let mut value = ReadValue::default();
                    match reader.read(&name(n), &mut value) {
                        Ok(found) => {
                            assert_eq!(found, Some(true), "changed at {at}");
                            assert!(value.bytes == bytes(9000, n as usize), "changed at {at}");
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                            damaged += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(refused >= 15 && damaged > 40, "{refused} refused, {damaged} damaged");
    // A backup saves what can still be read.
    let disk = leave(&flipped(ends[20] + 10));
    assert_eq!(disk.writer().err().unwrap().kind(), ErrorKind::Damaged);
    drop(disk);
    let [file, again] = ["copy", "again"].map(|name| dir.0.join(name));
    assert!(!check(&left, |_, _| {}).unwrap().is_sound());
    kv_disk::back_up(&left, &file, |_, _| {}).unwrap();
    kv_disk::restore(&file, &again, |_, _| {}).unwrap();
    assert_eq!(kept(&Disk::open(&again).unwrap().writer().unwrap()), 20);
    // A segment that the index has not seen is gone, or all of them.
    leave(&log);
    std::fs::remove_file(left.join(SEGMENT)).unwrap();
    let error = Disk::open(&left).unwrap().writer().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

/// The keys that `churn` writes.
const KEYS: u64 = 120;

/// Puts and deletes keys at random; `expected` is what there is.
fn churn(
    writer: &mut kv_disk::Writer,
    seed: u64,
    changes: u64,
    expected: &mut BTreeMap<Vec<u8>, (u64, usize)>,
) {
    let mut random = seed;
    for change in 1..=changes {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = format!("key{}", (random >> 33) % KEYS).into_bytes();
        let version = seed << 32 | change;
        if (random >> 20).is_multiple_of(4) {
            writer.save(&[deletion(&key, version)]).unwrap();
            expected.remove(&key);
        } else {
            let length = (random >> 40) as usize % 3000;
            writer.save(&[put(&key, version, &bytes(length, change as usize))]).unwrap();
            expected.insert(key, (version, length));
        }
        if change % 50 == 0 {
            writer.clean_up(0).unwrap();
        }
    }
}

fn assert_content(writer: &kv_disk::Writer, expected: &BTreeMap<Vec<u8>, (u64, usize)>) {
    let mut reader = writer.reader().unwrap();
    for n in 0..KEYS {
        let key = format!("key{n}").into_bytes();
        let found = read(&mut reader, &key).map(|(value, version)| {
            assert!(value == bytes(value.len(), (version & 0xffff_ffff) as usize));
            (version, value.len())
        });
        assert_eq!(found, expected.get(&key).copied(), "key{n}");
    }
    let listed = reader.list(b"", b"", (1000, 1 << 20), 0).unwrap();
    assert_eq!(listed.len(), expected.len());
}

#[test]
fn space_is_freed_and_the_index_is_made_anew_from_the_log() {
    let dir = TempDir::new("compaction");
    let [data, anew] = ["data", "anew"].map(|name| dir.0.join(name));
    let segments = |path: &Path| std::fs::read_dir(path.join("log")).unwrap().count();
    let mut expected = BTreeMap::new();
    for run in 1..=3 {
        let disk = Disk::open(&data).unwrap();
        let mut writer = disk.writer().unwrap();
        writer.set_segment_bytes(32 << 10);
        // Values that are never replaced, so that segments are not simply empty.
        let kept = format!("kept{run}").into_bytes();
        writer.save(&[put(&kept, 1, b"kept")]).unwrap();
        churn(&mut writer, run, 1200, &mut expected);
        let mut with_kept = expected.clone();
        for run in 1..=run {
            with_kept.insert(format!("kept{run}").into_bytes(), (1, 4));
        }
        // 1.4 MB are written in each run, of which some 150 kB are needed.
        until("most segments are removed", || {
            writer.clean_up(0).unwrap();
            segments(&data) < 16
        });
        let mut reader = writer.reader().unwrap();
        assert_eq!(read(&mut reader, &kept), Some((b"kept".to_vec(), 1)));
        let listed = reader.list(b"", b"", (1000, 1 << 20), 0).unwrap();
        assert_eq!(listed.len(), with_kept.len());
        for (key, (version, length)) in &expected {
            let found = read(&mut reader, key).map(|(value, version)| (version, value.len()));
            assert_eq!(found, Some((*version, *length)));
        }
        // As after a kill, and without the index: deleted keys must not return. Until the index has everything, so that no file
        // changes while it is copied.
        until("the index has everything", || writer.clean_up(0).unwrap().is_none());
        std::thread::sleep(Duration::from_secs(1));
        copy_directory(&data, &anew);
        drop((reader, writer));
        for without_index in [false, true] {
            if without_index {
                for file in ["wirelane.db", "wirelane.db-wal", "wirelane.db-shm"] {
                    let _ = std::fs::remove_file(anew.join(file));
                }
            }
            let disk = Disk::open(&anew).unwrap();
            let mut writer = disk.writer().unwrap();
            let mut reader = writer.reader().unwrap();
            for run in 1..=run {
                let kept = format!("kept{run}").into_bytes();
                assert_eq!(read(&mut reader, &kept), Some((b"kept".to_vec(), 1)));
            }
            let gone: Vec<_> = (1..=run).map(|run| format!("kept{run}").into_bytes()).collect();
            let gone: Vec<_> = gone.iter().map(|key| deletion(key, u64::MAX >> 2)).collect();
            writer.save(&gone).unwrap();
            assert_content(&writer, &expected);
            drop((reader, writer));
            if !without_index {
                copy_directory(&data, &anew);
            }
            assert!(check(&anew, |_, _| {}).unwrap().is_sound());
        }
    }
}

/// A backup reads files that the store would remove meanwhile.
#[test]
fn files_that_a_backup_reads_are_not_removed() {
    let dir = TempDir::new("busy");
    let [data, again] = ["data", "again"].map(|name| dir.0.join(name));
    let disk = Disk::open(&data).unwrap();
    let mut writer = disk.writer().unwrap();
    writer.set_segment_bytes(64 << 10);
    let name = |n: u64| format!("k{n}").into_bytes();
    for n in 0..100 {
        writer.save(&[put(&name(n), n, &bytes(5000, n as usize))]).unwrap();
    }
    save_long(&mut writer, b"long", 7, 7, &bytes(2 * CHUNK_BYTES, 7));
    let mut round = 0;
    kv_disk::back_up(&data, &dir.0.join("copy"), |_, _| {
        round += 1;
        let n = round % 100;
        writer
            .save(&[put(&name(n), 1000 + round, b"newer"), put(b"long", 1000 + round, b"")])
            .unwrap();
        writer.clean_up(0).unwrap();
    })
    .unwrap();
    kv_disk::restore(&dir.0.join("copy"), &again, |_, _| {}).unwrap();
    let restored = Disk::open(&again).unwrap();
    let restored = restored.writer().unwrap();
    let mut reader = restored.reader().unwrap();
    for n in 0..100 {
        assert_eq!(read(&mut reader, &name(n)), Some((bytes(5000, n as usize), n)));
    }
    assert_eq!(read(&mut reader, b"long"), Some((bytes(2 * CHUNK_BYTES, 7), 7)));
    until("the files are removed afterwards", || {
        writer.clean_up(0).unwrap();
        std::fs::read_dir(data.join("log")).unwrap().count() < 4
            && std::fs::read_dir(data.join("long")).unwrap().count() == 0
    });
}

/// Records of deletions are needed as long as an older segment may have their keys: they must not be copied again and again.
#[test]
fn deletions_do_not_keep_a_compaction_busy() {
    let dir = TempDir::new("deletions");
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    writer.set_segment_bytes(16 << 10);
    // The first segment is needed as a whole.
    let cold = |n: u64| format!("cold{n}").into_bytes();
    for n in 0..5 {
        writer.save(&[put(&cold(n), n + 1, &bytes(3000, n as usize))]).unwrap();
    }
    save_long(&mut writer, b"long", 3, 9, &bytes(2 * CHUNK_BYTES, 4));
    for n in 0..1000_u64 {
        let key = format!("short-lived {}", n % 300).into_bytes();
        writer.save(&[put(&key, 100 + 2 * n, b"v")]).unwrap();
        writer.save(&[deletion(&key, 101 + 2 * n)]).unwrap();
    }
    let mut steps = 0;
    until("there is nothing more to do", || {
        steps += 1;
        writer.clean_up(0).unwrap().is_none()
    });
    assert!(disk.log_bytes() < 200 << 10, "{} bytes", disk.log_bytes());
    drop(writer);
    for file in ["wirelane.db", "wirelane.db-wal", "wirelane.db-shm"] {
        let _ = std::fs::remove_file(dir.0.join(file));
    }
    let writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    for n in 0..5 {
        assert_eq!(read(&mut reader, &cold(n)), Some((bytes(3000, n as usize), n + 1)));
    }
    assert_eq!(read(&mut reader, b"long"), Some((bytes(2 * CHUNK_BYTES, 4), 9)));
    assert_eq!(reader.list(b"", b"", (1000, 1 << 20), 0).unwrap().len(), 6);
}

/// A backup has all but what is damaged, and says what that is.
#[test]
fn a_backup_leaves_out_damaged_values() {
    let dir = TempDir::new("backup-damaged");
    let [data, file, again] = ["data", "copy", "again"].map(|name| dir.0.join(name));
    let disk = Disk::open(&data).unwrap();
    let mut writer = disk.writer().unwrap();
    writer
        .save(&[put(b"damaged", 1, &bytes(3000, 1)), put(b"intact", 2, &bytes(3000, 2))])
        .unwrap();
    save_long(&mut writer, b"long", 7, 3, &bytes(3 * CHUNK_BYTES, 3));
    save_long(&mut writer, b"long too", 8, 4, &bytes(2 * CHUNK_BYTES, 4));
    drop(writer);
    for (file, at) in [(SEGMENT, 2000), ("long/0000000000000007", 2 * CHUNK_BYTES)] {
        let mut changed = std::fs::read(data.join(file)).unwrap();
        changed[at] ^= 1;
        std::fs::write(data.join(file), changed).unwrap();
    }
    let damaged = kv_disk::back_up(&data, &file, |_, _| {}).unwrap();
    assert_eq!(damaged, [Box::from(&b"damaged"[..]), Box::from(&b"long"[..])]);
    kv_disk::restore(&file, &again, |_, _| {}).unwrap();
    let restored = Disk::open(&again).unwrap();
    let writer = restored.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    assert_eq!(read(&mut reader, b"intact"), Some((bytes(3000, 2), 2)));
    assert_eq!(read(&mut reader, b"long too"), Some((bytes(2 * CHUNK_BYTES, 4), 4)));
    assert_eq!(reader.list(b"", b"", (9, 99), 0).unwrap().len(), 2);
}
