//! A machine that is watched: its ports, GPUs and CPUs from moment to moment.
//!
//! A [`Frame`] is one look, and everything that watches is a view of frames: the exporter's text, `wirelane top`, and what
//! it records. Facts that stay (firmware, cables, which port belongs to which net device) are read now and then, numbers each
//! time. What could not be read is in the frame as a fault, and hides nothing else.
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
pub use rdma::{RdmaLook, RdmaWatch, Settings};
