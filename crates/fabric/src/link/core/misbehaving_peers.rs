//! Tests of links whose peer sends what it must not, with receive queues of their own and with a shared one.

use std::collections::VecDeque;
use std::time::Duration;

use crate::link::Config;
use crate::link::protocol::header::{Body, Header};
use crate::link::simulation::SimLink;
use crate::memory::{Memory, Pages};
use crate::op::{Completion, Op};
use crate::packets::Packet;
use crate::region::{Region, Rights};
use crate::setup::register_software;

/// Seeds of a run with own queues, and of one with a shared queue.
const SEEDS: [u64; 2] = [1, 8];
/// The seed of a run whose messages travel in packets.
const PACKETS: u64 = 16;

fn region(bytes: &[u8]) -> Region {
    let memory = Memory::allocate(4096, Pages::Plain).unwrap();
    memory.write(0, bytes);
    register_software(&memory, Rights::ALL)
}

fn step(sim: &mut SimLink, ends: &[usize], done: &mut Vec<Completion>) {
    let now = sim.world.now();
    for end in ends {
        sim.cores[*end].maintain(now);
        let mut ignored = Vec::new();
        sim.cores[*end].poll(now, if *end == 0 { done } else { &mut ignored });
    }
    sim.world.advance(Duration::from_micros(500));
}

fn connected(seed: u64) -> SimLink {
    let mut sim = SimLink::new(seed, &Config::default(), true);
    for _ in 0..2000 {
        step(&mut sim, &[0, 1], &mut Vec::new());
        if sim.cores.iter().all(|core| core.rails.active().len() == 2) {
            return sim;
        }
    }
    panic!("{}", sim.cores[0].describe());
}

#[test]
fn a_link_ends_after_many_malformed_messages_at_once() {
    for seed in SEEDS {
        let mut sim = connected(seed);
        let into = region(&[]);
        sim.cores[0].post(&mut VecDeque::from([Op::receive(5, into.slice(..64))]));
        let malformed = region(&[0xff; 64]);
        let mut ops: VecDeque<Op> =
            (0..8).map(|at| Op::send(0x7fff_0000 + at, malformed.slice(..64))).collect();
        sim.cores[1].rails.lane_mut(0).unwrap().post(&mut ops);
        // The end does not poll for a moment, so that all arrive together.
        sim.world.advance(Duration::from_millis(1));
        let mut done = Vec::new();
        for _ in 0..20_000 {
            step(&mut sim, &[0], &mut done);
        }
        let core = &sim.cores[0];
        assert!(core.ended().is_some(), "{}", core.describe());
        assert_eq!(done.len(), 1, "the receive is returned: {}", core.describe());
        assert!(core.rails.lane(0).is_none(), "{}", core.describe());
    }
}

#[test]
fn a_peer_without_credits_cannot_fill_memory() {
    for seed in SEEDS {
        let mut sim = connected(seed);
        for sequence in 0..1000 {
            let body = Body::Fragment { total: 8, offset: 0, imm: None };
            let header = Header { sequence, freed: [0; 2], taken: 0, body };
            let (bytes, own) = header.to_bytes();
            let message = region(&bytes[..own]);
            let mut ops = VecDeque::from([Op::send(0x7fff_0000, message.slice(..own + 8))]);
            if let Some(lane) = sim.cores[1].rails.lane_mut(0) {
                lane.post(&mut ops);
            }
            step(&mut sim, &[0, 1], &mut Vec::new());
        }
        let core = &sim.cores[0];
        let waiting = core.messages.describe().matches("CopiedFrom").count();
        // With a queue of its own the device refuses them.
        assert!(core.ended().is_some() || waiting == 0, "{waiting} messages wait");
    }
}

#[test]
fn a_malformed_packet_ends_the_link() {
    let mut sim = connected(PACKETS);
    let packet = Packet { head: &[0xff; 64], body: &[], offset: 0, length: 0 };
    assert!(sim.cores[1].rails.lane_mut(0).unwrap().send_raw_packet(packet));
    for _ in 0..20 {
        step(&mut sim, &[0, 1], &mut Vec::new());
    }
    let ended = sim.cores[0].ended().expect("it has ended");
    assert!(ended.why.contains("malformed message of 64 bytes"), "{}", ended.why);
}

#[test]
fn a_peer_whose_packets_are_not_taken_cannot_fill_memory() {
    let mut sim = connected(PACKETS);
    for sequence in 0..2000 {
        let body = Body::Fragment { total: 8, offset: 0, imm: None };
        let header = Header { sequence, freed: [0; 2], taken: 0, body };
        let (mut bytes, own) = header.to_bytes();
        bytes[own..own + 8].fill(1);
        let packet = Packet { head: &bytes[..own + 8], body: &[], offset: 0, length: 0 };
        if let Some(lane) = sim.cores[1].rails.lane_mut(0) {
            lane.send_raw_packet(packet);
        }
        step(&mut sim, &[0, 1], &mut Vec::new());
        let waiting = sim.cores[0].messages.inbox().waiting();
        assert!(waiting <= 600, "{waiting} messages wait");
    }
    let ended = sim.cores[0].ended().expect("it has ended");
    assert!(ended.why.contains("untaken messages"), "{}", ended.why);
}
