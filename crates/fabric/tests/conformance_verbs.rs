//! The conformance tests over verbs, on the lab's first wire.
#![allow(missing_docs, reason = "a test")]

#[path = "conformance/cases.rs"]
mod cases;
#[path = "conformance/datagrams.rs"]
mod datagrams;
#[path = "conformance/linked.rs"]
mod linked;
#[macro_use]
#[path = "conformance/list.rs"]
mod list;
#[path = "conformance/pair.rs"]
mod pair;
#[path = "conformance/progress.rs"]
mod progress;
#[path = "conformance/refusals.rs"]
mod refusals;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, EndpointSettings, Link, Transport};
use fabric::verbs::{
    Config, DeviceRequest, Domain, LIBRARY, QpType, SrqConfig, choose, list_devices,
};
use fabric::{Completion, Done, Lane, Memory, Op, Pages, Rights, wait};
use pair::Pair;

mod verbs_rc {
    reliable_lane!(crate::verbs(fabric::verbs::Config::default()));
}

mod verbs_rc_shared_receives_by_events {
    reliable_lane!(crate::verbs(fabric::verbs::Config {
        srq: Some(crate::SRQ),
        use_event_channel: true,
        ..Default::default()
    }));
}

/// Needs the variables of `fabric::ofi::ENVIRONMENT`.
mod ofi_verbs {
    reliable_lane!(crate::ofi());
}

mod link_verbs {
    reliable_lane!(crate::link());
}

mod verbs_ud {
    datagram_lane!(crate::verbs(fabric::verbs::Config {
        qp_type: fabric::verbs::QpType::Ud,
        ..Default::default()
    }));
}

/// As long as the longest message of the cases.
const SRQ: SrqConfig = SrqConfig { memory: 6 << 20, max_message: 2 << 20, max_unexpected: 16 };

/// One end has a queue of its own, the other receives from a shared one.
fn link() -> Pair {
    let queue = SrqConfig { memory: 1 << 20, ..SrqConfig::default() };
    let mut pair = linked::pair([on("rxe0", None), on("rxe1", Some(queue))]);
    pair.largest = 32 << 20;
    pair
}

fn on(device: &str, srq: Option<SrqConfig>) -> EndpointSettings {
    EndpointSettings {
        transports: vec![Transport::Verbs],
        devices: vec![device.to_owned()],
        verbs: Config { srq, ..Config::default() },
        ..EndpointSettings::default()
    }
}

