//! Regression tests of links.

use std::time::Duration;

use fabric::link::{EndpointSettings, Link, Transport};
use fabric::{Done, Failure, Lane, Op, RemoteRegion, Rights};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::pair::{LinkPair, only};

/// A closed control connection stays readable, and must not keep the link's descriptor readable.
#[test]
fn waiting_for_an_ended_link_sleeps() {
    let LinkPair { mut initiator, accepted, .. } = LinkPair::over(Transport::Tcp);
    drop(accepted);
    let mut done = Vec::new();
    while initiator.ended().is_none() {
        fabric::wait(&mut initiator, &mut done, Duration::from_millis(10));
    }
    let sleeps = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        initiator.poll(&mut done);
        initiator.arm() && !is_readable(&initiator)
    });
    assert!(sleeps, "it spins");
}

fn is_readable(link: &Link) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(link.fd(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

/// The peer has reported that the region is gone: its key must not be used, since that would end the rail.
#[test]
fn access_to_a_region_known_to_be_dropped_does_not_fail_the_rail() {
    for transport in [Transport::Tcp, Transport::Shm] {
        let mut pair = LinkPair::over(transport);
        let here = pair.region(0, 64, Rights::NONE);
        let region = pair.region(1, 64, Rights::ALL);
        let window = pair.grant(&region);
        let write = || Op::write(1, here.slice(..8), window.at(0));
        assert_eq!(pair.do_one(write()), Ok(Done::Placed));
        drop(region);
        // Long enough for both ends to know of it.
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_millis(100) {
            pair.run(0, 0);
            pair.initiator.poll(&mut Vec::new());
            pair.accepted.poll(&mut Vec::new());
        }
        assert_eq!(pair.do_one(write()), Err(Failure::Access), "{transport:?}");
        let status = pair.initiator.report().status();
        assert_eq!(status.counts["rail_down"], 0, "{transport:?}: {:#?}", status.events);
    }
}

/// A refused access ends the shared-memory lane, which must be set up again: otherwise the link ends without a rail,
/// or stays on TCP.
#[test]
fn shared_memory_comes_back_after_a_refusal() {
    let mut pair = LinkPair::over(Transport::Shm);
    let here = pair.region(0, 64, Rights::NONE);
    let (kept, region) = (pair.region(1, 64, Rights::ALL), pair.region(1, 64, Rights::ALL));
    let (kept_window, window) = (pair.grant(&kept), pair.grant(&region));
    drop(region);
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(pair.do_one(write), Err(Failure::Access));
    let write = Op::write(2, here.slice(..8), kept_window.at(0));
    assert_eq!(pair.do_one(write), Ok(Done::Placed), "{:?}", pair.initiator.ended());
}

/// A dropped region whose index another region has: a query for the old one while the new one's key is in flight must be
/// answered.
#[test]
fn a_region_whose_index_is_reused_is_refused() {
    let mut pair = LinkPair::over(Transport::Tcp);
    let here = pair.region(0, 64, Rights::NONE);
    let old = pair.region(1, 64, Rights::ALL);
    let old_remote = pair.accepted.grant(&old).unwrap();
    drop(old);
    let new = pair.region(1, 64, Rights::ALL);
    let _new_remote = pair.accepted.grant(&new).unwrap();
    let Ok(window) = pair.initiator.import(&old_remote) else { return };
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(pair.do_one(write), Err(Failure::Access));
}

/// The same with an id that never existed.
#[test]
fn an_unknown_id_with_the_index_of_a_region_is_refused() {
    let mut pair = LinkPair::over(Transport::Tcp);
    let (here, there) = (pair.region(0, 64, Rights::NONE), pair.region(1, 64, Rights::ALL));
    let mut never = pair.accepted.grant(&there).unwrap().to_bytes();
    never[24] ^= 1;
    let window = pair.initiator.import(&RemoteRegion::from_bytes(&never).unwrap()).unwrap();
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(pair.do_one(write), Err(Failure::Access));
}

/// The ends may have different limits.
#[test]
fn different_limits_of_regions_do_not_end_the_link() {
    let mut few = EndpointSettings { ..only(&[Transport::Tcp]) };
    few.link.max_regions = 4;
    let mut pair = LinkPair::new(few, only(&[Transport::Tcp]));
    let regions: Vec<_> = (0..8).map(|_| pair.region(1, 64, Rights::ALL)).collect();
    let granted: Vec<_> =
        regions.iter().filter_map(|region| pair.accepted.grant(region).ok()).collect();
    assert!(granted.len() >= 4);
    let window = pair.initiator.import(&granted[0]).unwrap();
    let here = pair.region(0, 64, Rights::NONE);
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(pair.do_one(write), Ok(Done::Placed), "{:?}", pair.initiator.ended());
}

/// One operation in 32 is timed for the histogram, as on lanes.
#[test]
fn operations_of_links_are_timed() {
    let mut pair = LinkPair::over(Transport::Tcp);
    let (here, there) = (pair.region(0, 64, Rights::NONE), pair.region(1, 64, Rights::ALL));
    let window = pair.grant(&there);
    for op_id in 0..100 {
        let write = Op::write(op_id, here.slice(..), window.at(0));
        assert_eq!(pair.do_one(write), Ok(Done::Placed));
    }
    assert!(pair.initiator.stats().latency().count() >= 3, "one in 32 is timed");
}
