//! RDMA over libibverbs: InfiniBand, RoCE, and soft-RoCE.
//!
//! [`list_devices()`] queries every device, [`choose()`] selects one, and a [`Domain`] opens it. If two hosts have
//! several ports, [`pair()`] pairs them. A lane starts as an
//! `unconnected_lane`: a queue pair and an `offer`. The offers of both ends determine the queue pair's `attributes`. The hot path is
//! `lane`, which uses `sends` and `receives`. Each C object has its own file, from `context` to `ah`.
//!
//! `ibv_fork_init` is not called. A process that forks without `exec` while it uses these lanes needs Linux 5.12, or the variable
//! `RDMAV_FORK_SAFE=1` (with huge pages also `RDMAV_HUGEPAGES_SAFE=1`) before it starts.

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
mod health;
mod interfaces;
mod lane;
mod list_devices;
mod message_memory;
mod mr;
mod offer;
mod op_check;
mod open_port;
mod outcome;
mod pair;
mod port;
mod qp;
mod query_threads;
mod receives;
mod request;
mod sends;
mod srq;
mod srq_slots;
mod unconnected_lane;
mod usable_port;
mod wait_fd;
mod zero;

pub use choose::{Choice, DeviceRequest, Refusal, candidates, choose};
pub use config::{Config, QpType, SrqConfig};
pub use device::{Device, DeviceFacts, Extended, Guid, Limits, QueryError};
pub use domain::Domain;
pub use events::EventCounts;
pub use gid::{Gid, GidEntry, GidType, allowed};
pub use list_devices::{QueriedDevices, Unavailable, list_devices};
pub use pair::{Pair, pair};
pub use port::{LinkLayer, Port, PortState};
pub use usable_port::UsablePort;

/// The soname of libibverbs, the same in every distribution.
pub const LIBRARY: &str = rdma_sys::verbs::SONAME;

/// Parses an offer and a port of a peer: each is refused, or encodes to the same bytes again.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_offer(bytes: &[u8]) {
    if let Ok(offer) = offer::Offer::from_bytes(bytes) {
        assert_eq!(offer.to_bytes(), bytes);
    }
    if let Ok(port) = UsablePort::from_bytes(bytes) {
        assert_eq!(port.to_bytes(), bytes);
        let (pairs, unpaired) = pair(std::slice::from_ref(&port), std::slice::from_ref(&port), 1);
        assert_eq!(2 * pairs.len() + unpaired.len(), 2);
    }
}
