//! One end of a lane that is not connected yet: an endpoint and its offer.
//!
//! Connecting waits for nobody: it makes the peer's address known. The provider connects with the first frame.

use std::sync::Arc;
use std::time::Duration;

use rdma_sys::Errno;

use super::av::Address;
use super::core::Core;
use super::deferred_close::DeferredClose;
use super::domain::Shared;
use super::endpoint::Endpoint;
use super::failure::error;
use super::frame::HEADER;
use super::gather::Gather;
use super::granted::Granted;
use super::inbox::Inbox;
use super::info::Facts;
use super::lane::OfiLane;
use super::offer::Offer;
use super::outgoing::Outgoing;
use super::peer_process::{Home, Life};
use super::rendezvous::RendezvousBuffers;
use super::sends::{SHORT, Sends, Shape};
use super::slots::{self, Slots};
use super::wait_fd::Sleeper;
use crate::error::{Error, Kind};
use crate::grants::random;
use crate::half::Half;
use crate::lane::Lane;

pub(super) struct OfiHalf {
    // Dropped in this order: the endpoint first.
    endpoint: Endpoint,
    slots: Slots,
    shared: Arc<Shared>,
    ours: Offer,
}

impl OfiHalf {
    pub(super) fn new(shared: Arc<Shared>) -> Result<Self, Error> {
        let device = &shared.device;
        let facts = device.facts();
        if facts.pieces < 2 || facts.max_message < Slots::SIZE {
            return Err(error(facts, "make an endpoint for our messages", Errno(libc::EOPNOTSUPP)));
        }
        let count = slots::count(device)?;
        let slots = Slots::new(device, count)?;
        let endpoint = Endpoint::new(device, window(facts) + count)
            .map_err(|errno| error(facts, "make an endpoint", errno))?;
        let address = endpoint.name().map_err(|errno| error(facts, "name an endpoint", errno))?;
        let ours = Offer {
            buffers: slots.promised() as u16,
            frame: Slots::SIZE as u32,
            max_message: MAX_MESSAGE,
            token: random()? as u64,
            home: Home::ours()?,
            provider: facts.provider.clone(),
            address,
        };
        Ok(OfiHalf { endpoint, slots, shared, ours })
    }

    /// What limits the lane, by both ends' words.
    fn shape(&self, peer: &Offer) -> Shape {
        let facts = self.shared.device.facts();
        Shape {
            domain: self.shared.device.number(),
            transfer: u32::try_from(facts.max_message).unwrap_or(u32::MAX).min(LONGEST_TRANSFER),
            payload: self.ours.frame.min(peer.frame) - HEADER as u32,
            pieces: facts.pieces.min(Gather::MAX),
            buffers: peer.buffers.into(),
            asks: facts.is_trustful(),
        }
    }
}

impl Half for OfiHalf {
    fn offer(&self) -> Vec<u8> {
        self.ours.to_bytes()
    }

    fn connect(self: Box<Self>, offer: &[u8], _limit: Duration) -> Result<Box<dyn Lane>, Error> {
        let peer = Offer::from_bytes(offer)?;
        check(&self.ours, &peer)?;
        let shape = self.shape(&peer);
        let max_message = self.ours.max_message.min(peer.max_message) as usize;
        let life = Life::of(&peer.home, &self.ours.home);
        let is_here = peer.home == self.ours.home && self.shared.device.facts().is_trustful();
        let deferred_close = is_here.then(|| DeferredClose::of(&self.ours.address, &peer.address));
        let OfiHalf { mut endpoint, slots, shared, ours } = *self;
        let facts = shared.device.facts();
        let address = Address::new(&peer.address);
        let connected = address.ok_or(Errno(libc::EINVAL)).and_then(|at| endpoint.connect(&at));
        connected.map_err(|errno| error(facts, "take the peer's address", errno))?;
        let sleeper = Sleeper::new(endpoint.cq().fd(), life.as_ref().map(Life::fd));
        let sleeper = sleeper.map_err(|errno| {
            error(facts, "make a descriptor to sleep on", Errno(errno.raw_os_error()))
        })?;
        // What a peer might still read after the endpoint was closed is a copy, and so are short messages everywhere.
        let room = if shape.asks { shape.payload as usize } else { SHORT };
        let out = Outgoing::new(&shared.device, window(facts), room, peer.token)?;
        let core = Core::new(
            ours.token,
            Sends::new(shape, out, RendezvousBuffers::new(shared.device.clone())),
            slots,
            Inbox::new(max_message),
            Granted::by(shared.device.number()),
            &shared.config,
        );
        Ok(Box::new(OfiLane::new(
            shared,
            endpoint,
            core,
            sleeper,
            life,
            deferred_close,
            max_message,
        )))
    }
}

/// Refuses a peer with which nothing could be said.
fn check(ours: &Offer, peer: &Offer) -> Result<(), Error> {
    if ours.provider == peer.provider {
        return Ok(());
    }
    let why = format!("the peer has {}, and we have {}", peer.provider, ours.provider);
    let fix = "give both ends the same provider, and libfabric of the same generation: before 1.18 \
                  tcp was tcp;ofi_rxm";
    Err(Error::new(Kind::Unsupported, "connect by libfabric", why, fix))
}

/// How many operations are with the provider at a time.
fn window(facts: &Facts) -> usize {
    facts.sends.clamp(8, 64)
}

/// Longer messages are what writes are for.
const MAX_MESSAGE: u32 = 16 << 20;
/// Long enough to cost nothing by itself, short enough that its end is a sign of life in time, and that two make a
/// device busy without flooding what is between (`MAX_READ`).
const LONGEST_TRANSFER: u32 = 1 << 20;
