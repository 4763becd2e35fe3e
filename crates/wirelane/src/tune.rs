//! `wirelane tune`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct TuneArgs {}

pub(crate) fn run(_global: &Global, _args: &TuneArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("tune: not there yet"))
}
