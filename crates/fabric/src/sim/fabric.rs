//! A host's end of a wire, and lanes that are not connected yet.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::lane::SimLane;
use super::offer::Offer;
use super::world::World;
use crate::error::{Error, ErrorKind};
use crate::lane::Lane;
use crate::memory::Memory;
use crate::region::{Region, Rights};
use crate::setup::{Fabric, Side, UnconnectedLane, register_software};

/// A host's end of a wire, created by [`World::fabric`].
#[derive(Debug, Clone)]
pub struct Sim {
    world: World,
    host: String,
    wire: String,
}

impl Sim {
    pub(super) fn new(world: World, host: &str, wire: &str) -> Self {
        Sim { world, host: host.to_owned(), wire: wire.to_owned() }
    }
}

impl Fabric for Sim {
    fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        Ok(register_software(memory, rights))
    }

    fn uses_srq(&self) -> bool {
        self.world.lock().config.max_unexpected > 0
    }

    fn prepare_lane(&self, side: Side) -> Result<Box<dyn UnconnectedLane>, Error> {
        let wakeup =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| {
                let fix = "raise the limit of open files: `ulimit -n`";
                Error::new(ErrorKind::System, "prepare a simulated lane", error, fix)
            })?;
        let wakeup = Arc::new(wakeup);
        let mut state = self.world.lock();
        let number = state.add_end(&self.host, &self.wire, side, wakeup.clone());
        let offer = Offer { world: state.id, end: number };
        let end = EndGuard { world: self.world.clone(), number };
        Ok(Box::new(UnconnectedSimLane { end, offer, wakeup }))
    }
}

/// One end that is not connected yet.
struct UnconnectedSimLane {
    end: EndGuard,
    offer: Offer,
    wakeup: Arc<OwnedFd>,
}

impl UnconnectedLane for UnconnectedSimLane {
    fn offer(&self) -> Vec<u8> {
        self.offer.to_bytes()
    }

    /// Succeeds immediately, whether the other end has connected or not, and over dead wires too: as with verbs,
    /// only an operation shows whether the path works.
    fn connect(self: Box<Self>, offer: &[u8], _: Duration) -> Result<Box<dyn Lane>, Error> {
        let offer = Offer::from_bytes(offer)?;
        self.end.world.lock().connect(self.end.number, offer)?;
        Ok(Box::new(SimLane::new(self.end, self.wakeup)))
    }
}

/// Owns one end: dropping it removes the end from the world.
pub(super) struct EndGuard {
    pub(super) world: World,
    pub(super) number: u32,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.world.lock().remove(self.number);
    }
}
