//! How lanes come to be: each end prepares its half, tells the other what it needs to know, and
//! connects.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::lane::Lane;
use crate::memory::Memory;
use crate::region::{Region, Rights};
use crate::registration::Registration;

/// An opened device, or another transport. Slow: it may allocate, block and explain.
pub trait Fabric: Send + Sync {
    /// Registers the whole of `memory`, for lanes of this fabric. The same memory with the same rights
    /// costs a device only once.
    fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error>;

    /// Registers the memory of a [shared](Region::shared) region with this fabric too; once is enough. A
    /// region of this very fabric needs nothing, and neither does any where there is no device.
    fn attach(&self, _region: &Region) -> Result<(), Error> {
        Ok(())
    }

    /// Ends what [`Fabric::attach`] began: lanes of this fabric refuse the region from now on, and so does
    /// its device what peers ask of it. What is in flight in its memory may fail, and the lane with it; so
    /// detach when the fabric's lanes are gone, or do not use the region.
    fn detach(&self, _region: &Region) {}

    /// Prepares one end of a lane. One end dials, the other accepts.
    fn half(&self, side: Side) -> Result<Box<dyn Half>, Error>;
}

/// One end of a lane that is not connected yet.
pub trait Half: Send {
    /// What the other end must know: to be sent there by the caller, kept from others.
    fn offer(&self) -> Vec<u8>;

    /// Connects with the other end, which does the same with our offer, within a time limit.
    fn connect(self: Box<Self>, offer: &[u8], limit: Duration) -> Result<Box<dyn Lane>, Error>;
}

/// Which end this is. Which of the two dials does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Reaches out.
    Dial,
    /// Waits to be reached.
    Accept,
}

/// When a limit is over; a limit without end ends in a year.
pub(crate) fn deadline(limit: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + limit.min(YEAR)
}

/// Registers memory for lanes that need no device.
pub(crate) fn register_software(memory: &Memory, rights: Rights) -> Region {
    Region::new(memory.clone(), rights, Registration::Software)
}
