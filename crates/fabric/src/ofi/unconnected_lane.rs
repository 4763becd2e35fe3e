//! One end of a lane that is not connected yet: an endpoint and its offer.
//!
//! Connecting does not wait for the peer: it only inserts the peer's address. The provider connects with the first frame.

use std::sync::Arc;
use std::time::Duration;

use rdma_sys::Errno;

use super::av::Address;
use super::core::OfiCore;
use super::deferred_close::DeferredClose;
use super::domain::Shared;
use super::endpoint::Endpoint;
use super::failure::error;
use super::frame::HEADER_BYTES;
use super::gather::Gather;
use super::granted::GrantedRegions;
use super::inbox::Inbox;
use super::info::Facts;
use super::lane::OfiLane;
use super::offer::Offer;
use super::outgoing::Outgoing;
use super::peer_process::{PeerProcess, ProcessId};
use super::rendezvous::RendezvousBuffers;
use super::sends::{LaneLimits, MAX_COPIED_BYTES, Sends};
use super::slots::{self, Slots};
use super::wait_fd::WaitFd;
use crate::error::{Error, ErrorKind};
use crate::grants::random;
use crate::lane::Lane;
use crate::setup::UnconnectedLane;

pub(super) struct UnconnectedOfiLane {
    // Dropped in this order: the endpoint first.
    endpoint: Endpoint,
    slots: Slots,
    shared: Arc<Shared>,
    ours: Offer,
}

impl UnconnectedOfiLane {
    pub(super) fn new(shared: Arc<Shared>) -> Result<Self, Error> {
        let fid_domain = &shared.fid_domain;
        let facts = fid_domain.facts();
        if facts.iov_limit < 2 || facts.max_message < Slots::SLOT_BYTES {
            return Err(error(facts, "create an endpoint for lanes", Errno(libc::EOPNOTSUPP)));
        }
        let count = slots::count(fid_domain)?;
        let slots = Slots::new(fid_domain, count)?;
        let endpoint = Endpoint::new(fid_domain, window(facts) + count)
            .map_err(|errno| error(facts, "create an endpoint", errno))?;
        let address =
            endpoint.name().map_err(|errno| error(facts, "get the endpoint's address", errno))?;
        let ours = Offer {
            buffers: slots.credit() as u16,
            frame: Slots::SLOT_BYTES as u32,
            max_message: MAX_MESSAGE_BYTES,
            secret: random()? as u64,
            process: ProcessId::ours()?,
            provider: facts.provider.clone(),
            address,
        };
        Ok(UnconnectedOfiLane { endpoint, slots, shared, ours })
    }

    /// The limits of the lane, by both offers.
    fn limits(&self, peer: &Offer) -> LaneLimits {
        let facts = self.shared.fid_domain.facts();
        LaneLimits {
            domain: self.shared.fid_domain.number(),
            transfer: u32::try_from(facts.max_message).unwrap_or(u32::MAX).min(MAX_TRANSFER_BYTES),
            payload: self.ours.frame.min(peer.frame) - HEADER_BYTES as u32,
            iov_limit: facts.iov_limit.min(Gather::MAX),
            buffers: peer.buffers.into(),
            emulates_rma: facts.lacks_memory_protection(),
        }
    }
}

impl UnconnectedLane for UnconnectedOfiLane {
    fn offer(&self) -> Vec<u8> {
        self.ours.to_bytes()
    }

    fn connect(self: Box<Self>, offer: &[u8], _limit: Duration) -> Result<Box<dyn Lane>, Error> {
        let peer = Offer::from_bytes(offer)?;
        check(&self.ours, &peer)?;
        let limits = self.limits(&peer);
        let max_message = self.ours.max_message.min(peer.max_message) as usize;
        let peer_process = PeerProcess::open(&peer.process, &self.ours.process);
        let is_here = peer.process == self.ours.process
            && self.shared.fid_domain.facts().lacks_memory_protection();
        let deferred_close = is_here.then(|| DeferredClose::of(&self.ours.address, &peer.address));
        let UnconnectedOfiLane { mut endpoint, slots, shared, ours } = *self;
        let facts = shared.fid_domain.facts();
        let address = Address::new(&peer.address);
        let connected = address.ok_or(Errno(libc::EINVAL)).and_then(|at| endpoint.connect(&at));
        connected.map_err(|errno| error(facts, "insert the peer's address", errno))?;
        let wait_fd = WaitFd::new(endpoint.cq().fd(), peer_process.as_ref().map(PeerProcess::fd));
        let wait_fd = wait_fd.map_err(|errno| {
            error(facts, "create an epoll descriptor", Errno(errno.raw_os_error()))
        })?;
        // Short messages are copied. So is everything if the peer might read it after the endpoint was closed.
        let payload = if limits.emulates_rma { limits.payload as usize } else { MAX_COPIED_BYTES };
        let out = Outgoing::new(&shared.fid_domain, window(facts), payload, peer.secret)?;
        let core = OfiCore::new(
            ours.secret,
            Sends::new(limits, out, RendezvousBuffers::new(shared.fid_domain.clone())),
            slots,
            Inbox::new(max_message),
            GrantedRegions::new(shared.fid_domain.number()),
            &shared.config,
        );
        Ok(Box::new(OfiLane::new(
            shared,
            endpoint,
            core,
            wait_fd,
            peer_process,
            deferred_close,
            max_message,
        )))
    }
}

/// Refuses a peer with another provider.
fn check(ours: &Offer, peer: &Offer) -> Result<(), Error> {
    if ours.provider == peer.provider {
        return Ok(());
    }
    let why = format!("the peer uses provider {}, this end {}", peer.provider, ours.provider);
    let fix = "use the same provider at both ends, and similar versions of libfabric: before 1.18 \
                  tcp was tcp;ofi_rxm";
    Err(Error::new(ErrorKind::Unsupported, "connect over libfabric", why, fix))
}

/// The maximum number of operations submitted to the provider.
fn window(facts: &Facts) -> usize {
    facts.sends.clamp(8, 64)
}

/// For more data, use writes.
const MAX_MESSAGE_BYTES: u32 = 16 << 20;
/// Long enough to make the cost per transfer negligible, short enough that completions show progress within the timeout, and that
/// two keep a device busy without overflowing buffers on the path (`MAX_READ_BYTES`).
const MAX_TRANSFER_BYTES: u32 = 1 << 20;
