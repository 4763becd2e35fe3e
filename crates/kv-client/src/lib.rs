//! A client of the store: values land in registered memory of the client's, written there by the store
//! itself, by whatever lane the link between them has.
//!
//! It keeps nothing: no cache, no copy. It asks again when a line is lost and the store still knows
//! what was done; it never repeats a write whose outcome nobody can tell.
//!
//! Start at [`Client`], made from [`Settings`]; what it gets is a [`Value`]. [`AsyncClient`] is the same to
//! await; a [`RegisteredBuffer`] is memory of the caller's own that values go straight into and come straight from.

mod address;
mod answers;
mod ask;
mod awaited;
mod call;
mod client;
mod connection;
mod core;
mod destination;
mod driver;
mod error;
mod handle;
mod hint;
mod in_flight;
mod options;
mod outbox;
mod page;
mod pending;
mod receive_buffer;
mod registered_buffer;
mod request_slots;
mod results;
mod retry;
mod settings;
mod stream;
mod token;
mod value;

pub use address::Address;
pub use awaited::AsyncClient;
pub use client::Client;
pub use error::{Error, Kind, Resource};
pub use kv_proto::Condition;
pub use kv_proto::wire::Limits;
pub use options::PutOptions;
pub use page::{Cursor, Page};
pub use pending::Pending;
pub use registered_buffer::RegisteredBuffer;
pub use results::Stored;
pub use settings::{CredentialSource, Settings};
pub use stream::{Reader, Writer};
pub use token::Token;
pub use value::{Facts, Value};
