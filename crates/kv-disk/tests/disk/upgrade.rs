//! Directories of earlier formats are upgraded, whatever interrupts it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::Connection;

use super::log::copy_directory;
use super::*;

/// A directory that the 0.1 program wrote.
const FORMAT_1: &str = include_str!("format-1.sql");

fn write_format_1(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    let database = Connection::open(directory.join("wirelane.db")).unwrap();
    database.execute_batch(FORMAT_1).unwrap();
}

/// The same in format 2, which had other names for the tables.
fn write_format_2(directory: &Path) {
    write_format_1(directory);
    let database = Connection::open(directory.join("wirelane.db")).unwrap();
    let rename = "ALTER TABLE pieces RENAME TO chunks; ALTER TABLE kv RENAME COLUMN pieces TO chunks;
                  ALTER TABLE trash RENAME TO unreferenced_chunks; ALTER TABLE runs RENAME COLUMN epoch TO number;
                  PRAGMA user_version = 2;";
    database.execute_batch(rename).unwrap();
}

fn upgrade(directory: &Path) -> Option<kv_disk::Upgraded> {
    Disk::open(directory).unwrap().upgrade(|_, _| {}).unwrap()
}

/// What the 0.1 program acknowledged.
fn assert_values(directory: &Path) {
    let disk = Disk::open(directory).unwrap();
    assert_eq!(disk.earlier_format().unwrap(), None);
    let mut writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    let version = |n: u64| 1_795_035_825 << 32 | n;
    let expected = [
        ("greeting", "hello", 1),
        ("empty", "", 2),
        ("replaced", "second", 4),
        ("expires", "later", 6),
        ("soon", "over", 7),
        ("longer", "short", 12),
    ];
    for (key, value, number) in expected {
        let found = read(&mut reader, key.as_bytes());
        assert_eq!(found, Some((value.as_bytes().to_vec(), version(number))), "{key}");
    }
    assert_eq!(read(&mut reader, b"long"), Some((vec![0; 263_144], version(9))));
    let listed = reader.list(b"", b"", (100, 1000), 0).unwrap();
    assert_eq!(listed.len(), expected.len() + 1);
    let expiring = reader.list(b"", b"", (100, 1000), 1_795_035_828_263).unwrap();
    assert_eq!(expiring.len(), expected.len(), "one expires by then");
    assert!(writer.begin_run(0).unwrap() > 1_795_035_825, "versions increase");
    drop((reader, writer));
    assert!(check(directory, |_, _| {}).unwrap().is_sound());
}

#[test]
fn earlier_formats_are_upgraded_and_the_database_is_kept() {
    type Write = fn(&Path);
    for (format, write) in [(1, write_format_1 as Write), (2, write_format_2)] {
        let dir = TempDir::new(&format!("format-{format}"));
        write(&dir.0);
        let before = std::fs::read(dir.0.join("wirelane.db")).unwrap();
        let refused = Disk::open(&dir.0).unwrap().writer().err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Refused, "not without an upgrade: {refused}");
        assert_eq!(Disk::open(&dir.0).unwrap().earlier_format().unwrap(), Some(format));
        let upgraded = upgrade(&dir.0).unwrap();
        assert_eq!((upgraded.from, upgraded.values, upgraded.damaged.len()), (format, 7, 0));
        assert!(std::fs::read(&upgraded.backup).unwrap() == before, "the backup is the database");
        assert!(upgrade(&dir.0).is_none(), "only once");
        assert_values(&dir.0);
        assert!(!dir.0.join("upgrade").exists());
    }
}

/// Interrupted at each step: what is there then is upgraded again.
#[test]
fn an_interrupted_upgrade_begins_again() {
    let dir = TempDir::new("interrupted");
    let [old, new, left] = ["old", "new", "left"].map(|name| dir.0.join(name));
    write_format_1(&old);
    copy_directory(&old, &new);
    // While values are copied.
    for call in 0..2 {
        copy_directory(&old, &left);
        let disk = Disk::open(&left).unwrap();
        let mut calls = 0;
        let interrupted = catch_unwind(AssertUnwindSafe(|| {
            disk.upgrade(|_, _| {
                assert!(calls < call, "interrupted by this test");
                calls += 1;
            })
        }));
        assert_eq!(interrupted.is_err(), call == 0, "progress is reported once for so few values");
        drop(disk);
        upgrade(&left);
        assert_values(&left);
    }
    assert!(upgrade(&new).is_some());
    // After each rename; the order is that of the upgrade.
    let steps = ["wirelane.format-1.db", "long", "log", "wirelane.db"];
    for done in 0..=steps.len() {
        copy_directory(&old, &left);
        let folder = left.join("upgrade");
        std::fs::create_dir(&folder).unwrap();
        for (number, step) in steps.iter().enumerate() {
            let to = if number < done { left.join(step) } else { folder.join(step) };
            match new.join(step).is_dir() {
                true => copy_directory(&new.join(step), &to),
                false => _ = std::fs::copy(new.join(step), to).unwrap(),
            }
        }
        assert_eq!(upgrade(&left).is_some(), done < steps.len(), "{done} steps were done");
        assert_values(&left);
        assert!(!folder.exists());
    }
}

/// A flipped bit makes it look like an index, which could be made again: but there is no log.
#[test]
fn an_earlier_format_with_a_damaged_number_is_refused_and_unchanged() {
    let dir = TempDir::new("format-number");
    write_format_1(&dir.0);
    let database = dir.0.join("wirelane.db");
    let before = std::fs::read(&database).unwrap();
    for bit in 0..32 {
        let mut flipped = before.clone();
        // The offset of `user_version` in SQLite's header.
        flipped[60 + bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&database, &flipped).unwrap();
        let disk = Disk::open(&dir.0).unwrap();
        // Formats 1 and 3 differ by one bit of 2; whatever else it is, it is refused.
        assert_eq!(disk.earlier_format().unwrap(), None, "bit {bit}");
        let error = disk.writer().map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "bit {bit}: {error}");
        assert!(std::fs::read(&database).unwrap() == flipped, "bit {bit}: the values are gone");
    }
}

/// A damaged value stays one; the others are not affected.
#[test]
fn damage_in_an_earlier_format_is_not_hidden() {
    let dir = TempDir::new("format-damaged");
    write_format_1(&dir.0);
    let database = Connection::open(dir.0.join("wirelane.db")).unwrap();
    database.execute_batch("UPDATE kv SET value = X'00' WHERE key = X'6772656574696E67'").unwrap();
    database.execute_batch("UPDATE pieces SET bytes = zeroblob(999) WHERE id = 2").unwrap();
    drop(database);
    let mut damaged = upgrade(&dir.0).unwrap().damaged;
    damaged.sort();
    assert_eq!(damaged, [Box::from(&b"greeting"[..]), Box::from(&b"long"[..])]);
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    let mut reader = writer.reader().unwrap();
    for key in damaged {
        let error = reader.read(&key, &mut ReadValue::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        writer.save(&[put(&key, u64::MAX >> 2, b"again")]).unwrap();
        assert!(read(&mut reader, &key).is_some());
    }
    assert!(read(&mut reader, b"replaced").is_some());
}
