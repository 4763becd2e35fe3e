//! Granted memory: lifetime, bounds, rights and limits.

use fabric::link::{EndpointSettings, Transport};
use fabric::{
    Done, ErrorKind, Failure, Lane, MappedInto, Memory, Op, Pages, Region, RemoteRegion, Rights,
    Work,
};

use crate::pair::{LinkPair, only, post, settings};

const CLASSES: [Transport; 2] = [Transport::Shm, Transport::Tcp];

#[test]
fn access_to_a_dropped_region_is_refused_and_the_link_continues() {
    let mut pair = LinkPair::new(settings(), settings());
    let here = pair.region(0, 64, Rights::NONE);
    let kept = pair.region(1, 64, Rights::ALL);
    let kept_window = pair.grant(&kept);
    for round in 0..2 {
        let region = pair.region(1, 64, Rights::ALL);
        let window = pair.grant(&region);
        let write = || Op::write(1, here.slice(..8), window.at(0));
        assert_eq!(pair.do_one(write()), Ok(Done::Placed));
        drop(region);
        assert_eq!(pair.do_one(write()), Err(Failure::Access), "round {round}");
        let read = Op::read(2, here.slice(..8), window.at(0));
        assert_eq!(pair.do_one(read), Err(Failure::Access));
        let work = Work::FetchAdd { old: here.slice(8..16), at: window.at(0), add: 1 };
        assert_eq!(pair.do_one(Op { op_id: 3, work }), Err(Failure::Access));
        let other = Op::write(4, here.slice(..8), kept_window.at(0));
        assert_eq!(pair.do_one(other), Ok(Done::Placed), "round {round}");
    }
    assert_eq!((pair.initiator.ended(), pair.accepted.ended()), (None, None));
}

/// Memory that can only be mapped: over other transports access is refused, although it is the same grant.
#[test]
fn near_memory_is_readable_only_over_shared_memory() {
    let memory = Memory::allocate(8192, Pages::Plain).unwrap();
    memory.write(100, b"here");
    for transport in CLASSES {
        let mut pair = LinkPair::over(transport);
        let here = pair.region(0, 64, Rights::NONE);
        let near = Region::same_host(&memory);
        let window = pair.grant(&near);
        let read = pair.do_one(Op::read(1, here.slice(..4), window.at(100)));
        let mapped =
            pair.initiator.read_mapped(&window, 100, MappedInto::Slice(&here.slice(8..12)));
        match transport {
            Transport::Shm => {
                assert_eq!((read, mapped), (Ok(Done::Placed), true));
                assert_eq!(here.slice(..12).to_vec(), b"here\0\0\0\0here");
                assert!(
                    !pair.initiator.read_mapped(&window, 8190, MappedInto::Slice(&here.slice(..4))),
                    "beyond its end"
                );
                assert!(!pair.initiator.write_mapped(&window, 0, b"mine", (8, 1)), "read-only");
                drop(near);
                assert!(
                    !pair.initiator.read_mapped(&window, 100, MappedInto::Slice(&here.slice(..4))),
                    "revoked"
                );
            }
            _ => assert_eq!((read, mapped), (Err(Failure::Access), false)),
        }
    }
    assert_eq!(memory.load(8), 0);
}

#[test]
fn write_mapped_writes_bytes_and_then_a_word() {
    let mut pair = LinkPair::over(Transport::Shm);
    let there = pair.region(1, 64, Rights::ALL);
    let window = pair.grant(&there);
    // The first write waits for the region's key.
    let here = pair.region(0, 64, Rights::NONE);
    assert_eq!(pair.do_one(Op::write(1, here.slice(..1), window.at(0))), Ok(Done::Placed));
    assert!(pair.initiator.write_mapped(&window, 3, b"bytes", (56, 7)));
    assert_eq!((there.slice(3..8).to_vec(), there.memory().load(56)), (b"bytes".to_vec(), 7));
    for (offset, word) in [(60, 0), (0, 57), (0, 60), (0, 64), (u64::MAX, 0), (0, u64::MAX - 7)] {
        assert!(
            !pair.initiator.write_mapped(&window, offset, b"bytes", (word, 1)),
            "{offset} {word}"
        );
    }
    let mut far = LinkPair::over(Transport::Tcp);
    let there = far.region(1, 64, Rights::ALL);
    let window = far.grant(&there);
    assert!(!far.initiator.write_mapped(&window, 0, b"bytes", (8, 1)), "not supported over TCP");
}

