//! `wirelane --version`: the version, and whether RDMA can be used here.

use crate::links::rdma::Rdma;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(global: &Global) -> Result<Exit, Failure> {
    let rdma = Rdma::query(global);
    output::text(&format!("wirelane {VERSION}\nRDMA: {}\n", rdma.sentence()))?;
    Ok(Exit::Done)
}
