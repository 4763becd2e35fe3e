//! One set of tests over every transport that any machine has. Those over verbs need the lab.
#![allow(missing_docs, reason = "a test")]

mod cases;
mod linked;
#[macro_use]
mod list;
mod packets;
mod pair;
mod progress;
mod refusals;

use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use fabric::link::{EndpointSettings, Transport};
use fabric::{Fabric, Op, Rights, Work, shm, sim, tcp};
use pair::Pair;

mod sim_without_faults {
    reliable_lane!(crate::sim(true, |_| ()));
}

mod sim_slow_and_lossy {
    reliable_lane!(crate::sim(false, crate::slow_and_lossy));
}

mod sim_slow_and_lossy_in_order {
    reliable_lane!(crate::sim(true, crate::slow_and_lossy));
}

mod sim_with_packets {
    packet_lane!(crate::sim_with_packets(), a_packet_arrives_after_the_writes_before_it);
}

mod shm_between_processes_of_one_user {
    reliable_lane!(crate::shm());
    packet_lane!(crate::shm(), a_packet_arrives_after_the_writes_before_it);
}

mod tcp_one_stream {
    reliable_lane!(crate::tcp(fabric::tcp::Config::default()));
    packet_lane!(
        crate::tcp(fabric::tcp::Config::default()),
        a_packet_arrives_after_the_writes_before_it
    );
}

mod tcp_four_streams {
    reliable_lane!(crate::tcp(fabric::tcp::Config { streams: 4, ..Default::default() }));
    packet_lane!(crate::tcp(fabric::tcp::Config { streams: 4, ..Default::default() }));
}

mod tcp_encrypted {
    reliable_lane!(crate::encrypted());
    packet_lane!(crate::encrypted(), a_packet_arrives_after_the_writes_before_it);
}

mod tcp_two_streams_over_a_shared_listener {
    reliable_lane!(crate::tcp(crate::over_a_shared_listener()));
}

#[cfg(feature = "external-tests")]
mod ofi_tcp {
    reliable_lane!(crate::ofi("tcp"));
}

#[cfg(feature = "external-tests")]
mod ofi_shm {
    reliable_lane!(crate::ofi("shm"));
}

mod link_shm {
    reliable_lane!(crate::linked::pair(crate::both(fabric::link::Transport::Shm)));
}

mod link_tcp {
    reliable_lane!(crate::linked::pair(crate::both(fabric::link::Transport::Tcp)));
}

#[cfg(feature = "external-tests")]
mod link_ofi {
    reliable_lane!(crate::linked::pair(crate::both(fabric::link::Transport::Ofi)));
}

#[test]
fn operations_that_an_end_executes_for_its_peer_are_counted() {
    the_peers_operations_are_counted(tcp(tcp::Config::default()));
    the_peers_operations_are_counted(linked::pair(both(Transport::Tcp)));
}

/// For lanes whose operations the peer's process executes.
fn the_peers_operations_are_counted(mut pair: Pair) {
    let (_region, window) = pair.shared(64, Rights::ALL);
    let [from, old] = [64, 8].map(|length| pair.a.region(length, Rights::NONE));
    let counted = |pair: &Pair| pair.b.lane.stats().peer_operations();
    assert_eq!(counted(&pair), 0, "setting up a lane is no operation of its owner");
    let work = Work::FetchAdd { old: old.slice(..), at: window.at(8), add: 5 };
    let ops = [
        Op::write(1, from.slice(..), window.at(0)),
        Op::read(2, from.slice(..), window.at(0)),
        Op { op_id: 3, work },
    ];
    for (op, count) in ops.into_iter().zip(1..) {
        pair.succeed(op);
        assert_eq!(counted(&pair), count);
    }
    let buffer = pair.b.region(64, Rights::NONE);
    pair.b.post(Op::receive(1, buffer.slice(..)));
    pair.succeed(Op::send(4, from.slice(..)));
    assert_eq!(counted(&pair), 3, "a message has a completion");
}

fn both(transport: Transport) -> [EndpointSettings; 2] {
    [(); 2]
        .map(|()| EndpointSettings { transports: vec![transport], ..EndpointSettings::default() })
}

fn tcp(config: tcp::Config) -> Pair {
    let config = tcp::Config { receive_timeout: Duration::from_secs(1), ..config };
    let fabric = Arc::new(tcp::Tcp::new(config));
    Pair::connect(fabric.clone(), fabric)
}

/// Starts a listener that accepts only lanes, until the process ends.
fn over_a_shared_listener() -> tcp::Config {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let listener_address = listener.local_addr().ok();
    let router = tcp::ConnectionRouter::default();
    let delivered = router.clone();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let mut header = [0; tcp::STREAM_HEADER_BYTES];
            if socket.read_exact(&mut header).is_ok() && header.starts_with(&tcp::MAGIC) {
                assert!(delivered.deliver(header, socket), "an unexpected connection");
            }
        }
    });
    tcp::Config { streams: 2, router: Some(router), listener_address, ..tcp::Config::default() }
}

fn shm() -> Pair {
    let config = shm::Config { receive_timeout: Duration::from_secs(1), ..shm::Config::default() };
    let fabric = Arc::new(shm::Shm::new(config));
    Pair::connect(fabric.clone(), fabric)
}

/// Both ends with one libfabric provider, on this machine.
#[cfg(feature = "external-tests")]
fn ofi(provider: &str) -> Pair {
    use fabric::ofi;
    let listed = ofi::list_providers(None).expect("libfabric is installed");
    let choice = ofi::choose(&listed, Some(provider)).expect("every libfabric has it");
    let second = Duration::from_secs(1);
    let address = (provider != "shm").then_some([127, 0, 0, 1].into());
    let config =
        ofi::Config { address, timeout: second, receive_timeout: second, ..ofi::Config::default() };
    let end = || Arc::new(ofi::Domain::open(&choice, config.clone()).expect("opened"));
    Pair::connect(end(), end())
}

fn slow_and_lossy(faults: &mut sim::Faults) {
    faults.delay = Duration::from_micros(10);
    faults.jitter = Duration::from_micros(30);
    faults.reorder = Duration::from_micros(20);
    faults.loss = 0.05;
}

fn encrypted() -> Pair {
    let mut pair = tcp(fabric::tcp::Config { encrypt: true, ..Default::default() });
    // The same frames as without encryption, which takes seconds for a gibibyte.
    pair.largest = 128 << 20;
    pair
}

fn sim(ordered: bool, faults: impl FnOnce(&mut sim::Faults)) -> Pair {
    sim_with(sim::Config { ordered, ..sim::Config::default() }, faults)
}

fn sim_with_packets() -> Pair {
    sim_with(sim::Config { packets: true, ..sim::Config::default() }, slow_and_lossy)
}

fn sim_with(config: sim::Config, faults: impl FnOnce(&mut sim::Faults)) -> Pair {
    let world = sim::World::with_config(7, config);
    let end = |host: &str| -> Arc<dyn Fabric> { Arc::new(world.fabric(host, "rail")) };
    let mut pair = Pair::connect(end("a"), end("b"));
    world.change("rail", faults);
    // It copies every packet, which is slow for large ones.
    pair.largest = 64 << 20;
    let clock = world.clone();
    pair.clock = Box::new(move || clock.now());
    pair.step = Box::new(move || world.advance(Duration::from_micros(50)));
    pair
}
