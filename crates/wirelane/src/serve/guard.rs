//! Who may call, while the server runs: everybody with a token, a key or nothing, and the token file read again.

use std::net::SocketAddr;
use std::sync::Arc;

use fabric::link;
use fabric::session::{Credentials, Key};
use hyper::Request;
use hyper::header::AUTHORIZATION;
use kv_server::access::{Access, Holder, Refused, Scope};

use super::security::{Security, SecurityArgs};
use crate::exit::Failure;
use crate::token;

pub(super) struct Guard {
    access: Arc<Access>,
    security: Security,
    /// The settings' own, which opens links.
    key: Option<Key>,
}

impl Guard {
    /// Reads the tokens, and puts their keys on the ring of the links.
    pub(super) fn new(
        args: &SecurityArgs,
        security: Security,
        links: &link::Settings,
    ) -> Result<Self, Failure> {
        let key = match &links.credentials {
            Credentials::Key(key) => Some(key.clone()),
            Credentials::None | Credentials::Ticket(_) => None,
        };
        let holders = holders(&security, key.as_ref())?;
        let access = Access::new(links.keyring.clone(), holders, false, args.max_rate)
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Guard { access, security, key })
    }

    pub(super) fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// What the first lines say of callers, and what those must add to `wirelane kv`.
    pub(super) fn greeting(&self) -> (&'static str, &'static str) {
        match (self.security.asks(), self.security.anonymous) {
            (true, _) => ("gRPC on the same port; callers need a token", " --token-file FILE"),
            (false, true) => ("gRPC on the same port; callers need no key", ""),
            (false, false) => ("callers need the key, so that gRPC is closed", ""),
        }
    }

    /// Says what is legal and may not be meant.
    pub(super) fn warn(&self, listen: SocketAddr, http: SocketAddr) {
        let far = [listen, http].iter().any(|address| !address.ip().is_loopback());
        if far && self.security.asks() {
            tracing::warn!(
                "tokens that come by gRPC and HTTP are not encrypted on their way: use links, or a network \
                 that you trust"
            );
        }
    }

    /// Whether there is something to read again.
    pub(super) fn can_reload(&self) -> bool {
        self.security.tokens.is_some()
    }

    /// Reads the tokens again; how many there are now. What is wrong leaves all as it was.
    pub(super) fn reload(&self) -> Result<usize, Failure> {
        let holders = holders(&self.security, self.key.as_ref())?;
        let count = holders.len();
        self.access.replace(holders).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(count)
    }

    /// Whether a caller by HTTP may look. What it would see is of all keys, so it must be able to read all.
    pub(super) fn admit<B>(&self, request: &Request<B>) -> Result<(), Refused> {
        if !self.security.asks() {
            return Ok(());
        }
        let shown = request.headers().get(AUTHORIZATION);
        self.access.greet(None, shown.map(|shown| shown.as_bytes()))?.look()
    }
}

/// Everybody who may call.
fn holders(security: &Security, key: Option<&Key>) -> Result<Vec<Holder>, Failure> {
    let mut holders = match &security.tokens {
        Some(file) => token::holders(file)?,
        None => Vec::new(),
    };
    holders.extend(key.map(|key| Holder::keyed(key.clone(), Scope::everything())));
    holders.extend(security.anonymous.then(Holder::anonymous));
    Ok(holders)
}
