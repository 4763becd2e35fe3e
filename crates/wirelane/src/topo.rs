//! `wirelane topo`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct TopoArgs {}

pub(crate) fn run(_global: &Global, _args: &TopoArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("topo: not there yet"))
}
