//! Memory that a peer may use: as long as it is there, as far as it reaches, and no more of it than allowed.

use fabric::link::{Class, Settings};
use fabric::{Done, Failure, Kind, Lane, Memory, Op, Pages, Region, RemoteRegion, Rights, Work};

use crate::pair::{Two, only, post, settings};

const CLASSES: [Class; 2] = [Class::Shm, Class::Tcp];

#[test]
fn a_dropped_region_is_refused_and_the_link_goes_on() {
    let mut two = Two::new(settings(), settings());
    let here = two.region(0, 64, Rights::NONE);
    let kept = two.region(1, 64, Rights::ALL);
    let kept_window = two.grant(&kept);
    for round in 0..2 {
        let region = two.region(1, 64, Rights::ALL);
        let window = two.grant(&region);
        let write = || Op::write(1, here.slice(..8), window.at(0));
        assert_eq!(two.do_one(write()), Ok(Done::Placed));
        drop(region);
        assert_eq!(two.do_one(write()), Err(Failure::Access), "round {round}");
        let read = Op::read(2, here.slice(..8), window.at(0));
        assert_eq!(two.do_one(read), Err(Failure::Access));
        let work = Work::FetchAdd { old: here.slice(8..16), at: window.at(0), add: 1 };
        assert_eq!(two.do_one(Op { token: 3, work }), Err(Failure::Access));
        let other = Op::write(4, here.slice(..8), kept_window.at(0));
        assert_eq!(two.do_one(other), Ok(Done::Placed), "round {round}");
    }
    assert_eq!((two.dialler.ended(), two.acceptor.ended()), (None, None));
}

/// Only who can map it: over other transports it is refused, though it is the same grant.
#[test]
fn near_memory_is_read_on_shared_memory_and_nowhere_else() {
    let memory = Memory::allocate(8192, Pages::Plain).unwrap();
    memory.write(100, b"here");
    for class in CLASSES {
        let mut two = Two::over(class);
        let here = two.region(0, 64, Rights::NONE);
        let near = Region::near(&memory);
        let window = two.grant(&near);
        let read = two.do_one(Op::read(1, here.slice(..4), window.at(100)));
        let peeked = two.dialler.peek(&window, 100, &here.slice(8..12));
        match class {
            Class::Shm => {
                assert_eq!((read, peeked), (Ok(Done::Placed), true));
                assert_eq!(here.slice(..12).to_vec(), b"here\0\0\0\0here");
                assert!(!two.dialler.peek(&window, 8190, &here.slice(..4)), "beyond its end");
                assert!(!two.dialler.poke(&window, 0, b"mine", (8, 1)), "not to be written");
                drop(near);
                assert!(!two.dialler.peek(&window, 100, &here.slice(..4)), "revoked");
            }
            _ => assert_eq!((read, peeked), (Err(Failure::Access), false)),
        }
    }
    assert_eq!(memory.load(8), 0);
}

#[test]
fn what_is_poked_is_there_and_its_word_after_it() {
    let mut two = Two::over(Class::Shm);
    let there = two.region(1, 64, Rights::ALL);
    let window = two.grant(&there);
    // The first write waits until its key is known.
    let here = two.region(0, 64, Rights::NONE);
    assert_eq!(two.do_one(Op::write(1, here.slice(..1), window.at(0))), Ok(Done::Placed));
    assert!(two.dialler.poke(&window, 3, b"bytes", (56, 7)));
    assert_eq!((there.slice(3..8).to_vec(), there.memory().load(56)), (b"bytes".to_vec(), 7));
    for (offset, word) in [(60, 0), (0, 57), (0, 60), (0, 64), (u64::MAX, 0), (0, u64::MAX - 7)] {
        assert!(!two.dialler.poke(&window, offset, b"bytes", (word, 1)), "{offset} {word}");
    }
    let mut far = Two::over(Class::Tcp);
    let there = far.region(1, 64, Rights::ALL);
    let window = far.grant(&there);
    assert!(!far.dialler.poke(&window, 0, b"bytes", (8, 1)), "a write must be posted there");
}

