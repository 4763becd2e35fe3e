//! `wirelane --version`: the version, and whether RDMA can be used here.

use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::rdma::Rdma;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(global: &Global) -> Result<Exit, Failure> {
    let rdma = Rdma::look(global);
    output::answer(&format!("wirelane {VERSION}\nRDMA: {}\n", rdma.sentence()))?;
    Ok(Exit::Done)
}
