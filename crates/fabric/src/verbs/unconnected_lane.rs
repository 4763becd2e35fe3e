//! One end of a lane that is not connected yet: a queue pair and its offer.
//!
//! Connecting does not wait for the peer: it moves the local queue pair to RTS, with the peer's offer. What is sent
//! before the peer has done the same is retransmitted by the device, for about half a second with the default
//! settings: callers must confirm to each other that both are connected before they post.

use std::sync::Arc;
use std::time::Duration;

use super::ah::Ah;
use super::attributes::{Route, mtu_code};
use super::config::QpType;
use super::cq::Cq;
use super::datagram::Datagram;
use super::gid::Gid;
use super::gid::allowed;
use super::lane::VerbsLane;
use super::offer::Offer;
use super::open_port::OpenPort;
use super::qp::Qp;
use crate::error::{Error, ErrorKind};
use crate::grants::random;
use crate::lane::Lane;
use crate::setup::UnconnectedLane;

pub(super) struct UnconnectedVerbsLane {
    // Dropped in this order: the queue pair first.
    qp: Qp,
    cq: Arc<Cq>,
    open_port: Arc<OpenPort>,
    ours: Offer,
}

impl UnconnectedVerbsLane {
    pub(super) fn new(open_port: Arc<OpenPort>) -> Result<Self, Error> {
        let sizes = &open_port.sizes;
        let (context, vector) = (open_port.pd.context().clone(), open_port.next_vector());
        let cq = Cq::new(context, sizes.completions(), vector);
        let cq = Arc::new(cq.map_err(|errno| open_port.error("create a completion queue", errno))?);
        let srq = open_port.shared.as_ref().map(|shared| shared.srq().clone());
        let qp = Qp::new(open_port.pd.clone(), cq.clone(), srq, open_port.config.qp_type, sizes);
        let qp = qp.map_err(|errno| open_port.error("create a queue pair", errno))?;
        let ours = offer(&open_port, qp.number())?;
        Ok(UnconnectedVerbsLane { open_port, cq, qp, ours })
    }

    /// RESET → INIT → RTR → RTS.
    fn bring_up(&self, route: &Route<'_>) -> Result<(), Error> {
        for (state, (attr, mask)) in [
            ("INIT", route.init()),
            ("RTR", route.ready_to_receive()),
            ("RTS", route.ready_to_send()),
        ] {
            let moved = self.qp.modify(attr, mask);
            moved.map_err(|errno| {
                self.open_port.error(&format!("move the queue pair to {state}"), errno)
            })?;
        }
        Ok(())
    }
}

impl UnconnectedLane for UnconnectedVerbsLane {
    fn offer(&self) -> Vec<u8> {
        self.ours.to_bytes()
    }

    fn connect(self: Box<Self>, offer: &[u8], _limit: Duration) -> Result<Box<dyn Lane>, Error> {
        let peer = Offer::from_bytes(offer)?;
        if !allowed(&peer.gid, &self.open_port.config.allowed_gids) {
            let call = format!("connect over {}", self.open_port.choice.device);
            let why = format!("the peer's GID {} is not allowed", peer.gid);
            let fix = "add it to security.rdma.allowed_gids, if it should be allowed";
            return Err(Error::new(ErrorKind::Denied, call, why, fix));
        }
        let route = Route {
            config: &self.open_port.config,
            port: self.open_port.choice.port,
            gid_index: self.open_port.gid_index,
            max_initiated: at_most_255(self.open_port.limits.max_qp_init_rd_atom),
            ours: self.ours,
            peer,
        };
        route.check().map_err(|why| {
            let call = format!("connect over {} port {}", self.open_port.choice.device, route.port);
            Error::new(
                ErrorKind::Unsupported,
                call,
                why,
                "use the same settings and fabric at both ends",
            )
        })?;
        self.bring_up(&route)?;
        let datagram = match self.ours.qp_type {
            QpType::Ud => {
                let ah = Ah::new(self.open_port.pd.clone(), route.address());
                let ah =
                    ah.map_err(|errno| self.open_port.error("create an address handle", errno))?;
                Some(Datagram::new(ah, &peer, route.mtu()))
            }
            QpType::Rc | QpType::Dc => None,
        };
        let max_request = self.ours.max_message.min(peer.max_message);
        let max_send = peer.max_receive.map_or(max_request, |limit| limit.min(max_request));
        let UnconnectedVerbsLane { open_port, cq, qp, .. } = *self;
        let atomics = open_port.atomics && peer.atomics;
        Ok(Box::new(VerbsLane::new(open_port, cq, qp, datagram, (max_request, max_send), atomics)?))
    }
}

fn offer(open_port: &OpenPort, qpn: u32) -> Result<Offer, Error> {
    // Random, so that an unknown peer cannot guess them.
    let random = random()?;
    let (psn, qkey) = (random as u32, (random >> 32) as u32);
    // The subnet manager may have assigned another LID since the port was opened.
    let port = open_port.pd.context().port(open_port.choice.port);
    let lid = port.map_or(open_port.port.lid, |port| port.lid);
    Ok(Offer {
        qp_type: open_port.config.qp_type,
        link_layer: open_port.port.link_layer,
        mtu: mtu_code(open_port.choice.mtu),
        rd_atomic: at_most_255(open_port.limits.max_qp_rd_atom),
        atomics: open_port.atomics,
        lid,
        qpn,
        psn: psn & 0xff_ffff,
        // The highest bit is reserved for the kernel's keys.
        qkey: if open_port.config.qp_type == QpType::Ud { qkey & 0x7fff_ffff } else { 0 },
        max_message: open_port.max_message(),
        max_receive: open_port.shared.as_ref().map(|shared| shared.slot_bytes()),
        gid: open_port.choice.gid.as_ref().map_or(Gid([0; 16]), |entry| entry.gid),
    })
}

fn at_most_255(limit: i32) -> u8 {
    u8::try_from(limit.max(0)).unwrap_or(u8::MAX)
}
