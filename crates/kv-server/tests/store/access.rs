//! Access control on links: scopes, rate limits, and changes of the rules while clients are connected.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use access::{Access, Identity, Refused, Scope};
use fabric::link::{self, Endpoint, Transport};
use fabric::session::{Credentials, Key, Keyring};
use kv_client::{Client, Condition, Cursor, ErrorKind, PutOptions};

use crate::durable::Directory;
use crate::hostile::RawClient;
use crate::test_server::{TestServer, settings, until};

fn key(name: &str) -> Key {
    Key::from_token(name, &format!("wlt_{name}")).unwrap()
}

fn identities(scopes: &[(&str, Scope)]) -> Vec<Identity> {
    scopes.iter().map(|(name, scope)| Identity::keyed(key(name), scope.clone())).collect()
}

/// A store for these identities only.
fn open(scopes: &[(&str, Scope)], rate: Option<u32>) -> (TestServer, Arc<Access>) {
    open_with(&settings(16 << 20), scopes, rate)
}

fn open_with(
    settings: &kv_server::Settings,
    scopes: &[(&str, Scope)],
    rate: Option<u32>,
) -> (TestServer, Arc<Access>) {
    let keyring = Keyring::new();
    let rate = rate.and_then(NonZeroU32::new);
    let access = Access::new(keyring.clone(), identities(scopes), false, rate).unwrap();
    let links = link::EndpointSettings {
        keyring,
        require_authentication: true,
        ..link::EndpointSettings::default()
    };
    (TestServer::open_for(settings, links, access.clone()), access)
}

fn client(server: &TestServer, name: &str, transport: Transport) -> Client {
    let credentials = Credentials::Key(key(name));
    server.client(link::EndpointSettings {
        transports: vec![transport],
        credentials,
        ..link::EndpointSettings::default()
    })
}

fn put(client: &mut Client, key: &str, value: &[u8]) -> Result<(), ErrorKind> {
    let put = client.put(key.as_bytes(), value, &PutOptions::default());
    put.map(drop).map_err(|error| error.kind())
}

#[test]
fn an_identity_is_limited_to_its_scope() {
    let scopes = [
        ("root", Scope::everything()),
        ("reader", Scope::new(false, b"")),
        ("team", Scope::new(true, b"team/")),
    ];
    let (server, access) = open(&scopes, None);
    for transport in [Transport::Shm, Transport::Tcp] {
        let [mut root, mut reader, mut team] =
            ["root", "reader", "team"].map(|name| client(&server, name, transport));
        let value = vec![7; 20_000];
        put(&mut root, "other/a", &value).unwrap();
        put(&mut team, "team/a", &value).unwrap();
        assert_eq!(reader.get(b"team/a").unwrap().unwrap().to_vec(), value);
        assert_eq!(put(&mut reader, "team/a", b"x"), Err(ErrorKind::Denied));
        assert_eq!(put(&mut team, "other/a", b"x"), Err(ErrorKind::Denied));
        assert_eq!(
            reader.delete(b"team/a", Condition::Always).unwrap_err().kind(),
            ErrorKind::Denied
        );
        let denied = team.get(b"other/a").unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied);
        assert!(denied.to_string().contains("token file"), "{denied}");
        assert_eq!(team.stat(b"other/none").unwrap_err().kind(), ErrorKind::Denied);
        let keys = |listed: kv_client::Page| -> Vec<Vec<u8>> {
            listed.keys.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(team.list(b"", Cursor::START).unwrap()), [b"team/a"]);
        assert_eq!(team.list(b"other", Cursor::START).unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(root.get(b"team/a").unwrap().unwrap().to_vec(), value);
        root.delete(b"other/a", Condition::Always).unwrap();
        root.delete(b"team/a", Condition::Always).unwrap();
    }
    assert_eq!(access.refusals().of(Refused::Scope), 12);
}

