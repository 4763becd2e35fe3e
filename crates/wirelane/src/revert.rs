//! `wirelane revert`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct RevertArgs {}

pub(crate) fn run(_global: &Global, _args: &RevertArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("revert: not there yet"))
}
