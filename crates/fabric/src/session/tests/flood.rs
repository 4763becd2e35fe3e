//! More initiators than a listener allows, and fewer descriptors than it needs.

use std::fs::File;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

#[test]
fn silent_initiators_do_not_block_others_or_disturb_sessions() {
    let flood = allow_descriptors(2000);
    let hour = Duration::from_secs(3600);
    let listener = open(ListenerConfig { handshake_timeout: hour, ..config() });
    let (mut initiator, mut accepted) = pair(&listener, &with_key());
    let mut silent = Vec::new();
    let mut honest = Vec::new();
    for number in 0..flood {
        silent.push(connect_raw(&listener));
        if number % 100 == 0 {
            initiator.send(&number.to_le_bytes()).unwrap();
            assert_eq!(next(&mut accepted).unwrap(), number.to_le_bytes());
            accepted.send(b"received").unwrap();
            assert_eq!(next(&mut initiator).unwrap(), b"received");
        }
        if number % 500 == 0 {
            honest.push(pair(&listener, &with_key()));
        }
    }
    honest.push(pair(&listener, &with_key()));
    // Those that are gone were given up, each as the oldest.
    let counts = listener.counts();
    let given_up = || counts.refused(Reason::TooMany) as usize;
    wait_for("the flood to be in", || given_up() + counts.half_open() == flood);
    assert!(counts.half_open() <= 256);
    assert_eq!(refusals(&listener), [("too_many", given_up() as u64)]);
    assert_eq!(listener.counts().accepted(), honest.len() as u64 + 1);
    for (initiator, accepted) in &mut honest {
        initiator.send(b"hello").unwrap();
        assert_eq!(next(accepted).unwrap(), b"hello");
    }
}

/// Runs the test in its own process, in which no descriptor is free.
#[test]
fn a_listener_without_descriptors_pauses_and_does_not_spin() {
    const ALONE: &str = "WIRELANE_TEST_STARVES";
    if std::env::var_os(ALONE).is_some() {
        return starve();
    }
    let name = "session::tests::flood::a_listener_without_descriptors_pauses_and_does_not_spin";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{output:?}");
}

fn starve() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
    let started = Instant::now();
    let listener = open(config());
    let mut hogs: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // One descriptor for the initiator, none for the listener.
    hogs.pop();
    let address = listener.address();
    let initiator = std::thread::spawn(move || {
        connect(address, &with_key(), b"", &Config::default(), LIMIT).unwrap()
    });
    wait_for("the listener to pause", || listener.counts().starved() >= 3);
    assert_eq!(listener.counts().accepted(), 0);
    // Each pause is at least 100 ms.
    let pauses = started.elapsed().as_millis() as u64 / 100 + 1;
    assert!(listener.counts().starved() <= pauses + 1, "it spins");
    drop(hogs);
    let mut accepted = listener.accept(LIMIT).expect("the initiator that waited");
    let mut initiator = initiator.join().unwrap();
    initiator.send(b"at last").unwrap();
    assert_eq!(next(&mut accepted).unwrap(), b"at last");
    assert_eq!(refusals(&listener), []);
}

/// Raises the descriptor limit, and returns how many of the wanted initiators are possible, with both ends in this process.
fn allow_descriptors(wanted: u64) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = 2 * wanted + 500;
    let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
    if current.is_some_and(|current| current < raised) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).unwrap();
    }
    let initiators = (raised - 500) / 2;
    if initiators < wanted {
        eprintln!("{initiators} initiators instead of {wanted}: `ulimit -Hn` is {raised}");
    }
    assert!(initiators > 500, "too few descriptors for this test: raise `ulimit -Hn` to {needed}");
    initiators as usize
}
