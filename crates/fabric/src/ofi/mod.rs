//! libfabric: the same lanes over EFA, TCP, and every other provider of reliable datagrams.
//!
//! [`survey()`] asks the library what is here, [`choose()`] takes a provider, and a [`Domain`] opens it. A lane
//! begins as a `half`: an endpoint of its own and an `offer`. Closing that endpoint is the lane's fence.
//!
//! Writes and reads go by the provider, straight between the memories. Everything that takes one of the
//! peer's receives, and atomic operations, go as `frame`s into buffers of the lane (`slots`): providers differ in
//! what they do with a message that nobody receives, in what they tell of immediate data, and in whether
//! they add and swap at all. A frame waits in its buffer for a receive, the sender for the peer's word that it
//! was received, and the number of buffers bounds both. So the immediate data of a write is sent once the write
//! is known to be placed, and needs no order of the provider's. Long messages do not go through these buffers: they lie on
//! their sender's `rendezvous`, a frame says where, and the receiver reads them from there (`fetches`) once they have a receive.
//!
//! The `shm` provider trusts its peers: it writes to any memory of a process for who names an address, whatever was
//! registered, and may do so after an endpoint was closed. Over it everything goes as frames, and the peer
//! itself writes and reads what it has granted; keys, bounds and rights are looked at there.
//!
//! The hot path is `lane`, with `core`, `sends` and `inbox` under it. The C objects have a file each: `fabric`, `device`,
//! `mr`, `cq`, `av`, `endpoint`.

mod av;
mod choose;
mod config;
mod contexts;
mod core;
mod cq;
mod deferred_close;
mod device;
mod domain;
mod endpoint;
mod environment;
mod fabric;
mod failure;
mod fetches;
mod frame;
mod gather;
mod granted;
mod half;
mod inbox;
mod info;
mod lane;
mod library;
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
mod survey;
mod usable_provider;
mod wait_fd;

pub use choose::{Choice, Refusal, candidates, choose};
pub use config::Config;
pub use domain::Domain;
pub use environment::{ENVIRONMENT, keeps_registrations};
pub(crate) use pair::pair;
pub use survey::{Provider, Survey, Unavailable, survey};
pub(crate) use usable_provider::{UsableProvider, is_rdma};

/// What a peer offers, and a frame of its: well formed and the same again as bytes, or refused.
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
