//! Monitoring of a machine: periodic samples of its ports, GPUs and CPUs.
//!
//! A [`MachineSample`] is one sample of all values; the exporter's text, `wirelane top` and its recordings are views
//! of it. Constant facts (firmware, cables, which port belongs to which net device) are read once a minute, values each
//! time. What could not be read is in the sample with the reason, and does not affect the rest.
//!
//! Start at [`MachineSample`]; the names of metrics are in `rows.rs`, those of counters in the tables of `node`.

pub mod exposition;
mod list;
mod rdma;
pub mod rows;
mod sample;

pub use list::{List, Pattern};
pub use node::queries::ProcessResources;
pub use rdma::{RdmaSample, RdmaSampler, Settings};
pub use sample::{CollectorRun, MachineSample, Probe, SampledDevice, SampledPort, SampledStore};
