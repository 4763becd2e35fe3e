//! The documented behaviour of a store, case by case.

use kv_store::{
    Committed, Condition, Cursor, Key, Range, Ranges, ReserveError, Settings, Store, Timestamp,
    WhenFull, WriteError,
};

const NOW: Timestamp = Timestamp(1000);

fn store(pool_bytes: u64, when_full: WhenFull) -> Store {
    Store::new(Settings { shards: 4, when_full, ..Settings::with_pool(pool_bytes) })
}

fn key(text: &str) -> Key<'_> {
    Key::new(text.as_bytes()).unwrap()
}

fn put(store: &Store, name: &str, length: u64) -> Committed {
    let reservation = store.reserve(length, NOW).unwrap();
    store.commit(key(name), reservation, None, Condition::Always, NOW).unwrap()
}

#[test]
fn get_returns_the_last_put() {
    let store = store(1 << 20, WhenFull::Refuse);
    assert!(store.pin(key("a"), NOW).is_none());
    assert_eq!(put(&store, "a", 10), Committed { version: 1, replaced: false });
    assert_eq!(put(&store, "b", 20), Committed { version: 2, replaced: false });
    let reservation = store.reserve(30, NOW).unwrap();
    let ranges = reservation.ranges();
    let third = store.commit(key("a"), reservation, None, Condition::Always, NOW).unwrap();
    assert_eq!(third, Committed { version: 3, replaced: true });
    let pinned = store.pin(key("a"), NOW).unwrap();
    assert_eq!((pinned.metadata.version, pinned.metadata.length), (3, 30));
    assert_eq!(pinned.ranges, ranges);
    store.unpin(pinned.pin);
    let usage = store.usage();
    assert_eq!((usage.keys, usage.value_bytes, usage.hits, usage.misses), (2, 50, 1, 1));
}

#[test]
fn committing_the_same_version_twice_changes_nothing() {
    let store = store(1 << 20, WhenFull::Refuse);
    let version = store.allocate_version();
    let commit =
        || store.commit_version(key("a"), store.reserve(100, NOW).unwrap(), version, None, NOW);
    assert_eq!(commit(), Ok(Committed { version, replaced: false }));
    let pinned = store.pin(key("a"), NOW).unwrap();
    assert_eq!(commit(), Ok(Committed { version, replaced: true }));
    let again = store.pin(key("a"), NOW).unwrap();
    assert_eq!(again.ranges, pinned.ranges);
    store.unpin(pinned.pin);
    store.unpin(again.pin);
    let usage = store.usage();
    assert_eq!((usage.pins, usage.detached, usage.value_bytes), (0, 0, 100));
    assert_eq!((usage.reserved_bytes, usage.pinned_bytes), (0, 0));
}

#[test]
fn a_pinned_value_stays_when_it_is_overwritten_and_deleted() {
    let store = store(4096, WhenFull::Refuse);
    put(&store, "a", 4000);
    let (one, two) = (store.pin(key("a"), NOW).unwrap(), store.pin(key("a"), NOW).unwrap());
    assert_eq!(store.delete(key("a"), Condition::Always, NOW), Ok(Some(1)));
    assert!(store.stat(key("a"), NOW).is_none());
    store.unpin(one.pin);
    assert_eq!(store.usage().detached, 1);
    let full = ReserveError::Full { needed: 4000, free: 0, pinned: 4000 };
    assert_eq!(store.reserve(4000, NOW).unwrap_err(), full);
    store.unpin(two.pin);
    assert_eq!((store.usage().detached, store.usage().used_bytes), (0, 0));
    put(&store, "a", 4000);
}

