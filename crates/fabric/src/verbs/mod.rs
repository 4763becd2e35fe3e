//! RDMA by libibverbs: InfiniBand, RoCE, and soft-RoCE.
//!
//! [`survey()`] asks every device, [`choose()`] takes one, and a [`Domain`] opens it. Where two hosts have
//! several, [`pair()`] says which belong together. A lane begins as a
//! `half`: a queue pair and an `offer`, which with the peer's becomes its `attributes`. The hot path is
//! `lane`, with `sends` and `receives` under it. The C objects have a file each, from `context` to `ah`.

mod admission;
mod ah;
mod attributes;
mod chain;
mod channel;
mod choose;
mod config;
mod context;
mod cq;
mod datagram;
mod device;
mod domain;
mod events;
mod gid;
mod half;
mod health;
mod interfaces;
mod lane;
mod mr;
mod offer;
mod outcome;
mod pair;
mod port;
mod qp;
mod rail;
mod receives;
mod request;
mod sends;
mod srq;
mod survey;
mod usable_port;
mod wait_fd;
mod zero;

pub use choose::{Choice, DeviceRequest, Refusal, candidates, choose};
pub use config::{Config, QpType};
pub use device::{AskError, Device, DeviceFacts, Extended, Guid, Limits};
pub use domain::Domain;
pub use events::Incidents;
pub use gid::{Gid, GidEntry, GidType, allowed};
pub use pair::{Pair, pair};
pub use port::{LinkLayer, Port, PortState};
pub use survey::{Survey, Unavailable, survey};
pub use usable_port::UsablePort;

/// The name under which every distribution installs libibverbs.
pub const LIBRARY: &str = rdma_sys::verbs::SONAME;

/// What a peer offers, and what it tells of a port: well formed and the same again as bytes, or refused.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_offer(bytes: &[u8]) {
    if let Ok(offer) = offer::Offer::from_bytes(bytes) {
        assert_eq!(offer.to_bytes(), bytes);
    }
    if let Ok(port) = UsablePort::from_bytes(bytes) {
        assert_eq!(port.to_bytes(), bytes);
        let (pairs, left) = pair(std::slice::from_ref(&port), std::slice::from_ref(&port), 1);
        assert_eq!(2 * pairs.len() + left.len(), 2);
    }
}
