//! A client of the Wirelane key-value store: keys and values are bytes, and values are placed in registered memory of this
//! process by the store itself, over RDMA, shared memory or TCP.
//!
//! Start at [`Client`], which blocks, or at [`AsyncClient`], the same for tokio; both are made from [`Settings`]. What
//! they get is a [`Value`], and every failure is an [`Error`] with an [`ErrorKind`] to match on.
//!
//! ```no_run
//! use kv_client::{Client, Condition, ErrorKind, PutOptions, Settings};
//!
//! # fn main() -> Result<(), kv_client::Error> {
//! let mut client = Client::connect(Settings::new("localhost:50051"))?;
//! let stored = client.put(b"greeting", b"hello", &PutOptions::default())?;
//! let value = client.get(b"greeting")?.expect("it was stored");
//! assert_eq!(&value[..], b"hello");
//!
//! // Replaces this version and no other.
//! let unchanged = PutOptions::default().with_condition(Condition::IfVersion(stored.version));
//! match client.put(b"greeting", b"hello again", &unchanged) {
//!     Ok(stored) => println!("version {}", stored.version),
//!     Err(error) if matches!(error.kind(), ErrorKind::Condition(_)) => println!("changed: {error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The examples `sync` and `async` show more: batches, locks, listings and errors.
//!
//! # Which call to use
//!
//! | to | use |
//! |---|---|
//! | read or write one value | [`Client::get`], [`Client::put`] |
//! | read or write many | [`Client::get_many`], [`Client::put_many`] |
//! | have many calls in flight | [`Client::begin_get`], [`Client::begin_put`], [`Client::ready`]; or tasks that share an [`AsyncClient`] |
//! | move values longer than the client buffer | [`Client::open`], [`Client::create`] |
//! | move values from and to your own memory without a copy | [`Client::register`], [`Client::get_into`], [`Client::put_from`] |
//!
//! # What it does not do
//!
//! It caches nothing, and copies nothing between stores: several [`Settings::servers`] are alternatives, not replicas.
//! It never repeats a write unless the store knows whether it was done before; if that is unknown, the call fails with
//! [`ErrorKind::Unknown`]. It reads no configuration file and no environment variable, and prints nothing.
//!
//! # Inside
//!
//! - A *call*, such as a get (`call.rs`), is one *step* after another (`step.rs`); each becomes one *request* (`kv_proto::wire`), and the next step
//!   depends on the answer.
//! - A request has an id, by which its *outcome* (`outcome.rs`) finds the caller: `request_table.rs`, for tasks `driver.rs`.
//! - Requests are collected in the next *batch* (`next_batch.rs`), one message; once it is sent it is pending (`pending_batches.rs`) until all
//!   of it is answered.
//! - `connection.rs` sends batches over a *link*, or puts them into a request slot for a store on the same host (`request_slots.rs`).
//! - `core.rs` has all this for both clients. If the connection is lost, it opens another and sends the pending batches again, except
//!   batches with writes if the store no longer knows the session: these writes may have been done already.

mod address;
mod async_client;
mod call;
mod client;
mod client_buffer;
mod connection;
mod core;
mod destination;
mod driver;
mod drop_queue;
mod error;
mod handle;
mod length_hint;
mod next_batch;
mod options;
mod outcome;
mod page;
mod pending;
mod pending_batches;
mod registered_buffer;
mod request_id;
mod request_slots;
mod request_table;
mod results;
mod retry;
mod settings;
mod step;
mod stream;
mod value;

pub use address::Address;
pub use async_client::AsyncClient;
pub use client::Client;
pub use error::{Error, ErrorKind, Resource};
pub use kv_proto::Condition;
pub use kv_proto::wire::Limits;
pub use options::PutOptions;
pub use page::{Cursor, Page};
pub use pending::{CallId, Pending};
pub use registered_buffer::RegisteredBuffer;
pub use results::Stored;
pub use settings::{CredentialSource, Settings};
pub use stream::{Reader, Writer};
pub use value::{Metadata, Value};
