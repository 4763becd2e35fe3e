//! Setting up lanes: each end prepares an unconnected lane, sends its offer to the other, and
//! connects.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::lane::Lane;
use crate::memory::{Memory, Pages};
use crate::region::{Region, Rights};
use crate::registration::Registration;

/// An opened device, or another transport. For set-up: its functions may allocate and block.
pub trait Fabric: Send + Sync {
    /// Registers all of `memory`, for lanes of this fabric. The same memory with the same rights
    /// is registered with a device only once.
    fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error>;

    /// Registers the memory of a [shared](Region::shared) region with this fabric too; once is enough. Not needed for
    /// regions of this fabric, and for transports without a device.
    fn attach(&self, _region: &Region) -> Result<(), Error> {
        Ok(())
    }

    /// Reverts [`Fabric::attach`]: lanes of this fabric refuse the region from now on, and its device refuses
    /// the peers' accesses. Operations in flight that use its memory may fail, and the lane with them; so
    /// detach when the fabric's lanes are dropped, or do not use the region.
    fn detach(&self, _region: &Region) {}

    /// Whether lanes receive from a queue that they share, from which they copy messages: then the memory of receives need
    /// not be registered, and messages wait for receives.
    fn uses_srq(&self) -> bool {
        false
    }

    /// Registered memory for the messages of one lane. Return it with [`Fabric::return_message_memory`]: a fabric may keep
    /// such memory ready for other lanes, since registering takes time.
    fn message_memory(&self, _direction: Direction, bytes: usize) -> Result<Region, Error> {
        self.register(&Memory::allocate(bytes, Pages::Plain)?, Rights::NONE)
    }

    /// Returns memory that nobody uses any more.
    fn return_message_memory(&self, _direction: Direction, _region: Region) {}

    /// Prepares one end of a lane. One end dials, the other accepts.
    fn prepare_lane(&self, side: Side) -> Result<Box<dyn UnconnectedLane>, Error>;
}

/// One end of a lane, not connected yet.
pub trait UnconnectedLane: Send {
    /// What the other end needs to connect. The caller sends it there, over a channel that others cannot read.
    fn offer(&self) -> Vec<u8>;

    /// Connects to the other end, which does the same with our offer, within a time limit.
    fn connect(self: Box<Self>, offer: &[u8], limit: Duration) -> Result<Box<dyn Lane>, Error>;
}

/// The direction of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the peer.
    Send,
    /// From the peer.
    Receive,
}

/// Which end this is. Either of the two may dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Connects to the other end.
    Dial,
    /// Waits for the other end.
    Accept,
}

/// The deadline of a time limit; at most a year from now.
pub(crate) fn deadline(limit: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + limit.min(YEAR)
}

/// Registers memory for lanes that need no device.
pub(crate) fn register_software(memory: &Memory, rights: Rights) -> Region {
    Region::new(memory.clone(), rights, Registration::Software)
}
