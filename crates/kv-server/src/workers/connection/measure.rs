//! The measuring service: memory for the caller to write and read, and an echo of every message.

use fabric::link::{Endpoint, Link};
use fabric::{Error, Lane, Memory, Pages, Region, Rights};

use access::Pass;

/// What a measured link has.
pub(super) struct Measure {
    pass: Pass,
    _scratch: Region,
    hello: Vec<u8>,
}

impl Measure {
    pub(super) fn new(pass: Pass, endpoint: &Endpoint, link: &mut Link) -> Result<Self, Error> {
        let open = Rights { read: true, write: true, atomic: false };
        let scratch = endpoint.register(&Memory::allocate(SCRATCH, Pages::Plain)?, open)?;
        let hello = link.grant(&scratch)?.to_bytes().to_vec();
        Ok(Measure { pass, _scratch: scratch, hello })
    }

    /// The first message to it: the region.
    pub(super) fn hello(&self) -> Vec<u8> {
        self.hello.clone()
    }

    /// Renews its rights where they were changed, if they are what they were.
    pub(super) fn renew(&mut self) -> Result<(), &'static str> {
        if self.pass.is_stale() {
            self.pass = self.pass.renew().ok_or("what its identity may do has changed")?;
        }
        Ok(())
    }
}

/// How much memory a caller that measures may write to and read from.
pub const SCRATCH: usize = 4 << 20;
