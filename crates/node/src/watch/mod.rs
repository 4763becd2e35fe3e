//! What changes from moment to moment, read anew with each call.
//!
//! Each kind is read on its own, since each may be slow or hang: the caller decides what waits for what.

mod gpu;
mod holders;
mod nic;
mod rdma;
mod usage;
mod xids;

pub use gpu::{GpuLook, GpuWatch};
pub use holders::holders;
pub use nic::NicWatch;
pub use rdma::{Choice, DeviceLook, look};
pub use usage::Usage;

/// A line of the kernel's log, whatever it is.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_line(line: &str) {
    xids::parse(line);
}
