//! A small HTTP server for a few pages, with limits on connections, header size and time. It has no settings and knows no exit codes.
//!
//! Start at [`Site`]: how connections begin (plain or TLS) and how requests are answered. [`serve`] accepts
//! connections for it until the server stops. [`get`] reads one page without an async runtime.

mod client;
mod reply;
mod server;
mod stream;

pub use client::{GetError, get};
pub use reply::{PLAIN, Reply, routing_error, text};
pub use server::{Head, Site, serve};
pub use stream::Stream;
