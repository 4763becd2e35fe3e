//! Results of measurements, of any program: the plan ([`Plan`]), the result ([`Outcome`]), and the [`Document`] that a
//! run is saved as.
//!
//! It measures nothing, reads no file and opens no connection: text comes in and goes out. [`nccl`] reads the tables of NCCL's
//! own programs, [`trend`] compares documents, [`page`] renders them as one HTML file.
//!
//! Start at [`Document`].

mod document;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod latency;
pub mod nccl;
mod number;
mod outcome;
pub mod page;
mod plan;
pub mod trend;

pub use document::{
    Bottleneck, Bound, Collective, CollectiveResult, CollectiveRow, Document, Expectation, FORMAT,
    FailedPair, Matrix, Point, PointLatency, RunKind, SlowHost, SlowPair, Tool, Verdict,
    replace_controls,
};
pub use latency::Latency;
pub use outcome::{Outcome, Rail};
pub use plan::{Limit, Operation, Plan, PlanError, Test, Transport};
