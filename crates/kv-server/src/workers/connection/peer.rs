//! The peer of a link, and its role.
//!
//! A peer is new until its hello, then a client of the store or of the measuring service, and closed at the
//! end. Its session outlives that: submitted writes may still fail, and may then be retried. The session is
//! left when the connection is destroyed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::Permissions;
use fabric::Lane;
use fabric::link::Link;
use kv_proto::wire::{ClientHello, Limits, ServerHello, SlotBlock};

use super::batch_limits::MAX_TRANSFER_BYTES;
use super::client::{Client, MAX_REGIONS, import};
use super::measure::Measure;
use super::{MAX_BATCHES, MAX_REQUESTS};
use crate::engine::session::{Session, Sessions};
use crate::workers::context::WorkerContext;
use crate::workers::receive_areas::MAX_MESSAGE_BYTES;

pub(super) struct Peer {
    address: SocketAddr,
    identity: String,
    since: Instant,
    state: State,
    session: Option<Arc<Session>>,
}

pub(super) enum State {
    /// Before its hello.
    New,
    Client(Box<Client>),
    Measured(Box<Measure>),
    /// Being closed, or closed.
    Closed,
}

impl Peer {
    pub(super) fn new(link: &Link) -> Self {
        let status = link.report().status();
        Peer {
            address: status.peer,
            identity: status.identity,
            since: Instant::now(),
            state: State::New,
            session: None,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn state(&mut self) -> &mut State {
        &mut self.state
    }

    /// The client, if it is one and is not closed.
    #[inline]
    pub(super) fn client(&self) -> Option<&Client> {
        match &self.state {
            State::Client(client) => Some(client),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn client_mut(&mut self) -> Option<&mut Client> {
        match &mut self.state {
            State::Client(client) => Some(client),
            _ => None,
        }
    }

    /// Its session, also after it was closed.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref()
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Whether its hello has been missing for longer than `idle_timeout`.
    pub(super) fn is_overdue(&self, now: Instant, idle_timeout: Duration) -> bool {
        matches!(self.state, State::New) && now.saturating_duration_since(self.since) > idle_timeout
    }

    /// Closes its handles. Its session is kept for a while.
    pub(super) fn close(&mut self) {
        self.state = State::Closed;
    }

    /// Closes it, and leaves its session, which ends if the client closed the connection in an orderly way.
    pub(super) fn leave(&mut self, sessions: &Sessions, orderly: bool) {
        self.close();
        if let Some(session) = self.session.take() {
            session.leave();
            if orderly {
                sessions.end(&session);
            }
        }
    }

    /// Handles the hello; returns the server's hello.
    pub(super) fn open(
        &mut self,
        message: &[u8],
        link: &mut Link,
        context: &WorkerContext,
    ) -> Result<Vec<u8>, &'static str> {
        match ClientHello::parse(message)? {
            ClientHello::Measure => {
                let permissions = self.admit(link, context)?;
                let measure = Measure::new(permissions, &context.endpoint, link)
                    .map_err(|_| "out of memory for a measurement")?;
                let hello = measure.hello();
                self.state = State::Measured(Box::new(measure));
                Ok(hello)
            }
            ClientHello::Store { session, client_buffer, slot_block } => {
                let client_buffer = import(link, &client_buffer)?;
                if slot_block && client_buffer.len() < SlotBlock::LENGTH as u64 {
                    return Err("the client buffer is too small for a slot block");
                }
                let engine = &context.engine;
                let permissions = self.admit(link, context)?;
                let (session, resumed) =
                    engine.sessions.enter(session, &self.identity).ok_or("too many sessions")?;
                // With the pool mapped it could read all values.
                let may_map_pool =
                    slot_block && permissions.reads_everything() && link.uses_shared_memory();
                let pool =
                    may_map_pool.then(|| link.grant(&context.readable_pool)).and_then(Result::ok);
                let pool = pool.map(|pool| pool.to_bytes());
                let in_place = pool.is_some();
                let limits = limits(engine.max_value());
                let (epoch, id) = (engine.epoch(), session.id());
                let hello = ServerHello { epoch, session: id, resumed, limits, pool };
                self.session = Some(session.clone());
                let share = engine.quota().share();
                let client =
                    Client::new(session, permissions, share, client_buffer, slot_block, in_place);
                self.state = State::Client(Box::new(client));
                Ok(hello.to_bytes())
            }
        }
    }

    /// The permissions of its identity.
    fn admit(&self, link: &Link, context: &WorkerContext) -> Result<Permissions, &'static str> {
        let access = context.engine.access();
        let permissions = access.admit_link(&self.identity, link.revocations());
        permissions.ok_or("its identity is no longer known")
    }
}

fn limits(max_value: u64) -> Limits {
    Limits {
        message: MAX_MESSAGE_BYTES as u32,
        requests: MAX_REQUESTS,
        batches: MAX_BATCHES,
        regions: MAX_REGIONS,
        value: max_value,
        transfer: MAX_TRANSFER_BYTES,
    }
}
