//! Measures what lanes between two hosts give: bandwidth, latency, message rate.
//!
//! One end serves ([`serve`]) and stays; others come with a [`Plan`] and run it ([`Client`]). What is measured are bare lanes,
//! as the field's own programs measure bare queue pairs: no link is between that would spread, repeat or hide anything. The
//! two ends speak over an authenticated session; who gets in is decided as everywhere else.
//!
//! It measures and counts, and judges nothing: whether a figure is what a link should give is said elsewhere.
//!
//! Start at [`Plan`], then [`Client::measure`]; what all kinds of runs are written as is a [`Document`]. The hot loops are `stream.rs` and `pingpong.rs`.

mod attend;
mod client;
mod cpu;
mod document;
mod end;
mod error;
mod latency;
mod message;
pub mod nccl;
mod outcome;
mod pattern;
mod pingpong;
mod plan;
pub mod report;
mod server;
mod stream;
mod talk;
mod ticks;
pub mod trend;
mod ways;

pub use client::{Client, Progress};
pub use document::{
    Cap, Collective, CollectiveRow, Document, Expectation, FORMAT, Failed, Half, Likely, Matrix,
    Point, RunKind, SlowHost, SlowLink, Spread, Tool, Verdict,
};
pub use error::{Error, Kind};
pub use latency::Latency;
pub use outcome::{Outcome, Rail};
pub use plan::{Limit, Operation, Plan, Test, Transport};
pub use server::{Facts, Onward, Server, ServerSettings, Told, serve};
pub use ways::{KERNEL, PortAt, PortPair, Ways};