#[test]
fn beyond_the_end_and_without_the_right_is_refused_here() {
    for class in CLASSES {
        let mut two = Two::over(class);
        let here = two.region(0, 64, Rights::NONE);
        let there = two.region(1, 64, Rights { read: true, ..Rights::NONE });
        let window = two.grant(&there);
        let refused = [
            Op::write(1, here.slice(..8), window.at(0)),
            Op::read(2, here.slice(..8), window.at(57)),
            Op::read(3, here.slice(..8), window.at(u64::MAX - 3)),
            Op::write_imm(4, here.slice(..8), window.at(0), 1),
        ];
        for op in refused {
            assert_eq!(two.do_one(op), Err(Failure::Access));
        }
        let events = two.dialler.report().explain().events.len();
        assert_eq!(two.do_one(Op::read(5, here.slice(..8), window.at(56))), Ok(Done::Placed));
        assert_eq!(two.dialler.report().explain().events.len(), events, "no rail died of it");
    }
}

fn few_regions() -> Settings {
    let mut settings = only(&[Class::Tcp]);
    settings.link.regions = 4;
    settings
}

#[test]
fn regions_have_a_limit_and_dropped_ones_make_room() {
    let mut two = Two::new(few_regions(), few_regions());
    let here = two.region(0, 64, Rights::NONE);
    let mut regions: Vec<_> = (0..5).map(|_| two.region(1, 64, Rights::ALL)).collect();
    for region in &regions[..4] {
        two.grant(region);
    }
    let error = two.acceptor.grant(&regions[4]).unwrap_err();
    assert_eq!(error.kind(), Kind::Full, "{error}");
    drop(regions.remove(0));
    let window = two.grant(&regions[3]);
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(two.do_one(write), Ok(Done::Placed), "the new one, not the old");
}

#[test]
fn what_was_never_granted_is_refused_and_the_link_goes_on() {
    let mut two = Two::new(settings(), settings());
    let there = two.region(1, 64, Rights::ALL);
    let here = two.region(0, 64, Rights::NONE);
    let remote = two.acceptor.grant(&there).unwrap();
    let changed = |at: usize, bits: u8| {
        let mut bytes = remote.to_bytes();
        bytes[at] ^= bits;
        RemoteRegion::from_bytes(&bytes).unwrap()
    };
    // Of another kind of lane; of another life of the peer's; with a number that is too large.
    let tcp = changed(1, 5 ^ 3);
    assert_eq!(two.dialler.import(&tcp).unwrap_err().kind(), Kind::Misuse);
    let error = two.dialler.import(&changed(12, 1)).unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    assert!(error.to_string().contains("before the peer restarted"), "{error}");
    let error = two.dialler.import(&changed(21, 0xff)).unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    // With a number that nobody has: the peer is asked.
    let window = two.dialler.import(&changed(20, 1)).unwrap();
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(two.do_one(write), Err(Failure::Access));
    let error = two.dialler.import(&changed(20, 1)).unwrap_err();
    assert!(error.to_string().contains("the peer has dropped it"), "{error}");
    // More than there is, by a changed length.
    let window = two.dialler.import(&changed(5, 1)).unwrap();
    let beyond = Op::write(2, here.slice(..8), window.at(60));
    assert_eq!(two.do_one(beyond), Err(Failure::Access));
    let window = two.dialler.import(&remote).unwrap();
    let write = Op::write(3, here.slice(..8), window.at(0));
    assert_eq!(two.do_one(write), Ok(Done::Placed));
    assert_eq!(there.slice(60..).to_vec(), [0; 4]);
}

#[test]
fn regions_granted_before_and_after_the_link_is_used_are_reached() {
    let mut two = Two::over(Class::Shm);
    let here = two.region(0, 64, Rights::NONE);
    here.memory().store(0, 42);
    let regions: Vec<_> = (0..100).map(|_| two.region(1, 64, Rights::ALL)).collect();
    let windows: Vec<_> = regions.iter().map(|region| two.grant(region)).collect();
    post(
        &mut two.dialler,
        windows.iter().map(|window| Op::write(1, here.slice(..8), window.at(8))),
    );
    let [done, _] = two.run(100, 0);
    assert!(done.iter().all(|completion| completion.outcome == Ok(Done::Placed)), "{done:?}");
    assert!(regions.iter().all(|region| region.memory().load(8) == 42));
}
