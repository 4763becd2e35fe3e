//! Who may do what on links: an identity's scope, its rate, and what changes while it is there.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use access::{Access, Holder, Refused, Scope};
use fabric::link::{self, Class, Endpoint};
use fabric::session::{Credentials, Key, Keyring};
use kv_client::{Client, Condition, Cursor, Kind, PutOptions};

use crate::durable::Directory;
use crate::hostile::Liar;
use crate::test_server::{Place, settings, until};

fn key(name: &str) -> Key {
    Key::from_token(name, &format!("wlt_{name}")).unwrap()
}

fn holders(scopes: &[(&str, Scope)]) -> Vec<Holder> {
    scopes.iter().map(|(name, scope)| Holder::keyed(key(name), scope.clone())).collect()
}

/// A store for these alone.
fn open(scopes: &[(&str, Scope)], rate: Option<u32>) -> (Place, Arc<Access>) {
    open_with(&settings(16 << 20), scopes, rate)
}

fn open_with(
    settings: &kv_server::Settings,
    scopes: &[(&str, Scope)],
    rate: Option<u32>,
) -> (Place, Arc<Access>) {
    let keyring = Keyring::new();
    let rate = rate.and_then(NonZeroU32::new);
    let access = Access::new(keyring.clone(), holders(scopes), false, rate).unwrap();
    let links =
        link::Settings { keyring, require_authentication: true, ..link::Settings::default() };
    (Place::open_for(settings, links, access.clone()), access)
}

fn client(place: &Place, name: &str, class: Class) -> Client {
    let credentials = Credentials::Key(key(name));
    place.client(link::Settings { classes: vec![class], credentials, ..link::Settings::default() })
}

fn put(client: &mut Client, key: &str, value: &[u8]) -> Result<(), Kind> {
    let put = client.put(key.as_bytes(), value, &PutOptions::default());
    put.map(drop).map_err(|error| error.kind())
}

#[test]
fn each_identity_may_do_what_its_scope_says() {
    let scopes = [
        ("root", Scope::everything()),
        ("reader", Scope::new(false, b"")),
        ("team", Scope::new(true, b"team/")),
    ];
    let (place, access) = open(&scopes, None);
    for class in [Class::Shm, Class::Tcp] {
        let [mut root, mut reader, mut team] =
            ["root", "reader", "team"].map(|name| client(&place, name, class));
        let value = vec![7; 20_000];
        put(&mut root, "other/a", &value).unwrap();
        put(&mut team, "team/a", &value).unwrap();
        assert_eq!(reader.get(b"team/a").unwrap().unwrap().to_vec(), value);
        assert_eq!(put(&mut reader, "team/a", b"x"), Err(Kind::Denied));
        assert_eq!(put(&mut team, "other/a", b"x"), Err(Kind::Denied));
        assert_eq!(reader.delete(b"team/a", Condition::Always).unwrap_err().kind(), Kind::Denied);
        let denied = team.get(b"other/a").unwrap_err();
        assert_eq!(denied.kind(), Kind::Denied);
        assert!(denied.to_string().contains("token file"), "{denied}");
        assert_eq!(team.stat(b"other/none").unwrap_err().kind(), Kind::Denied);
        let keys = |listed: kv_client::Page| -> Vec<Vec<u8>> {
            listed.keys.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(team.list(b"", Cursor::START).unwrap()), [b"team/a"]);
        assert_eq!(team.list(b"other", Cursor::START).unwrap_err().kind(), Kind::Denied);
        assert_eq!(root.get(b"team/a").unwrap().unwrap().to_vec(), value);
        root.delete(b"other/a", Condition::Always).unwrap();
        root.delete(b"team/a", Condition::Always).unwrap();
    }
    assert_eq!(access.refusals().of(Refused::Scope), 12);
}

