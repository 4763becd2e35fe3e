//! What links do wrong so far.

use std::time::Duration;

use fabric::link::{Class, Link, Settings};
use fabric::{Done, Failure, Lane, Op, RemoteRegion, Rights};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::pair::{Two, only};

/// The control connection stays readable at its end, and in the descriptor that is slept on.
#[test]
fn who_waits_for_a_link_that_is_over_sleeps() {
    let Two { mut dialler, acceptor, .. } = Two::over(Class::Tcp);
    drop(acceptor);
    let mut done = Vec::new();
    while dialler.ended().is_none() {
        fabric::wait(&mut dialler, &mut done, Duration::from_millis(10));
    }
    let sleeps = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        dialler.poll(&mut done);
        dialler.arm() && !is_readable(&dialler)
    });
    assert!(sleeps, "it goes round and round");
}

fn is_readable(link: &Link) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(link.fd(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

/// The peer has said that the region is gone; all the same its key is used, which costs the rail its life.
#[test]
fn a_region_known_to_be_dropped_costs_no_rail_its_life() {
    for class in [Class::Tcp, Class::Shm] {
        let mut two = Two::over(class);
        let here = two.region(0, 64, Rights::NONE);
        let region = two.region(1, 64, Rights::ALL);
        let window = two.grant(&region);
        let write = || Op::write(1, here.slice(..8), window.at(0));
        assert_eq!(two.do_one(write()), Ok(Done::Placed));
        drop(region);
        // Long enough for both ends to have heard of it.
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(100) {
            two.run(0, 0);
            two.dialler.poll(&mut Vec::new());
            two.acceptor.poll(&mut Vec::new());
        }
        assert_eq!(two.do_one(write()), Err(Failure::Access), "{class:?}");
        let explained = two.dialler.report().explain();
        assert_eq!(explained.counts["rail_down"], 0, "{class:?}: {:#?}", explained.events);
    }
}

/// A refusal of the peer's is no reason never to use shared memory again: the link ends for want of a rail,
/// or stays on TCP.
#[test]
fn shared_memory_comes_back_after_a_refusal() {
    let mut two = Two::over(Class::Shm);
    let here = two.region(0, 64, Rights::NONE);
    let (kept, region) = (two.region(1, 64, Rights::ALL), two.region(1, 64, Rights::ALL));
    let (kept_window, window) = (two.grant(&kept), two.grant(&region));
    drop(region);
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(two.do_one(write), Err(Failure::Access));
    let write = Op::write(2, here.slice(..8), kept_window.at(0));
    assert_eq!(two.do_one(write), Ok(Done::Placed), "{:?}", two.dialler.ended());
}

/// A region that is gone, and another that has its place: one who asks for the old one while the new one's
/// key is on its way is never answered.
#[test]
fn a_region_whose_place_another_has_is_refused() {
    let mut two = Two::over(Class::Tcp);
    let here = two.region(0, 64, Rights::NONE);
    let old = two.region(1, 64, Rights::ALL);
    let old_remote = two.acceptor.grant(&old).unwrap();
    drop(old);
    let new = two.region(1, 64, Rights::ALL);
    let _new_remote = two.acceptor.grant(&new).unwrap();
    let Ok(window) = two.dialler.import(&old_remote) else { return };
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(two.do_one(write), Err(Failure::Access));
}

/// The same with a number that was never given.
#[test]
fn a_region_that_never_was_in_the_place_of_another_is_refused() {
    let mut two = Two::over(Class::Tcp);
    let (here, there) = (two.region(0, 64, Rights::NONE), two.region(1, 64, Rights::ALL));
    let mut never = two.acceptor.grant(&there).unwrap().to_bytes();
    never[24] ^= 1;
    let window = two.dialler.import(&RemoteRegion::from_bytes(&never).unwrap()).unwrap();
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(two.do_one(write), Err(Failure::Access));
}

/// Each end has its own limit; the link is not what pays for the difference.
#[test]
fn an_end_with_a_lower_limit_of_regions_does_not_lose_the_link() {
    let mut few = Settings { ..only(&[Class::Tcp]) };
    few.link.regions = 4;
    let mut two = Two::new(few, only(&[Class::Tcp]));
    let regions: Vec<_> = (0..8).map(|_| two.region(1, 64, Rights::ALL)).collect();
    let granted: Vec<_> =
        regions.iter().filter_map(|region| two.acceptor.grant(region).ok()).collect();
    assert!(granted.len() >= 4);
    let window = two.dialler.import(&granted[0]).unwrap();
    let here = two.region(0, 64, Rights::NONE);
    let write = Op::write(1, here.slice(..8), window.at(0));
    assert_eq!(two.do_one(write), Ok(Done::Placed), "{:?}", two.dialler.ended());
}

/// Lanes time one operation in 32 for the histogram; links none.
#[test]
fn operations_of_links_are_timed() {
    let mut two = Two::over(Class::Tcp);
    let (here, there) = (two.region(0, 64, Rights::NONE), two.region(1, 64, Rights::ALL));
    let window = two.grant(&there);
    for token in 0..100 {
        let write = Op::write(token, here.slice(..), window.at(0));
        assert_eq!(two.do_one(write), Ok(Done::Placed));
    }
    assert!(two.dialler.stats().latency().count() >= 3, "one in 32 is timed");
}
