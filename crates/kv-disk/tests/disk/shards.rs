//! The changes of a shard, in order: what a copy of it needs that missed some.

use kv_disk::{Body, Change, Disk, DiskWriter, KeyState, Reader, RemovalCause, Shard, Writer};

use crate::{TempDir, bytes, read, until};

type Changes = Vec<(Vec<u8>, KeyState)>;

fn put(shard: Shard, key: &[u8], version: u64, value: &[u8], writer: &mut Writer) {
    let (expires, length, body) = (None, value.len() as u64, Body::Inline(value));
    let shard = Some(shard);
    writer.save(&[Change::Put { shard, key, version, expires, length, body }]).unwrap();
}

fn remove(shard: Shard, key: &[u8], version: u64, cause: RemovalCause, writer: &mut Writer) {
    writer.save(&[Change::Remove { shard: Some(shard), key, version, cause }]).unwrap();
}

/// All pages of this many changes.
fn since(reader: &mut Reader, shard: Shard, version: u64, page: usize) -> Changes {
    let (mut all, mut after) = (Changes::new(), version);
    loop {
        let changes = reader.changes_since(shard, after, page).unwrap();
        assert!(changes.len() <= page);
        let Some((_, last)) = changes.last() else { return all };
        after = last.version();
        all.extend(changes.into_iter().map(|(key, state)| (key.into(), state)));
    }
}

fn versions(changes: &Changes) -> Vec<u64> {
    changes.iter().map(|(_, state)| state.version()).collect()
}

/// Whether the index has them or not: the first check is before it has, the second after.
#[test]
fn a_shard_yields_its_changes_since_a_version_in_order() {
    let dir = TempDir::new("shard-changes");
    let first = {
        let disk = Disk::open(&dir.0).unwrap();
        let mut writer = disk.writer().unwrap();
        let mut reader = writer.reader().unwrap();
        for n in 0..100 {
            put(1, format!("a{n}").as_bytes(), 1000 + 2 * n, b"one", &mut writer);
            put(2, format!("b{n}").as_bytes(), 1001 + 2 * n, b"two", &mut writer);
        }
        put(1, b"a5", 1300, b"again", &mut writer);
        remove(1, b"a7", 1301, RemovalCause::Deletion, &mut writer);
        remove(1, b"a8", 1302, RemovalCause::Eviction, &mut writer);
        remove(1, b"a9", 1303, RemovalCause::Deletion, &mut writer);
        put(1, b"a9", 1304, b"back", &mut writer);
        let all = since(&mut reader, 1, 0, 7);
        let mut expected: Vec<u64> = (0..100).map(|n| 1000 + 2 * n).collect();
        expected.retain(|version| ![1010, 1014, 1016, 1018].contains(version));
        expected.extend([1300, 1301, 1302, 1304]);
        assert_eq!(versions(&all), expected);
        assert_eq!(versions(&since(&mut reader, 1, 1299, 1)), [1300, 1301, 1302, 1304]);
        let (deleted, evicted) = (&all[all.len() - 3], &all[all.len() - 2]);
        let removed = |version, cause| KeyState::Removed { version, cause };
        assert_eq!(*deleted, (b"a7".to_vec(), removed(1301, RemovalCause::Deletion)));
        assert_eq!(*evicted, (b"a8".to_vec(), removed(1302, RemovalCause::Eviction)));
        assert_eq!(since(&mut reader, 2, 0, 1000).len(), 100, "the other shard");
        assert_eq!(since(&mut reader, 3, 0, 1000), []);
        all
    };
    let disk = Disk::open(&dir.0).unwrap();
    let writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    for page in [1, 7, 1000] {
        assert_eq!(since(&mut reader, 1, 0, page), first, "from the index, pages of {page}");
    }
    assert_eq!(read(&mut reader, b"a7"), None);
}

