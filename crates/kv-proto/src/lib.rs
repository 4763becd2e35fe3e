//! Messages between a store and its clients.
//!
//! `proto/wirelane/kv/v1/kv.proto` is the contract for every language; `v1` is the Rust code generated
//! from it, with the feature `grpc`. A message may contain anything, so its parts are checked on arrival and
//! converted to types that cannot be invalid: [`Key`], [`Span`], [`ValidPutOptions`], [`Condition`], [`WriteId`].
//! Nothing here connects, serves or stores anything, and this crate depends on no other crate of the workspace.
//!
//! [`wire`] is the fast path: the binary messages on links, used instead of gRPC. It needs no feature.
//!
//! Start at the .proto, then [`Key`]; for links, at [`wire`].

mod condition;
mod error;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(feature = "grpc")]
mod grpc;
mod key;
pub mod limits;
mod span;
mod valid_put_options;
pub mod wire;
mod write_id;

pub use condition::{Condition, NotMet};
pub use error::Error;
#[cfg(feature = "grpc")]
pub use grpc::{FILE_DESCRIPTOR_SET, SERVICE, VERSION_METADATA, v1};
pub use key::Key;
pub use span::Span;
pub use valid_put_options::ValidPutOptions;
pub use write_id::{SESSION_ID_BYTES, WriteId};
