//! Measures what lanes between two hosts give: bandwidth, latency, message rate.
//!
//! One end serves ([`serve`]) and stays; others come with a [`Plan`](report::Plan) and run it ([`Client`]). What is measured are bare lanes,
//! as the field's own programs measure bare queue pairs: no link is between that would spread, repeat or hide anything. The
//! two ends speak over an authenticated session; who gets in is decided as everywhere else.
//!
//! It measures and counts, and gives no verdict: whether a result is what a link should give is the doctor's to say.
//!
//! Start at [`Client::measure`]; plans and results are [`report`]'s. The hot loops are `stream.rs` and `pingpong.rs`.

mod client;
mod control_channel;
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
pub use error::{Error, Kind};
pub use server::{Facts, Observer, Onward, Server, ServerSettings, serve};
pub use transports::{KERNEL, PortAt, PortPair, Transports};