#[test]
fn what_is_only_on_the_disk_has_the_same_scopes() {
    let directory = Directory::new("scopes");
    let on_disk = directory.settings(16 << 20);
    let scopes = [("root", Scope::everything()), ("team", Scope::new(true, b"team/"))];
    {
        let (place, _) = open_with(&on_disk, &scopes, None);
        let mut root = client(&place, "root", Class::Tcp);
        ["a", "team/a", "team/b", "teams"]
            .iter()
            .for_each(|key| put(&mut root, key, key.as_bytes()).unwrap());
    }
    let (place, _) = open_with(&on_disk, &scopes, None);
    let mut team = client(&place, "team", Class::Tcp);
    let listed = team.list(b"", Cursor::START).unwrap().keys.into_iter().map(|(key, _)| key);
    assert_eq!(listed.collect::<Vec<_>>(), [b"team/a", b"team/b"]);
    assert_eq!(team.list(b"a", Cursor::START).unwrap_err().kind(), Kind::Denied);
    for key in [&b"a"[..], b"teams"] {
        assert_eq!(team.get(key).unwrap_err().kind(), Kind::Denied);
        assert_eq!(team.stat(key).unwrap_err().kind(), Kind::Denied);
    }
    let loads = || place.engine.durability().unwrap().counts.loads.load(Ordering::Relaxed);
    assert_eq!(loads(), 0, "what is denied is not fetched");
    assert_eq!(team.get(b"team/b").unwrap().unwrap().to_vec(), b"team/b");
    assert_eq!(loads(), 1);
}

#[test]
fn only_who_may_read_everything_reads_the_pool_in_place() {
    let scopes = [("root", Scope::everything()), ("team", Scope::new(true, b"team/"))];
    let (place, _) = open(&scopes, None);
    let zero_copy_reads = || place.engine.counts().zero_copy_reads.load(Ordering::Relaxed);
    let [mut root, mut team] = ["root", "team"].map(|name| client(&place, name, Class::Shm));
    put(&mut team, "team/a", &[1; 8000]).unwrap();
    for _ in 0..50 {
        assert_eq!(team.get(b"team/a").unwrap().unwrap().len(), 8000);
    }
    drop(team);
    assert_eq!(zero_copy_reads(), 0);
    // Only who is watched reads anything in place, which on a busy machine may take a while.
    for _ in 0..20_000 {
        assert_eq!(root.get(b"team/a").unwrap().unwrap().len(), 8000);
        if zero_copy_reads() > 0 {
            break;
        }
    }
    drop(root);
    until("values are read in place", || zero_copy_reads() > 0);
}

#[test]
fn what_changes_holds_for_links_that_are_there() {
    let line = |name, writes| (name, Scope::new(writes, b""));
    let (place, access) = open(&[line("ann", true), line("bob", true), line("eve", true)], None);
    let [mut ann, mut bob, mut eve] =
        ["ann", "bob", "eve"].map(|name| client(&place, name, Class::Tcp));
    for client in [&mut ann, &mut bob, &mut eve] {
        put(client, "k", b"1").unwrap();
    }
    access.replace(holders(&[line("ann", true), line("bob", false)])).unwrap();
    put(&mut ann, "k", b"2").unwrap();
    assert_eq!(put(&mut bob, "k", b"3"), Err(Kind::Denied), "it came again, to read");
    assert_eq!(bob.get(b"k").unwrap().unwrap().to_vec(), b"2");
    assert_eq!(put(&mut eve, "k", b"4"), Err(Kind::Denied), "it is let in no more");
    assert_eq!(ann.get(b"k").unwrap().unwrap().to_vec(), b"2");
}

/// It may have the pool mapped, and need not ask for anything.
#[test]
fn who_may_read_less_than_before_is_sent_away_without_having_asked() {
    let (place, access) = open(&[("ann", Scope::everything()), ("bob", Scope::everything())], None);
    let [mut ann, mut bob] = ["ann", "bob"].map(|name| client(&place, name, Class::Shm));
    put(&mut ann, "k", b"1").unwrap();
    put(&mut bob, "k", b"1").unwrap();
    until("both are there", || place.connections() == 2);
    access
        .replace(holders(&[("ann", Scope::everything()), ("bob", Scope::new(true, b"b/"))]))
        .unwrap();
    until("bob is gone", || place.connections() == 1);
    assert_eq!(ann.get(b"k").unwrap().unwrap().to_vec(), b"1");
    assert_eq!(place.connections(), 1, "ann was not sent away");
    assert_eq!(bob.get(b"k").unwrap_err().kind(), Kind::Denied);
    put(&mut bob, "b/k", b"2").unwrap();
}