#[test]
fn scopes_apply_to_values_on_disk() {
    let directory = Directory::new("scopes");
    let on_disk = directory.settings(16 << 20);
    let scopes = [("root", Scope::everything()), ("team", Scope::new(true, b"team/"))];
    {
        let (server, _) = open_with(&on_disk, &scopes, None);
        let mut root = client(&server, "root", Transport::Tcp);
        ["a", "team/a", "team/b", "teams"]
            .iter()
            .for_each(|key| put(&mut root, key, key.as_bytes()).unwrap());
    }
    let (server, _) = open_with(&on_disk, &scopes, None);
    let mut team = client(&server, "team", Transport::Tcp);
    let listed = team.list(b"", Cursor::START).unwrap().keys.into_iter().map(|(key, _)| key);
    assert_eq!(listed.collect::<Vec<_>>(), [b"team/a", b"team/b"]);
    assert_eq!(team.list(b"a", Cursor::START).unwrap_err().kind(), ErrorKind::Denied);
    for key in [&b"a"[..], b"teams"] {
        assert_eq!(team.get(key).unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(team.stat(key).unwrap_err().kind(), ErrorKind::Denied);
    }
    let loads = || server.engine.disk_status().unwrap().counts.loads.load(Ordering::Relaxed);
    assert_eq!(loads(), 0, "denied values are not loaded");
    assert_eq!(team.get(b"team/b").unwrap().unwrap().to_vec(), b"team/b");
    assert_eq!(loads(), 1);
}

#[test]
fn reading_in_place_requires_access_to_all_keys() {
    let scopes = [("root", Scope::everything()), ("team", Scope::new(true, b"team/"))];
    let (server, _) = open(&scopes, None);
    let in_place_reads = || server.engine.counts().in_place_reads.load(Ordering::Relaxed);
    let [mut root, mut team] = ["root", "team"].map(|name| client(&server, name, Transport::Shm));
    put(&mut team, "team/a", &[1; 8000]).unwrap();
    for _ in 0..50 {
        assert_eq!(team.get(b"team/a").unwrap().unwrap().len(), 8000);
    }
    drop(team);
    assert_eq!(in_place_reads(), 0);
    // Clients read in place only while their slot block is polled; on a busy machine that may start late.
    for _ in 0..20_000 {
        assert_eq!(root.get(b"team/a").unwrap().unwrap().len(), 8000);
        if in_place_reads() > 0 {
            break;
        }
    }
    drop(root);
    until("values are read in place", || in_place_reads() > 0);
}

#[test]
fn changed_rules_apply_to_open_links() {
    let line = |name, writes| (name, Scope::new(writes, b""));
    let (server, access) = open(&[line("ann", true), line("bob", true), line("eve", true)], None);
    let [mut ann, mut bob, mut eve] =
        ["ann", "bob", "eve"].map(|name| client(&server, name, Transport::Tcp));
    for client in [&mut ann, &mut bob, &mut eve] {
        put(client, "k", b"1").unwrap();
    }
    access.replace(identities(&[line("ann", true), line("bob", false)])).unwrap();
    put(&mut ann, "k", b"2").unwrap();
    assert_eq!(put(&mut bob, "k", b"3"), Err(ErrorKind::Denied), "reconnected, read-only");
    assert_eq!(bob.get(b"k").unwrap().unwrap().to_vec(), b"2");
    assert_eq!(put(&mut eve, "k", b"4"), Err(ErrorKind::Denied), "no longer accepted");
    assert_eq!(ann.get(b"k").unwrap().unwrap().to_vec(), b"2");
}

/// It may have the pool mapped, and needs no request to read.
#[test]
fn an_idle_client_with_reduced_rights_is_disconnected() {
    let (server, access) =
        open(&[("ann", Scope::everything()), ("bob", Scope::everything())], None);
    let [mut ann, mut bob] = ["ann", "bob"].map(|name| client(&server, name, Transport::Shm));
    put(&mut ann, "k", b"1").unwrap();
    put(&mut bob, "k", b"1").unwrap();
    until("both are connected", || server.connections() == 2);
    access
        .replace(identities(&[("ann", Scope::everything()), ("bob", Scope::new(true, b"b/"))]))
        .unwrap();
    until("bob is disconnected", || server.connections() == 1);
    assert_eq!(ann.get(b"k").unwrap().unwrap().to_vec(), b"1");
    assert_eq!(server.connections(), 1, "ann is still connected");
    assert_eq!(bob.get(b"k").unwrap_err().kind(), ErrorKind::Denied);
    put(&mut bob, "b/k", b"2").unwrap();
}

#[test]
fn requests_above_the_rate_limit_cause_no_loads() {
    let directory = Directory::new("rate");
    let on_disk = directory.settings(16 << 20);
    let names: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
    {
        let (server, _) = open_with(&on_disk, &[("ann", Scope::everything())], None);
        let mut ann = client(&server, "ann", Transport::Tcp);
        names.iter().for_each(|key| put(&mut ann, key, b"v").unwrap());
    }
    let (server, access) = open_with(&on_disk, &[("ann", Scope::everything())], Some(2));
    let mut ann = client(&server, "ann", Transport::Tcp);
    let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    assert_eq!(ann.get_many(&keys).unwrap_err().kind(), ErrorKind::RateLimited);
    let refused = access.refusals().of(Refused::Rate);
    let loads = server.engine.disk_status().unwrap().counts.loads.load(Ordering::Relaxed);
    assert!(refused > 0 && loads + refused <= 200, "{loads} loaded, {refused} refused");
}

#[test]
fn a_client_gets_a_new_ticket_for_every_connection() {
    let line = |writes| ("ann", Scope::new(writes, b""));
    let (server, access) = open(&[line(true)], None);
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, ring) = (asked.clone(), access.keyring().clone());
    let mut settings = kv_client::Settings::new(server.address);
    settings.credentials = Some(Arc::new(move |_, _, _| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Credentials::Ticket(ring.issue("ann", Duration::from_secs(30))?))
    }));
    let mut client = Client::connect(settings).unwrap();
    put(&mut client, "k", b"1").unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // This ends its links.
    access.replace(identities(&[line(false)])).unwrap();
    assert_eq!(client.get(b"k").unwrap().unwrap().to_vec(), b"1");
    assert_eq!(put(&mut client, "k", b"2"), Err(ErrorKind::Denied));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn the_rate_limit_refuses_requests_and_loses_none() {
    let scopes = [("busy", Scope::everything()), ("calm", Scope::everything())];
    let (server, access) = open(&scopes, Some(20));
    let [mut busy, mut calm] = ["busy", "calm"].map(|name| client(&server, name, Transport::Tcp));
    let mut done = 0;
    let refused = loop {
        match put(&mut busy, &format!("k{done}"), b"v") {
            Ok(()) => done += 1,
            Err(kind) => break kind,
        }
        assert!(done < 10_000, "the rate limit was never reached");
    };
    assert_eq!(refused, ErrorKind::RateLimited);
    put(&mut calm, "calm", b"v").unwrap();
    assert_eq!(server.engine.index.usage().keys, done + 1);
    assert!(access.refusals().of(Refused::Rate) >= 1);
}

/// A client connects with a key, and sends its hello only after the key was replaced.
#[test]
fn a_replaced_key_is_refused_even_on_an_open_link() {
    let (server, access) = open(&[("ann", Scope::everything())], None);
    let credentials = Credentials::Key(key("ann"));
    let transports = vec![Transport::Tcp];
    let old =
        link::EndpointSettings { transports, credentials, ..link::EndpointSettings::default() };
    let endpoint = Endpoint::new(old).unwrap();
    let mut waiting = RawClient::call(&server, &endpoint);
    let new = Key::from_token("ann", "wlt_another").unwrap();
    access.replace(vec![Identity::keyed(new.clone(), Scope::everything())]).unwrap();
    waiting.open();
    assert!(waiting.is_disconnected());
    let credentials = Credentials::Key(new);
    let mut ann =
        server.client(link::EndpointSettings { credentials, ..link::EndpointSettings::default() });
    put(&mut ann, "k", b"v").unwrap();
}