/// More messages at the same time than the queue has slots; and a link whose messages nobody takes keeps none of them.
#[test]
fn links_share_a_queue_with_fewer_slots_than_they_send_messages() {
    const LINKS: u64 = 6;
    const MESSAGES: u64 = 60;
    let queue = SrqConfig { memory: 16 << 10, ..SrqConfig::default() };
    let far = Endpoint::new(on("rxe1", Some(queue))).expect("an endpoint");
    let near = Endpoint::new(on("rxe0", None)).expect("an endpoint");
    let listener = far.listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let limit = Duration::from_secs(60);
    let mut links: Vec<[Link; 2]> = (0..LINKS)
        .map(|_| {
            let address = listener.address();
            let dialling = near.clone();
            let dialled = std::thread::spawn(move || dialling.connect(address, limit));
            let mut accepted = listener.accept(limit).expect("a connection").expect("a link");
            while !accepted.is_up() {
                assert_eq!(accepted.ended(), None);
                wait(&mut accepted, &mut Vec::new(), Duration::from_millis(1));
            }
            [dialled.join().expect("no panic").expect("a link"), accepted]
        })
        .collect();
    let memory = Memory::allocate(1 << 20, Pages::Plain).expect("memory");
    let from = near.register(&memory, Rights::NONE).expect("registered");
    let into = far.register(&memory, Rights::NONE).expect("registered");
    for [sender, receiver] in &mut links {
        let size = |op_id: u64| 1 + op_id as usize * 50;
        let mut sends: VecDeque<Op> =
            (0..MESSAGES).map(|op_id| Op::send(op_id, from.slice(..size(op_id)))).collect();
        sender.post(&mut sends);
        assert!(sends.is_empty());
        receiver.post(&mut VecDeque::from([Op::receive(0, into.slice(..8))]));
    }
    // All are sent, though only the first of each link is taken.
    let mut done: Vec<Vec<Completion>> = (0..2 * LINKS).map(|_| Vec::new()).collect();
    let started = Instant::now();
    let poll_until =
        |links: &mut Vec<[Link; 2]>, done: &mut Vec<Vec<Completion>>, wanted: [u64; 2]| {
            while done.iter().enumerate().any(|(at, done)| (done.len() as u64) < wanted[at % 2]) {
                for (at, link) in links.iter_mut().flatten().enumerate() {
                    link.poll(&mut done[at]);
                    assert_eq!(link.ended(), None);
                }
                assert!(
                    started.elapsed() < limit,
                    "{:?}",
                    done.iter().map(Vec::len).collect::<Vec<_>>()
                );
            }
        };
    poll_until(&mut links, &mut done, [MESSAGES, 1]);
    for [_, receiver] in &mut links {
        let mut receives: VecDeque<Op> =
            (1..MESSAGES).map(|op_id| Op::receive(op_id, into.slice(..4096))).collect();
        receiver.post(&mut receives);
    }
    poll_until(&mut links, &mut done, [MESSAGES, MESSAGES]);
    for received in done.iter().skip(1).step_by(2) {
        for (at, completion) in received.iter().enumerate() {
            let outcome = Ok(Done::Received { length: 1 + at * 50, imm: None });
            assert_eq!((completion.op_id, completion.outcome), (at as u64, outcome));
        }
    }
}

/// libfabric over the same two devices.
fn ofi() -> Pair {
    use fabric::ofi;
    let listed = ofi::list_providers(None).expect("libfabric is installed");
    let timeout = Duration::from_secs(5);
    let config = ofi::Config { timeout, receive_timeout: timeout, ..ofi::Config::default() };
    let end = |device: &str| {
        let is_it = |provider: &&ofi::Provider| {
            provider.name == "verbs;ofi_rxm" && provider.domain == device
        };
        let provider = listed.providers.iter().find(is_it);
        let provider = provider.unwrap_or_else(|| panic!("{device} in {listed:?}")).clone();
        let choice = ofi::Choice { provider, why: "the lab has it".to_owned() };
        Arc::new(ofi::Domain::open(&choice, config.clone()).expect("opened"))
    };
    let mut pair = Pair::connect(end("rxe0"), end("rxe1"));
    pair.largest = 32 << 20;
    pair
}

fn verbs(config: Config) -> Pair {
    // A second before each retransmission: on a busy machine an emulated device may not acknowledge for
    // longer than the default allows in all, and its lane ends.
    let config = Config { timeout: 18, ..config };
    let library = Path::new(LIBRARY);
    let devices = list_devices(library).expect("the lab has devices").devices;
    let end = |device: &str| {
        let request = DeviceRequest {
            device: Some(device.to_owned()),
            port: None,
            gid_index: None,
            mtu: 4096,
        };
        let choice = choose(&devices, &request).expect("the lab's wires are up");
        Arc::new(Domain::open_with(library, &choice, config.clone()).expect("opened"))
    };
    let mut pair = Pair::connect(end("rxe0"), end("rxe1"));
    pair.keeps_messages = config.srq.is_some();
    // Emulated devices transfer some tens of megabytes per second, or fewer on a busy machine.
    pair.largest = 8 << 20;
    let caps = pair.a.lane.caps();
    assert_eq!(caps.datagram, config.qp_type == QpType::Ud);
    assert_eq!(caps.spins, !config.use_event_channel);
    pair
}
