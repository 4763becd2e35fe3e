//! A small HTTP server: a few pages, and limits so that no caller can hold it up. It has no settings and knows no exit codes.
//!
//! Start at [`Site`], which is what is served at one address: how connections begin (plain or TLS) and what is answered. [`serve`] takes
//! connections for it until it is told to stop. [`get`] reads one page of such a server, for programs that have no runtime.

mod client;
mod reply;
mod server;
mod stream;

pub use client::{GetError, get};
pub use reply::{PLAIN, Reply, misdirected, text};
pub use server::{Head, Site, serve};
pub use stream::Stream;
