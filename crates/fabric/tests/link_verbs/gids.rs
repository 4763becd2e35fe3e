//! Restriction of peers by `allowed_gids`.

use std::time::Duration;

use fabric::ErrorKind;
use fabric::link::{Endpoint, Link, Listener};
use fabric::verbs::Gid;

use crate::local_end::{LIMIT, repair_all};
use crate::peer::settings;

/// The caller's two devices are at 10.77.0.1 and 10.77.1.1, the listener's at 10.77.0.2 and 10.77.1.2.
fn ends(dials: &[&str], accepts: &[&str]) -> (Endpoint, Endpoint, Listener) {
    repair_all();
    let with = |devices, list: &[&str]| {
        let mut settings = settings(devices);
        settings.verbs.allowed_gids = list.iter().map(|gid| gid.parse::<Gid>().unwrap()).collect();
        settings
    };
    let (dials, accepts) = (with(["rxe0", "rxe2"], dials), with(["rxe1", "rxe3"], accepts));
    let (caller, host) = (Endpoint::new(dials).unwrap(), Endpoint::new(accepts).unwrap());
    let listener = host.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    (caller, host, listener)
}

/// The rails in use, after enough time to bring up all of them, and those left out.
fn rails(caller: &Endpoint, listener: &Listener) -> (Vec<String>, Vec<String>) {
    let address = listener.address();
    std::thread::scope(|scope| {
        let call = scope.spawn(move || caller.connect(address, LIMIT).unwrap());
        let mut accepted = listener.accept(LIMIT).unwrap().unwrap();
        while !call.is_finished() {
            fabric::wait(&mut accepted, &mut Vec::new(), Duration::from_millis(1));
        }
        let mut initiator = call.join().unwrap();
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_secs(5) {
            for link in [&mut initiator, &mut accepted] {
                fabric::wait(link, &mut Vec::new(), Duration::from_millis(1));
            }
        }
        (in_use(&initiator), initiator.report().status().left_out)
    })
}

fn in_use(link: &Link) -> Vec<String> {
    let rails = link.report().status().rails.into_iter();
    rails.filter(|rail| rail.in_use).map(|rail| rail.name).collect()
}

#[test]
fn a_caller_none_of_whose_gids_is_allowed_is_refused_and_counted() {
    let (caller, _host, listener) = ends(&[], &["10.77.9.9"]);
    let error = caller.connect(listener.address(), LIMIT).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("allowed_gids"), "{error}");
    assert_eq!(listener.counts().refused_hellos(), [("gid_not_allowed", 1)]);
}

#[test]
fn a_caller_that_allows_one_rail_uses_that_one() {
    let (caller, _host, listener) = ends(&["10.77.1.2"], &[]);
    let (rails, left_out) = rails(&caller, &listener);
    assert_eq!(rails, ["rxe2/1–rxe3/1"]);
    let why = "verbs: the peer's rxe1/1: its GID is not allowed here";
    assert!(left_out.iter().any(|left_out| left_out == why), "{left_out:?}");
}

#[test]
fn a_list_of_all_gids_allows_all_rails() {
    let (caller, _host, listener) = ends(&["10.77.0.2", "10.77.1.2"], &["10.77.0.1", "10.77.1.1"]);
    assert_eq!(rails(&caller, &listener).0.len(), 2);
}

/// The caller does not know what the listener allows: the listener refuses its rails.
#[test]
fn a_listener_that_allows_one_rail_refuses_others() {
    let (caller, _host, listener) = ends(&[], &["10.77.1.1"]);
    assert_eq!(rails(&caller, &listener).0, ["rxe2/1–rxe3/1"]);
}