#[test]
fn access_out_of_bounds_or_without_the_right_is_refused_locally() {
    for transport in CLASSES {
        let mut pair = LinkPair::over(transport);
        let here = pair.region(0, 64, Rights::NONE);
        let there = pair.region(1, 64, Rights { read: true, ..Rights::NONE });
        let window = pair.grant(&there);
        let refused = [
            Op::write(1, here.slice(..8), window.at(0)),
            Op::read(2, here.slice(..8), window.at(57)),
            Op::read(3, here.slice(..8), window.at(u64::MAX - 3)),
            Op::write_imm(4, here.slice(..8), window.at(0), 1),
        ];
        for op in refused {
            assert_eq!(pair.do_one(op), Err(Failure::Access));
        }
        let events = pair.initiator.report().status().events.len();
        assert_eq!(pair.do_one(Op::read(5, here.slice(..8), window.at(56))), Ok(Done::Placed));
        assert_eq!(pair.initiator.report().status().events.len(), events, "no rail failed");
    }
}

fn few_regions() -> EndpointSettings {
    let mut settings = only(&[Transport::Tcp]);
    settings.link.max_regions = 4;
    settings
}

#[test]
fn regions_are_limited_and_dropped_ones_do_not_count() {
    let mut pair = LinkPair::new(few_regions(), few_regions());
    let here = pair.region(0, 64, Rights::NONE);
    let mut regions: Vec<_> = (0..5).map(|_| pair.region(1, 64, Rights::ALL)).collect();
    for region in &regions[..4] {
        pair.grant(region);
    }
    let error = pair.accepted.grant(&regions[4]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    drop(regions.remove(0));
    let window = pair.grant(&regions[3]);
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(pair.do_one(write), Ok(Done::Placed), "the new region");
}

#[test]
fn access_to_regions_never_granted_is_refused_and_the_link_continues() {
    let mut pair = LinkPair::new(settings(), settings());
    let there = pair.region(1, 64, Rights::ALL);
    let here = pair.region(0, 64, Rights::NONE);
    let remote = pair.accepted.grant(&there).unwrap();
    let changed = |at: usize, bits: u8| {
        let mut bytes = remote.to_bytes();
        bytes[at] ^= bits;
        RemoteRegion::from_bytes(&bytes).unwrap()
    };
    // Of another lane kind; of another epoch of the peer; with an id that is too large.
    let tcp = changed(1, 5 ^ 3);
    assert_eq!(pair.initiator.import(&tcp).unwrap_err().kind(), ErrorKind::Misuse);
    let error = pair.initiator.import(&changed(12, 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("before the peer restarted"), "{error}");
    let error = pair.initiator.import(&changed(21, 0xff)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    // With an unknown id: the peer is queried.
    let window = pair.initiator.import(&changed(20, 1)).unwrap();
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(pair.do_one(write), Err(Failure::Access));
    let error = pair.initiator.import(&changed(20, 1)).unwrap_err();
    assert!(error.to_string().contains("the peer has dropped it"), "{error}");
    // With a changed length, beyond the end.
    let window = pair.initiator.import(&changed(5, 1)).unwrap();
    let beyond = Op::write(2, here.slice(..8), window.at(60));
    assert_eq!(pair.do_one(beyond), Err(Failure::Access));
    let window = pair.initiator.import(&remote).unwrap();
    let write = Op::write(3, here.slice(..8), window.at(0));
    assert_eq!(pair.do_one(write), Ok(Done::Placed));
    assert_eq!(there.slice(60..).to_vec(), [0; 4]);
}

#[test]
fn many_granted_regions_are_reached() {
    let mut pair = LinkPair::over(Transport::Shm);
    let here = pair.region(0, 64, Rights::NONE);
    here.memory().store(0, 42);
    let regions: Vec<_> = (0..100).map(|_| pair.region(1, 64, Rights::ALL)).collect();
    let windows: Vec<_> = regions.iter().map(|region| pair.grant(region)).collect();
    post(
        &mut pair.initiator,
        windows.iter().map(|window| Op::write(1, here.slice(..8), window.at(8))),
    );
    let [done, _] = pair.run(100, 0);
    assert!(done.iter().all(|completion| completion.outcome == Ok(Done::Placed)), "{done:?}");
    assert!(regions.iter().all(|region| region.memory().load(8) == 42));
}
