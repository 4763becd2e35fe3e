//! Listings: their keys, and the limits of a page.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use kv_store::{Condition, Cursor, Key, Page, Settings, Store, Timestamp};

const NOW: Timestamp = Timestamp(0);

fn put(store: &Store, name: &str, expires: Option<Timestamp>) {
    let reservation = store.reserve(10, NOW).unwrap();
    let key = Key::new(name.as_bytes()).unwrap();
    store.commit(key, reservation, expires, Condition::Always, NOW).unwrap();
}

fn pages(store: &Store, prefix: &str, max_keys: usize, max_bytes: usize) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut next = Some(Cursor::START);
    while let Some(from) = next {
        let page = store.list(prefix.as_bytes(), from, max_keys, max_bytes, NOW);
        next = page.next;
        pages.push(page);
    }
    pages
}

#[test]
fn a_key_that_stays_is_listed_exactly_once_while_others_come_and_go() {
    let store = Store::new(Settings { shards: 8, ..Settings::with_pool(16 << 20) });
    (0..5000).for_each(|number| put(&store, &format!("stays {number}"), None));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                for number in (0..5000).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                    put(store, &format!("stays {number}"), None);
                    put(store, &format!("comes {thread} {number}"), None);
                    let old = format!("comes {thread} {}", (number + 4000) % 5000);
                    let old = Key::new(old.as_bytes()).unwrap();
                    store.delete(old, Condition::Always, NOW).unwrap();
                }
            });
        }
        for _ in 0..10 {
            let mut times: HashMap<Box<[u8]>, u32> = HashMap::new();
            for (key, _) in pages(&store, "stays", 100, 10_000).into_iter().flat_map(|p| p.keys) {
                *times.entry(key).or_default() += 1;
            }
            assert_eq!(times.len(), 5000);
            assert!(times.values().all(|times| *times == 1));
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_page_stays_within_its_limits() {
    let store = Store::new(Settings::with_pool(1 << 20));
    (0..1000).for_each(|number| put(&store, &format!("key {number:04}"), None));
    let by_keys = pages(&store, "", 7, usize::MAX);
    assert!(by_keys.iter().all(|page| page.keys.len() <= 7));
    assert_eq!(by_keys.iter().map(|page| page.keys.len()).sum::<usize>(), 1000);
    let by_bytes = pages(&store, "", usize::MAX, 20);
    assert!(by_bytes.iter().all(|page| page.keys.len() <= 2), "keys of 8 bytes");
    let zero_limit = pages(&store, "", 0, 0);
    assert!(zero_limit.iter().all(|page| page.keys.len() <= 1), "or it would never end");
    assert_eq!(zero_limit.iter().map(|page| page.keys.len()).sum::<usize>(), 1000);
}

#[test]
fn a_page_ends_even_if_nothing_matches() {
    let store = Store::new(Settings::with_pool(16 << 20));
    (0..50_000).for_each(|number| put(&store, &format!("key {number}"), None));
    let pages = pages(&store, "other", 10, 1000);
    assert!(pages.len() > 2, "each page scans a part of the keys");
    assert!(pages.iter().all(|page| page.keys.is_empty()));
}

#[test]
fn expired_keys_are_not_listed() {
    let store = Store::new(Settings::with_pool(1 << 20));
    put(&store, "gone", Some(NOW));
    put(&store, "here", Some(Timestamp(1)));
    let page = store.list(b"", Cursor::START, 10, 100, NOW);
    assert_eq!(page.keys.iter().map(|(key, _)| &key[..]).collect::<Vec<_>>(), [b"here"]);
    assert_eq!(page.keys[0].1.expires, Some(Timestamp(1)));
}

#[test]
fn an_invalid_cursor_does_no_harm() {
    let store = Store::new(Settings::with_pool(1 << 20));
    put(&store, "a", None);
    for number in [1 << 32, u64::MAX, u64::from(u32::MAX), 63 << 32 | 5, 64 << 32] {
        let page = store.list(b"", Cursor::from(number), 10, 100, NOW);
        assert!(page.keys.len() <= 1 && page.next.is_none());
    }
}
