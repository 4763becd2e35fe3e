//! A host's end of a rail, and lanes that are not connected yet.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::lane::SimLane;
use super::offer::Offer;
use super::world::World;
use crate::error::{Error, Kind};
use crate::lane::Lane;
use crate::memory::Memory;
use crate::region::{Region, Rights};
use crate::setup::{Fabric, Half, Side, register_software};

/// A host's end of a rail. Made by [`World::fabric`].
#[derive(Debug, Clone)]
pub struct Sim {
    world: World,
    host: String,
    rail: String,
}

impl Sim {
    pub(super) fn new(world: World, host: &str, rail: &str) -> Self {
        Sim { world, host: host.to_owned(), rail: rail.to_owned() }
    }
}

impl Fabric for Sim {
    fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        Ok(register_software(memory, rights))
    }

    fn half(&self, side: Side) -> Result<Box<dyn Half>, Error> {
        let wakeup =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| {
                let fix = "raise the limit of open files: `ulimit -n`";
                Error::new(Kind::System, "prepare a simulated lane", error, fix)
            })?;
        let wakeup = Arc::new(wakeup);
        let mut state = self.world.lock();
        let number = state.add_end(&self.host, &self.rail, side, wakeup.clone());
        let offer = Offer { world: state.id, end: number };
        let end = Owner { world: self.world.clone(), number };
        Ok(Box::new(SimHalf { end, offer, wakeup }))
    }
}

/// One end that is not connected yet.
struct SimHalf {
    end: Owner,
    offer: Offer,
    wakeup: Arc<OwnedFd>,
}

impl Half for SimHalf {
    fn offer(&self) -> Vec<u8> {
        self.offer.to_bytes()
    }

    /// At once, whether the other end has connected or not, and over dead rails too: as with verbs,
    /// only an operation shows whether the path is free.
    fn connect(self: Box<Self>, offer: &[u8], _: Duration) -> Result<Box<dyn Lane>, Error> {
        let offer = Offer::from_bytes(offer)?;
        self.end.world.lock().connect(self.end.number, offer)?;
        Ok(Box::new(SimLane::new(self.end, self.wakeup)))
    }
}

/// Owns one end: dropping it takes the end out of the world.
pub(super) struct Owner {
    pub(super) world: World,
    pub(super) number: u32,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.world.lock().remove(self.number);
    }
}
