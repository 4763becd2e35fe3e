//! `wirelane changes`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct ChangesArgs {}

pub(crate) fn run(_global: &Global, _args: &ChangesArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("changes: not there yet"))
}
