//! The server of a connection, and the credentials for it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fabric::Error;
use fabric::link::{Endpoint, Link};

use crate::address::Address;
use crate::settings::CredentialSource;

pub(crate) struct Destination<'d> {
    pub(crate) server: &'d Address,
    /// One of its addresses.
    pub(crate) socket: SocketAddr,
    /// Returns credentials, if they differ for each connection.
    pub(crate) source: Option<&'d CredentialSource>,
    pub(crate) limit: Duration,
}

impl Destination<'_> {
    /// Makes a link, within the limit.
    pub(crate) fn connect(&self, endpoint: &Endpoint) -> Result<Link, Error> {
        let begun = Instant::now();
        match self.source {
            None => endpoint.connect(self.socket, self.limit),
            Some(source) => {
                let credentials = source(self.server, self.socket, self.limit)?;
                let left = self.limit.saturating_sub(begun.elapsed());
                endpoint.connect_as(&credentials, self.socket, left)
            }
        }
    }
}
