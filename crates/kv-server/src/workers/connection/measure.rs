//! The measuring service: memory that the peer may write and read, and an echo of every message.

use fabric::link::{Endpoint, Link};
use fabric::{Error, Lane, Memory, Pages, Region, Rights};

use access::Permissions;

/// The state of a measured link.
pub(super) struct Measure {
    permissions: Permissions,
    _scratch: Region,
    hello: Vec<u8>,
}

impl Measure {
    pub(super) fn new(
        permissions: Permissions,
        endpoint: &Endpoint,
        link: &mut Link,
    ) -> Result<Self, Error> {
        let open = Rights { read: true, write: true, atomic: false };
        let scratch = endpoint.register(&Memory::allocate(SCRATCH_BYTES, Pages::Plain)?, open)?;
        let hello = link.grant(&scratch)?.to_bytes().to_vec();
        Ok(Measure { permissions, _scratch: scratch, hello })
    }

    /// The first message to the peer: the region.
    pub(super) fn hello(&self) -> Vec<u8> {
        self.hello.clone()
    }

    /// Renews its permissions if the rules were changed; an error if its own ones are different.
    pub(super) fn renew(&mut self) -> Result<(), &'static str> {
        if self.permissions.is_stale() {
            self.permissions =
                self.permissions.renew().ok_or("the permissions of its identity have changed")?;
        }
        Ok(())
    }
}

/// The memory that a peer of the measuring service may write to and read from.
pub const SCRATCH_BYTES: usize = 4 << 20;
