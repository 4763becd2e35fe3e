//! RDMA by libibverbs: InfiniBand, RoCE, and soft-RoCE.

mod ah;
mod attributes;
mod chain;
mod channel;
mod choose;
mod config;
mod context;
mod cq;
mod cut;
mod device;
mod domain;
mod gid;
mod mr;
mod offer;
mod outcome;
mod port;
mod qp;
mod request;
mod slab;
mod srq;
mod survey;
mod zero;

pub use choose::{Choice, Refusal, Wish, choose};
pub use config::{Config, QpType};
pub use device::{AskError, Device, DeviceFacts, Extended, Guid, Limits};
pub use domain::Domain;
pub use gid::{Gid, GidEntry, GidType};
pub(crate) use mr::Mr;
pub use port::{LinkLayer, Port, PortState};
pub use survey::{Survey, Unavailable, survey};

/// The name under which every distribution installs libibverbs.
pub const LIBRARY: &str = rdma_sys::verbs::SONAME;