/// An earlier removal of the same key must not follow the last one in the log, and compaction comes to an end.
#[test]
fn only_the_last_removal_of_a_key_is_kept() {
    let dir = TempDir::new("shard-last-removal");
    let value = bytes(1000, 5);
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    writer.set_segment_bytes(16 << 10);
    // The first segment stays in use.
    for n in 0..15 {
        put(3, format!("first{n}").as_bytes(), n + 1, &value, &mut writer);
    }
    let mut version = 100;
    for round in 0..30 {
        for key in 0..5 {
            let key = format!("k{key}");
            put(1, key.as_bytes(), version, &value, &mut writer);
            remove(1, key.as_bytes(), version + 1, RemovalCause::Deletion, &mut writer);
            version += 2;
        }
        // So does each of the others.
        put(3, format!("kept{round}").as_bytes(), version, &value, &mut writer);
        version += 1;
        put(2, b"replaced", version, &bytes(9000, 6), &mut writer);
        version += 1;
    }
    let mut reader = writer.reader().unwrap();
    let expected = versions(&since(&mut reader, 1, 0, 100));
    assert_eq!(expected.len(), 5);
    until("compaction ends", || {
        writer.clean_up(0).unwrap().is_none_or(|pause| pause.as_secs() >= 1)
    });
    assert_eq!(versions(&since(&mut reader, 1, 0, 100)), expected);
    drop((reader, writer));
    for name in ["wirelane.db", "wirelane.db-wal", "wirelane.db-shm"] {
        let _ = std::fs::remove_file(dir.0.join(name));
    }
    let writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    assert_eq!(versions(&since(&mut reader, 1, 0, 100)), expected, "by the log alone");
    assert_eq!(since(&mut reader, 3, 0, 100).len(), 45);
}

#[test]
fn versions_keep_their_order_over_all_64_bits() {
    let dir = TempDir::new("shard-versions");
    let all = [1, (1 << 63) - 1, 1 << 63, u64::MAX - 1];
    for run in 0..2 {
        let disk = Disk::open(&dir.0).unwrap();
        let mut writer = disk.writer().unwrap();
        for version in all.iter().filter(|_| run == 0) {
            put(1, &version.to_le_bytes(), *version, b"value", &mut writer);
        }
        let mut reader = writer.reader().unwrap();
        assert_eq!(versions(&since(&mut reader, 1, 0, 2)), all, "run {run}");
        assert_eq!(versions(&since(&mut reader, 1, 1 << 63, 2)), [u64::MAX - 1]);
    }
}

/// Also when the segments they are in are compacted, and when the index is lost.
#[test]
fn removals_are_kept_until_they_are_forgotten() {
    let dir = TempDir::new("shard-removals");
    let value = bytes(1000, 3);
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    writer.set_segment_bytes(64 << 10);
    for n in 0..50 {
        put(1, format!("gone{n}").as_bytes(), n + 1, &value, &mut writer);
    }
    // Each of the segments that follow has some removals, and values that are replaced.
    let mut version = 1000;
    for n in 0..50 {
        remove(1, format!("gone{n}").as_bytes(), 100 + n, RemovalCause::Deletion, &mut writer);
        for k in 0..20 {
            version += 1;
            put(2, format!("k{k}").as_bytes(), version, &value, &mut writer);
        }
    }
    let expected: Vec<u64> = (100..150).collect();
    let mut reader = writer.reader().unwrap();
    until("most of the segments with removals are compacted", || {
        writer.clean_up(0).unwrap();
        std::fs::read_dir(dir.0.join("log")).unwrap().count() < 8
    });
    assert_eq!(versions(&since(&mut reader, 1, 0, 1000)), expected);
    drop((reader, writer));
    for name in ["wirelane.db", "wirelane.db-wal", "wirelane.db-shm"] {
        let _ = std::fs::remove_file(dir.0.join(name));
    }
    let mut writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    assert_eq!(versions(&since(&mut reader, 1, 0, 1000)), expected, "by the log alone");
    writer.forget_removals(1, 120);
    drop((reader, writer));
    let mut writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    let left: Vec<u64> = (121..150).collect();
    assert_eq!(versions(&since(&mut reader, 1, 0, 1000)), left);
    put(1, b"gone49", 5000, b"back", &mut writer);
    drop((reader, writer));
    let writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    let left: Vec<u64> = (121..149).chain([5000]).collect();
    assert_eq!(versions(&since(&mut reader, 1, 0, 1000)), left);
    assert_eq!(read(&mut reader, b"gone49"), Some((b"back".to_vec(), 5000)));
}
