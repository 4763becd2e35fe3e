//! A frame as text for Prometheus.
//!
//! A label that has no value is left out, in every metric: Prometheus takes an empty one for missing. What is not known has
//! no sample. The label `counter` is the file's name.

mod gpu;
mod machine;
pub mod node_exporter;
mod port;

use std::fmt;

use metric::{Exposition, Prefix};

use super::Frame;

/// What a frame tells, by prefix.
#[derive(Debug)]
pub struct Exposed {
    /// `rdma_…`: devices and ports.
    pub rdma: Exposition,
    /// `wirelane_…`: the rest.
    pub own: Exposition,
}

/// All that a frame tells.
pub fn expose(frame: &Frame) -> Exposed {
    let mut rdma = Exposition::new(&prefix("rdma"));
    let mut own = Exposition::new(&Prefix::default());
    port::expose(frame, &mut rdma, &mut own);
    gpu::expose(&frame.gpus, frame.gpu_driver.as_deref(), &mut own);
    machine::expose(frame, &mut rdma, &mut own);
    Exposed { rdma, own }
}

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.rdma, self.own)
    }
}

fn prefix(word: &'static str) -> Prefix {
    word.parse().expect("a constant prefix is a word")
}

/// Labels that have a value.
fn labels<'l, const N: usize>(
    labels: [(&'static str, Option<&'l str>); N],
) -> Vec<(&'static str, &'l str)> {
    let there = labels.into_iter().filter_map(|(name, value)| Some((name, value?)));
    there.filter(|(_, value)| !value.is_empty()).collect()
}

/// Megabits as the bytes that they are.
fn bytes_per_second(mbps: u64) -> u64 {
    mbps.saturating_mul(1_000_000 / 8)
}
