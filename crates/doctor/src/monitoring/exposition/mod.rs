//! A sample of a machine as text for Prometheus.
//!
//! Labels without a value are omitted: to Prometheus an empty label is the same as a missing one. Unknown values have
//! no sample. The label `counter` is the file's name.

mod gpu;
mod machine;
pub mod node_exporter;
mod port;

use std::fmt;

use metric::{Exposition, Prefix};

use super::MachineSample;

/// The metrics of a sample, by prefix.
#[derive(Debug)]
pub struct SampleExposition {
    /// `rdma_…`: devices and ports.
    pub rdma: Exposition,
    /// `wirelane_…`: the rest.
    pub own: Exposition,
}

/// All metrics of a sample.
pub fn expose(sample: &MachineSample) -> SampleExposition {
    let mut rdma = Exposition::new(&prefix("rdma"));
    let mut own = Exposition::new(&Prefix::default());
    port::expose(sample, &mut rdma, &mut own);
    gpu::expose(&sample.gpus, sample.gpu_driver.as_deref(), &mut own);
    machine::expose(sample, &mut rdma, &mut own);
    SampleExposition { rdma, own }
}

impl fmt::Display for SampleExposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.rdma, self.own)
    }
}

fn prefix(word: &'static str) -> Prefix {
    word.parse().expect("a constant prefix is valid")
}

/// Labels that have a value.
fn labels<'l, const N: usize>(
    labels: [(&'static str, Option<&'l str>); N],
) -> Vec<(&'static str, &'l str)> {
    let present = labels.into_iter().filter_map(|(name, value)| Some((name, value?)));
    present.filter(|(_, value)| !value.is_empty()).collect()
}

/// Converts Mb/s to bytes per second.
fn bytes_per_second(mbps: u64) -> u64 {
    mbps.saturating_mul(1_000_000 / 8)
}
