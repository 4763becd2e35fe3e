//! Bits that flip on the disk: each value is read as written, or is an error; the rest still works.

use super::log::{SEGMENT, copy_directory};
use super::*;

#[test]
fn damage_affects_only_damaged_values_and_is_never_returned() {
    let dir = TempDir::new("damaged");
    let [data, left] = ["data", "left"].map(|name| dir.0.join(name));
    let value = |n: usize| bytes(3000 + n, n);
    let names: Vec<Vec<u8>> = (0..200).map(|n| format!("key{n}").into_bytes()).collect();
    {
        let disk = Disk::open(&data).unwrap();
        let mut writer = disk.writer().unwrap();
        for (n, name) in names.iter().enumerate() {
            writer.save(&[put(name, 1, &value(n))]).unwrap();
        }
        save_long(&mut writer, b"long", 7, 1, &bytes(4 * CHUNK_BYTES, 9));
    }
    let (mut found, mut refused, mut written) = (0, 0, 0);
    let rounds = match std::env::var("WIRELANE_TEST_DISK") {
        Ok(run) if run == "long" => 500,
        _ => 90_usize,
    };
    for round in 0..rounds {
        copy_directory(&data, &left);
        // The index's first page has the header of the database: it is refused as a whole.
        let (file, from) =
            [(SEGMENT, 64), ("long/0000000000000007", 0), ("wirelane.db", 4096)][round % 3];
        let mut changed = std::fs::read(left.join(file)).unwrap();
        let at = from + (round * 7_919_317) % (changed.len() - from);
        changed[at] ^= 0x40;
        std::fs::write(left.join(file), &changed).unwrap();
        let disk = Disk::open(&left).unwrap();
        let opened = disk.writer();
        // What SQLite cannot read at all is refused, and the fix that the error names works.
        let is_refused = opened.is_err();
        let mut writer = opened.unwrap_or_else(|error| {
            let is_index =
                file == "wirelane.db" && error.to_string().contains("remove wirelane.db,");
            assert!(is_index && error.kind() == ErrorKind::Damaged, "{file} at {at}: {error}");
            for name in ["wirelane.db", "wirelane.db-wal", "wirelane.db-shm"] {
                let _ = std::fs::remove_file(left.join(name));
            }
            disk.writer().unwrap()
        });
        let (mut reader, mut right) = (writer.reader().unwrap(), 0);
        for (n, name) in names.iter().enumerate() {
            let mut read = ReadValue::default();
            match reader.read(name, &mut read) {
                Ok(Some(_)) => {
                    assert!(read.bytes == value(n), "{file} at {at}: a damaged value was returned");
                    right += 1;
                }
                Ok(None) => assert_eq!(file, "wirelane.db"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "{error}"),
            }
        }
        let mut read = ReadValue::default();
        match reader.read(b"long", &mut read) {
            Ok(Some(_)) => assert!(read.bytes == bytes(4 * CHUNK_BYTES, 9), "{file} at {at}"),
            Ok(None) => assert_eq!(file, "wirelane.db"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "{error}"),
        }
        refused += 200 - right;
        // New keys are written.
        let new = |n: usize| writer.save(&[put(&bytes(20, n), 1, b"still written")]).is_ok();
        written += (0..20).map(new).filter(|written| *written).count();
        drop((reader, writer));
        let checked = check(&left, |_, _| {}).unwrap();
        found += usize::from(is_refused || !checked.is_sound());
        assert!(!is_refused || checked.is_sound(), "{file} at {at}");
        if file != "wirelane.db" {
            assert!(checked.damaged.len() <= 1, "{file} at {at}: {:?}", checked.damaged);
        }
    }
    // The other flips hit unused bytes.
    assert!(found * 3 >= rounds * 2, "only {found} of {rounds} were detected");
    assert_eq!(written, rounds * 20);
    assert!(refused < rounds * 20, "one byte damages {} of 200 values", refused / rounds);
}

/// The bytes of a damaged value are not given new checksums when they are copied.
#[test]
fn compaction_does_not_hide_damage() {
    let dir = TempDir::new("copied");
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    writer.set_segment_bytes(64 << 10);
    writer
        .save(&[put(b"damaged", 1, &bytes(3000, 1)), put(b"intact", 1, &bytes(3000, 2))])
        .unwrap();
    let path = dir.0.join(SEGMENT);
    let mut log = std::fs::read(&path).unwrap();
    log[1000] ^= 1;
    std::fs::write(&path, log).unwrap();
    let first = |directory: &Path| {
        let names = std::fs::read_dir(directory.join("log")).unwrap().flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        names.sort();
        names.into_iter().nth(1).is_some_and(|second| second.to_str() > Some("00000020.log"))
    };
    // Until all other segments of the beginning are removed.
    let mut version = 2;
    until("segments are removed", || {
        version += 1;
        writer.save(&[put(b"other", version, &bytes(20_000, 3))]).unwrap();
        writer.clean_up(0).unwrap();
        first(&dir.0)
    });
    let mut reader = writer.reader().unwrap();
    assert_eq!(read(&mut reader, b"intact"), Some((bytes(3000, 2), 1)));
    let error = reader.read(b"damaged", &mut ReadValue::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    writer.save(&[put(b"damaged", version + 1, b"again")]).unwrap();
    assert_eq!(read(&mut reader, b"damaged"), Some((b"again".to_vec(), version + 1)));
}

/// The header of a segment says only where the one before it ends.
#[test]
fn a_damaged_header_of_a_segment_is_reported_and_loses_nothing() {
    let dir = TempDir::new("header");
    let disk = Disk::open(&dir.0).unwrap();
    let mut writer = disk.writer().unwrap();
    writer.set_segment_bytes(16 << 10);
    for n in 0..20_u64 {
        writer.save(&[put(&n.to_be_bytes(), n, &bytes(3000, n as usize))]).unwrap();
    }
    drop(writer);
    for segment in ["log/00000002.log", "log/00000004.log"] {
        let path = dir.0.join(segment);
        let mut log = std::fs::read(&path).unwrap();
        log[13] ^= 4;
        std::fs::write(&path, log).unwrap();
    }
    let report = check(&dir.0, |_, _| {}).unwrap();
    assert_eq!(
        (report.sound, report.damaged.len(), report.problems.len()),
        (20, 0, 2),
        "{report:?}"
    );
    // Also if the index must be made again.
    for file in ["wirelane.db", "none"] {
        let _ = std::fs::remove_file(dir.0.join(file));
        let writer = disk.writer().unwrap();
        let mut reader = writer.reader().unwrap();
        for n in 0..20_u64 {
            assert_eq!(read(&mut reader, &n.to_be_bytes()), Some((bytes(3000, n as usize), n)));
        }
    }
}
