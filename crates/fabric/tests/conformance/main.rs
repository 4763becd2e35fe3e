//! One set of cases over every lane that any machine can run. Those over verbs need the lab.
#![allow(missing_docs, reason = "a test")]

mod cases;
#[macro_use]
mod list;
mod pair;
mod progress;
mod refusals;

use std::sync::Arc;
use std::time::Duration;

use fabric::{Fabric, shm, sim, tcp};
use pair::Pair;

mod sim_quiet {
    reliable_lane!(crate::sim(true, |_| ()));
}

mod sim_slow_and_lossy {
    reliable_lane!(crate::sim(false, crate::trouble));
}

mod sim_slow_and_lossy_in_order {
    reliable_lane!(crate::sim(true, crate::trouble));
}

mod shm_between_processes_of_one_user {
    reliable_lane!(crate::shm());
}

mod tcp_one_stream {
    reliable_lane!(crate::tcp(1));
}

mod tcp_four_streams {
    reliable_lane!(crate::tcp(4));
}

fn tcp(streams: u8) -> Pair {
    let patience = Duration::from_secs(1);
    let config = tcp::Config { streams, patience, ..tcp::Config::default() };
    let fabric = Arc::new(tcp::Tcp::new(config));
    Pair::connect(fabric.clone(), fabric)
}

fn shm() -> Pair {
    let config = shm::Config { patience: Duration::from_secs(1), ..shm::Config::default() };
    let fabric = Arc::new(shm::Shm::new(config));
    Pair::connect(fabric.clone(), fabric)
}

fn trouble(faults: &mut sim::Faults) {
    faults.delay = Duration::from_micros(10);
    faults.jitter = Duration::from_micros(30);
    faults.reorder = Duration::from_micros(20);
    faults.loss = 0.05;
}

fn sim(ordered: bool, faults: impl FnOnce(&mut sim::Faults)) -> Pair {
    let world = sim::World::with(7, sim::Config { ordered, ..sim::Config::default() });
    let end = |host: &str| -> Arc<dyn Fabric> { Arc::new(world.fabric(host, "rail")) };
    let mut pair = Pair::connect(end("a"), end("b"));
    world.change("rail", faults);
    // It copies every packet, so it is slow with large ones.
    pair.largest = 64 << 20;
    let clock = world.clone();
    pair.clock = Box::new(move || clock.now());
    pair.step = Box::new(move || world.advance(Duration::from_micros(50)));
    pair
}