#[test]
fn who_asks_too_often_gives_the_disk_no_work() {
    let directory = Directory::new("rate");
    let on_disk = directory.settings(16 << 20);
    let names: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
    {
        let (place, _) = open_with(&on_disk, &[("ann", Scope::everything())], None);
        let mut ann = client(&place, "ann", Class::Tcp);
        names.iter().for_each(|key| put(&mut ann, key, b"v").unwrap());
    }
    let (place, access) = open_with(&on_disk, &[("ann", Scope::everything())], Some(2));
    let mut ann = client(&place, "ann", Class::Tcp);
    let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    assert_eq!(ann.get_many(&keys).unwrap_err().kind(), Kind::RateLimited);
    let refused = access.refusals().of(Refused::Rate);
    let loads = place.engine.durability().unwrap().counts.loads.load(Ordering::Relaxed);
    assert!(refused > 0 && loads + refused <= 200, "{loads} were fetched, {refused} refused");
}

#[test]
fn a_client_by_tickets_gets_another_for_every_line() {
    let line = |writes| ("ann", Scope::new(writes, b""));
    let (place, access) = open(&[line(true)], None);
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, ring) = (asked.clone(), access.keyring().clone());
    let mut settings = kv_client::Settings::new(place.address);
    settings.credentials = Some(Arc::new(move |_, _, _| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Credentials::Ticket(ring.issue("ann", Duration::from_secs(30))?))
    }));
    let mut client = Client::connect(settings).unwrap();
    put(&mut client, "k", b"1").unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // Its links end.
    access.replace(holders(&[line(false)])).unwrap();
    assert_eq!(client.get(b"k").unwrap().unwrap().to_vec(), b"1");
    assert_eq!(put(&mut client, "k", b"2"), Err(Kind::Denied));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn who_asks_too_often_is_told_so_and_loses_nothing() {
    let scopes = [("busy", Scope::everything()), ("calm", Scope::everything())];
    let (place, access) = open(&scopes, Some(20));
    let [mut busy, mut calm] = ["busy", "calm"].map(|name| client(&place, name, Class::Tcp));
    let mut done = 0;
    let refused = loop {
        match put(&mut busy, &format!("k{done}"), b"v") {
            Ok(()) => done += 1,
            Err(kind) => break kind,
        }
        assert!(done < 10_000, "nobody is so slow");
    };
    assert_eq!(refused, Kind::RateLimited);
    put(&mut calm, "calm", b"v").unwrap();
    assert_eq!(place.engine.store.usage().keys, done + 1);
    assert!(access.refusals().of(Refused::Rate) >= 1);
}

/// Somebody with a key that is to be replaced calls, says nothing, and opens the store when the new key is there.
#[test]
fn a_key_that_was_replaced_opens_nothing_however_long_its_holder_waited() {
    let (place, access) = open(&[("ann", Scope::everything())], None);
    let credentials = Credentials::Key(key("ann"));
    let classes = vec![Class::Tcp];
    let old = link::Settings { classes, credentials, ..link::Settings::default() };
    let endpoint = Endpoint::new(old).unwrap();
    let mut waiting = Liar::call(&place, &endpoint);
    let new = Key::from_token("ann", "wlt_another").unwrap();
    access.replace(vec![Holder::keyed(new.clone(), Scope::everything())]).unwrap();
    waiting.open();
    assert!(waiting.is_sent_away());
    let credentials = Credentials::Key(new);
    let mut ann = place.client(link::Settings { credentials, ..link::Settings::default() });
    put(&mut ann, "k", b"v").unwrap();
}
