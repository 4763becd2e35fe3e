//! Messages between a store and its clients.
//!
//! `proto/wirelane/kv/v1/kv.proto` is the contract for every language; [`v1`] is the Rust code generated
//! from it. A message may contain anything, so its parts are checked on arrival and converted to types that
//! cannot be invalid: [`Key`], [`Span`], [`ValidPutOptions`], [`Condition`], [`WriteId`]. Nothing here
//! connects, serves or stores anything, and this crate depends on no other crate of the workspace.
//!
//! [`wire`] is the fast path: the binary messages on links, used instead of gRPC.
//!
//! Start at the .proto, then [`Key`]; for links, at [`wire`].

mod condition;
mod error;
mod item_error;
mod key;
pub mod limits;
mod span;
mod valid_put_options;
pub mod wire;
mod write_id;

pub use condition::{Condition, NotMet, VERSION_METADATA};
pub use error::Error;
pub use key::Key;
pub use span::Span;
pub use valid_put_options::ValidPutOptions;
pub use write_id::{SESSION_ID_BYTES, WriteId};

/// The service's name for health checks and reflection.
pub const SERVICE: &str = v1::kv_server::SERVICE_NAME;

/// The encoded `google.protobuf.FileDescriptorSet` of the .proto, with its comments, for gRPC's
/// reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include!("generated/descriptors.rs");

/// Messages, client and server of `wirelane.kv.v1`, generated from the .proto by `cargo xtask proto`.
#[allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    reason = "generated; the .proto does not comment every field, and tonic allows lints itself"
)]
pub mod v1 {
    include!("generated/wirelane.kv.v1.rs");
}
