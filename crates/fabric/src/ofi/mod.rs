//! libfabric: the same lanes over EFA, TCP, and every other provider of reliable datagrams.
//!
//! [`list_providers()`] lists the providers, [`choose()`] selects one, and a [`Domain`] opens it. A lane
//! starts as an `unconnected_lane`: its endpoint and an `offer`. Closing that endpoint is the lane's fence.
//!
//! Writes and reads are the provider's RMA operations, directly between the memories. Everything that consumes one of the
//! peer's receives, and atomic operations, are sent as `frame`s into buffers of the lane (`slots`): providers differ in
//! how they treat a message without a posted receive, in what they report of immediate data, and in whether
//! they support atomics. A frame waits in its buffer for a receive, the sender waits for the peer's report that it
//! was received, and the number of buffers limits both. The immediate data of a write is sent once the write
//! is known to be placed, and so does not depend on the provider's ordering. Long messages do not pass through these buffers: they
//! are copied to the sender's `rendezvous` buffers, a frame has their address, and the receiver reads them (`fetches`) once they have a receive.
//!
//! The `shm` provider does not protect memory: a peer can write to any address of a process, whatever is
//! registered, and also after an endpoint was closed. Over it everything is sent as frames, and the peer
//! itself writes and reads what it has granted, after checking keys, bounds and rights.
//!
//! The hot path is `lane`, which uses `core`, `sends` and `inbox`. Each C object has its own file: `fabric`, `fid_domain`,
//! `mr`, `cq`, `av`, `endpoint`.

mod av;
mod choose;
mod config;
mod contexts;
mod core;
mod cq;
mod deferred_close;
mod domain;
mod endpoint;
mod environment;
mod fabric;
mod failure;
mod fetches;
mod fid_domain;
mod frame;
mod gather;
mod granted;
mod inbox;
mod info;
mod lane;
mod library;
mod list_providers;
#[cfg(all(test, feature = "external-tests"))]
mod misbehaving_peer;
mod mr;
mod offer;
mod outgoing;
mod pair;
mod peer_process;
mod rendezvous;
mod sends;
mod slots;
mod stall_timer;
mod unconnected_lane;
mod usable_provider;
mod wait_fd;

pub use choose::{Choice, Refusal, candidates, choose};
pub use config::Config;
pub use domain::Domain;
pub use environment::{ENVIRONMENT, caches_registrations};
pub use list_providers::{Provider, ProviderList, Unavailable, list_providers};
pub(crate) use pair::pair;
pub(crate) use usable_provider::{UsableProvider, is_rdma};

/// Parses an offer and a frame of a peer: each is refused, or encodes to the same bytes again.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_offer(bytes: &[u8]) {
    if let Ok(offer) = offer::Offer::from_bytes(bytes) {
        assert_eq!(offer.to_bytes(), bytes);
    }
    if let Some((header, _)) = bytes.split_first_chunk()
        && let Ok(frame) = frame::Frame::from_bytes(header)
    {
        assert_eq!(frame.to_bytes(), *header);
    }
}
