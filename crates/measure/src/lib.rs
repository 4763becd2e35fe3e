//! Measures lanes between two hosts: bandwidth, latency, message rate.
//!
//! One end is a server ([`serve`]); clients connect with a [`Plan`](report::Plan) and run it ([`Client`]). Bare lanes are measured,
//! like perftest measures bare queue pairs: there is no link that would spread, repeat or hide anything. The
//! two ends coordinate over an authenticated session.
//!
//! It measures and counts, and gives no verdict: whether a result is as expected is up to the doctor.
//!
//! Start at [`Client::measure`]; plans and results are [`report`]'s. The hot loops are `stream.rs` and `pingpong.rs`.

mod client;
mod control_connection;
mod cpu;
mod end;
mod error;
mod latency_recorder;
mod message;
mod pattern;
mod pingpong;
mod server;
mod stream;
mod ticks;
mod transports;
mod wait;

pub use client::{Client, Progress};
pub use error::{Error, ErrorKind};
pub use server::{CounterReader, Observer, RelayCredentials, Server, ServerSettings, serve};
pub use transports::{KERNEL, PortId, PortPair, Transports};