#[test]
fn a_condition_that_fails_changes_nothing_and_frees_the_reservation() {
    let store = store(1 << 20, WhenFull::Refuse);
    let attempt = |condition| {
        let reservation = store.reserve(100_000, NOW).unwrap();
        store.commit(key("a"), reservation, None, condition, NOW).map(|done| done.version)
    };
    assert_eq!(attempt(Condition::IfVersion(1)), Err(WriteError::Absent));
    assert_eq!(store.usage().used_bytes, 0);
    assert_eq!(attempt(Condition::IfAbsent), Ok(1));
    let before = (store.stat(key("a"), NOW), store.usage());
    assert_eq!(attempt(Condition::IfAbsent), Err(WriteError::Exists { version: 1 }));
    assert_eq!(attempt(Condition::IfVersion(7)), Err(WriteError::OtherVersion { version: 1 }));
    assert_eq!((store.stat(key("a"), NOW), store.usage()), before);
    assert_eq!(attempt(Condition::IfVersion(1)), Ok(2));
    let refused = Err(WriteError::OtherVersion { version: 2 });
    assert_eq!(store.delete(key("a"), Condition::IfVersion(1), NOW), refused);
    assert_eq!(store.delete(key("a"), Condition::IfVersion(2), NOW), Ok(Some(2)));
    assert_eq!(store.delete(key("a"), Condition::Always, NOW), Ok(None));
    assert_eq!(store.usage().used_bytes, 0);
}

#[test]
fn values_expire() {
    let store = store(1 << 20, WhenFull::Refuse);
    for (name, expires) in [("a", 2000), ("b", 3000), ("c", 4000)] {
        let reservation = store.reserve(10, NOW).unwrap();
        let expires = Some(Timestamp(expires));
        store.commit(key(name), reservation, expires, Condition::Always, NOW).unwrap();
    }
    assert_eq!(store.next_expiry(), Some(Timestamp(2000)));
    assert_eq!(store.stat(key("a"), Timestamp(1999)).unwrap().expires, Some(Timestamp(2000)));
    assert!(store.stat(key("a"), Timestamp(2000)).is_none());
    assert!(store.pin(key("a"), Timestamp(2000)).is_none());
    assert_eq!((store.usage().keys, store.usage().expired), (2, 1));
    put(&store, "c", 10);
    assert_eq!(store.expire(Timestamp(9000), 10), 1, "the put of c removed its expiry");
    assert_eq!((store.next_expiry(), store.usage().keys), (None, 1));
}

#[test]
fn an_expired_value_is_absent_to_conditions() {
    let store = store(1 << 20, WhenFull::Refuse);
    let commit = |condition, now| {
        let reservation = store.reserve(10, now).unwrap();
        store.commit(key("a"), reservation, Some(Timestamp(2000)), condition, now)
    };
    commit(Condition::Always, NOW).unwrap();
    assert_eq!(commit(Condition::IfVersion(1), Timestamp(2000)), Err(WriteError::Absent));
    let fresh = commit(Condition::IfAbsent, Timestamp(2000));
    assert_eq!(fresh, Ok(Committed { version: 2, replaced: false }));
}

#[test]
fn a_full_store_that_may_not_evict_removes_expired_values() {
    let store = store(1 << 20, WhenFull::Refuse);
    let reservation = store.reserve(1 << 20, NOW).unwrap();
    let expires = Some(Timestamp(2000));
    store.commit(key("a"), reservation, expires, Condition::Always, NOW).unwrap();
    let full = ReserveError::Full { needed: 8, free: 0, pinned: 0 };
    assert_eq!(store.reserve(8, Timestamp(1999)).unwrap_err(), full);
    let reservation = store.reserve(8, Timestamp(2000)).unwrap();
    store.cancel(reservation);
    assert_eq!((store.usage().expired, store.usage().used_bytes), (1, 0));
}

