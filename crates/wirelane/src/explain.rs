//! `wirelane explain`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {}

pub(crate) fn run(_global: &Global, _args: &ExplainArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("explain: not there yet"))
}
