//! Samples of values that change: each call reads them again.
//!
//! Each kind is read separately, since each may be slow or hang.

mod gpu;
mod nic;
mod process_resources;
mod rdma;
mod usage;
mod xids;

pub use gpu::{GpuSample, GpuSampler};
pub use nic::NicSampler;
pub use process_resources::process_resources;
pub use rdma::{DeviceSample, Select, sample};
pub use usage::Usage;

/// Parses any line of the kernel log.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_line(line: &str) {
    xids::parse(line);
}