#[test]
fn keys_of_empty_values_are_limited() {
    let settings = Settings { index_bytes: 64 << 10, shards: 4, ..Settings::with_pool(1 << 20) };
    for when_full in [WhenFull::Evict, WhenFull::Refuse] {
        let store = Store::new(Settings { when_full, ..settings });
        let mut refused = 0;
        for number in 0..2000 {
            let name = format!("{number:0100}");
            let none = store.reserve(0, NOW).unwrap();
            match store.commit(key(&name), none, None, Condition::Always, NOW) {
                Ok(_) => {}
                Err(why) => {
                    assert_eq!(why, WriteError::IndexFull);
                    refused += 1;
                }
            }
        }
        let usage = store.usage();
        assert!((300..=400).contains(&usage.keys), "{usage:?}");
        assert_eq!(usage.keys + usage.evicted + refused, 2000);
        assert_eq!(usage.evicted == 0, when_full == WhenFull::Refuse);
        let name = format!("{:0100}", 1);
        let none = store.reserve(0, NOW).unwrap();
        let exists = store.stat(key(&name), NOW).is_some();
        // An existing key may be overwritten.
        let again = store.commit(key(&name), none, None, Condition::Always, NOW);
        assert_eq!(again.is_ok(), exists || when_full == WhenFull::Evict);
    }
}

#[test]
fn nothing_is_evicted_for_a_value_that_cannot_fit() {
    let store = store(1 << 20, WhenFull::Evict);
    for name in ["a", "b", "c", "d"] {
        put(&store, name, 256 << 10);
    }
    let too_long = ReserveError::TooLong { max: 1 << 20 };
    assert_eq!(store.reserve((1 << 20) + 1, NOW).unwrap_err(), too_long);
    let pinned = store.pin(key("b"), NOW).unwrap();
    let full = ReserveError::Full { needed: 1 << 20, free: 0, pinned: 256 << 10 };
    assert_eq!(store.reserve(1 << 20, NOW).unwrap_err(), full);
    assert_eq!((store.usage().evicted, store.usage().keys), (0, 4));
    let reservation = store.reserve(768 << 10, NOW).unwrap();
    assert!(matches!(reservation.ranges(), Ranges::Many(_)), "around the pinned value");
    assert_eq!((store.usage().evicted, store.usage().keys), (3, 1));
    store.cancel(reservation);
    store.unpin(pinned.pin);
}

#[test]
fn no_more_is_evicted_than_the_value_needs() {
    let store = store(1 << 20, WhenFull::Evict);
    for number in 0..16 {
        put(&store, &format!("key {number}"), 64 << 10);
    }
    for (length, evicted) in [(64 << 10, 1), (100 << 10, 3), (28 << 10, 3), (8, 4)] {
        put(&store, &format!("length {length}"), length);
        assert_eq!(store.usage().evicted, evicted, "after a value of {length}");
    }
}

#[test]
fn an_empty_value_needs_no_pool() {
    let store = store(0, WhenFull::Refuse);
    put(&store, "a", 0);
    let pinned = store.pin(key("a"), NOW).unwrap();
    assert_eq!(pinned.ranges, Ranges::One(Range { offset: 0, length: 0 }));
    store.unpin(pinned.pin);
    assert_eq!(store.reserve(1, NOW).unwrap_err(), ReserveError::TooLong { max: 0 });
}

#[test]
fn clear_keeps_only_pinned_values() {
    let store = store(1 << 20, WhenFull::Refuse);
    for number in 0..500 {
        put(&store, &format!("a rather long key with the number {number}"), 100 + number);
    }
    let pinned = store.pin(key("a rather long key with the number 77"), NOW).unwrap();
    store.clear();
    let usage = store.usage();
    assert_eq!((usage.keys, usage.value_bytes, usage.pins, usage.detached), (0, 0, 1, 1));
    store.unpin(pinned.pin);
    assert_eq!((store.usage().used_bytes, store.usage().largest_free), (0, 1 << 20));
    assert_eq!(store.list(b"", Cursor::START, 10, 1000, NOW).keys, []);
}

#[test]
fn versions_start_at_first_version() {
    let store = Store::new(Settings { first_version: 1 << 40, ..Settings::with_pool(4096) });
    assert_eq!(put(&store, "a", 1).version, 1 << 40);
    assert_eq!(store.delete(key("a"), Condition::Always, NOW), Ok(Some(1 << 40)));
    assert_eq!(put(&store, "a", 1).version, (1 << 40) + 1);
}

#[test]
fn threads_share_a_store() {
    fn shared<T: Send + Sync>() {}
    shared::<Store>();
}
