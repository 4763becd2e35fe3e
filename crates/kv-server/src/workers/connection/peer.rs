//! The peer: who is at the other end of a link, and what it came for.
//!
//! A peer is new until its first message, then a client of the store or of the measuring service, and over once it was
//! dismissed. Its session outlives that: writes that were submitted may still fail, and then can be asked for again. It is
//! left once, when the connection is gone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::Pass;
use fabric::Lane;
use fabric::link::Link;
use kv_proto::wire::{ClientHello, ControlBlock, Limits, ServerHello};

use super::batch_limits::MOVED;
use super::client::{Client, REGIONS, import};
use super::measure::Measure;
use super::{BATCHES, REQUESTS};
use crate::engine::session::Session;
use crate::workers::context::WorkerContext;
use crate::workers::receive_areas::MESSAGE;

pub(super) struct Peer {
    address: SocketAddr,
    identity: String,
    since: Instant,
    state: State,
    session: Option<Arc<Session>>,
}

pub(super) enum State {
    /// The first message has not come.
    New,
    Client(Box<Client>),
    Measured(Box<Measure>),
    /// To be closed, or closed.
    Over,
}

impl Peer {
    pub(super) fn new(link: &Link) -> Self {
        let explained = link.report().explain();
        Peer {
            address: explained.peer,
            identity: explained.identity,
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

    /// The client, if it is one and was not dismissed.
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

    /// The session that it opened, also after it was dismissed.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref()
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Whether its first message has not come for longer than that.
    pub(super) fn is_overdue(&self, now: Instant, idle: Duration) -> bool {
        matches!(self.state, State::New) && now.saturating_duration_since(self.since) > idle
    }

    /// Closes what it holds open. Its session is kept for a while.
    pub(super) fn dismiss(&mut self) {
        self.state = State::Over;
    }

    /// Its connection is gone.
    pub(super) fn leave(&mut self) {
        self.dismiss();
        if let Some(session) = self.session.take() {
            session.leave();
        }
    }

    /// Handles the first message; returns what to send to it.
    pub(super) fn open(
        &mut self,
        message: &[u8],
        link: &mut Link,
        context: &WorkerContext,
    ) -> Result<Vec<u8>, &'static str> {
        match ClientHello::parse(message)? {
            ClientHello::Measure => {
                let pass = self.admit(link, context)?;
                let measure = Measure::new(pass, &context.endpoint, link)
                    .map_err(|_| "there is no memory to measure with")?;
                let hello = measure.hello();
                self.state = State::Measured(Box::new(measure));
                Ok(hello)
            }
            ClientHello::Store { session, receive_buffer, control_block } => {
                let receive_buffer = import(link, &receive_buffer)?;
                if control_block && receive_buffer.len() < ControlBlock::LENGTH as u64 {
                    return Err("its receive buffer is too small for a control block");
                }
                let engine = &context.engine;
                let pass = self.admit(link, context)?;
                let (session, resumed) = engine
                    .sessions
                    .enter(session, &self.identity)
                    .ok_or("there are too many sessions")?;
                // It could read all of the pool.
                let near = control_block && pass.reads_everything() && link.uses_shared_memory();
                let pool = near.then(|| link.grant(&context.readable_pool)).and_then(Result::ok);
                let pool = pool.map(|pool| pool.to_bytes());
                let in_place = pool.is_some();
                let limits = limits(engine.max_value());
                let (epoch, id) = (engine.epoch(), session.id());
                let welcome = ServerHello { epoch, session: id, resumed, limits, pool };
                self.session = Some(session.clone());
                let share = engine.quota().share();
                let client =
                    Client::new(session, pass, share, receive_buffer, control_block, in_place);
                self.state = State::Client(Box::new(client));
                Ok(welcome.to_bytes())
            }
        }
    }

    /// What its identity may do.
    fn admit(&self, link: &Link, context: &WorkerContext) -> Result<Pass, &'static str> {
        let access = context.engine.access();
        let pass = access.admit_link(&self.identity, link.revocations());
        pass.ok_or("its identity is not known any more")
    }
}

fn limits(value: u64) -> Limits {
    Limits {
        message: MESSAGE as u32,
        requests: REQUESTS,
        batches: BATCHES,
        regions: REGIONS,
        value,
        transfer: MOVED,
    }
}
