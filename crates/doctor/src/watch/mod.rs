//! Monitoring of a machine: periodic samples of its ports, GPUs and CPUs.
//!
//! A [`Frame`] is one sample; the exporter's text, `wirelane top` and its recordings are views of frames. Constant facts
//! (firmware, cables, which port belongs to which net device) are read once a minute, values each
//! time. What could not be read is a fault in the frame, and does not affect the rest.
//!
//! Start at [`Frame`]; the names of all metrics are in `rows.rs`.

pub mod exposition;
mod frame;
mod list;
mod rdma;
pub mod rows;

pub use frame::{Device, Frame, Port, Probe, Run, Store};
pub use list::{List, Pattern};
pub use node::answers::Holder;
pub use rdma::{RdmaSample, RdmaWatch, Settings};
