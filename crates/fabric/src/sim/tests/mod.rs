//! Tests of the simulated lane.

mod history;
mod late;
mod operations;
mod refusals;
mod wires;

use std::collections::VecDeque;
use std::time::Duration;

use super::{Config, World};
use crate::{
    Completion, Done, Fabric, Failure, Lane, Memory, Op, Pages, Region, Rights, Side, Target,
    Window,
};

/// Two hosts, `a` and `b`, with a lane between them.
struct Pair {
    world: World,
    a: Box<dyn Lane>,
    b: Box<dyn Lane>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        Self::on(&World::new(seed), WIRE)
    }

    fn with(config: Config) -> Self {
        Self::on(&World::with_config(1, config), WIRE)
    }

    fn on(world: &World, wire: &str) -> Self {
        let a = world.fabric("a", wire).prepare_lane(Side::Dial).unwrap();
        let b = world.fabric("b", wire).prepare_lane(Side::Accept).unwrap();
        let (to_a, to_b) = (a.offer(), b.offer());
        let a = a.connect(&to_b, Duration::ZERO).unwrap();
        let b = b.connect(&to_a, Duration::ZERO).unwrap();
        Pair { world: world.clone(), a, b }
    }

    /// A region of `b`, and `a`'s window to it.
    fn window(&mut self, length: usize, rights: Rights) -> (Region, Window) {
        let region = region(length, rights);
        let granted = self.b.grant(&region).unwrap();
        let window = self.a.import(&granted).unwrap();
        (region, window)
    }

    /// Advances the time until there are no more events.
    fn settle(&self) {
        let limit = self.world.now() + Duration::from_secs(3600);
        while self.world.step() {
            assert!(self.world.now() < limit, "there are events without end");
        }
    }
}

type Outcome = (u64, Result<Done, Failure>);

fn region(length: usize, rights: Rights) -> Region {
    // Registering is the same for all simulated fabrics.
    let memory = Memory::allocate(length, Pages::Plain).unwrap();
    World::new(0).fabric("any", WIRE).register(&memory, rights).unwrap()
}

fn region_with(bytes: &[u8]) -> Region {
    let region = region(bytes.len(), Rights::NONE);
    region.memory().write(0, bytes);
    region
}

fn content(region: &Region) -> Vec<u8> {
    region.slice(..).to_vec()
}

fn post(lane: &mut Box<dyn Lane>, op: Op) {
    assert_eq!(lane.post(&mut VecDeque::from([op])), 1, "the lane is full");
}

fn poll(lane: &mut Box<dyn Lane>) -> Vec<Completion> {
    let mut done = Vec::new();
    assert_eq!(lane.poll(&mut done), done.len());
    done
}

fn outcomes(lane: &mut Box<dyn Lane>) -> Vec<Outcome> {
    poll(lane).into_iter().map(|completion| (completion.op_id, completion.outcome)).collect()
}

fn received(length: usize, imm: Option<u32>) -> Result<Done, Failure> {
    Ok(Done::Received { length, imm })
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const WIRE: &str = "wire0";
/// When a lane fails with the default settings.
const LANE_TIMEOUT: Duration = Duration::from_millis(400);
