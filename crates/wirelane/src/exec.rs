//! `wirelane exec`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {}

pub(crate) fn run(_global: &Global, _args: &ExecArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("exec: not there yet"))
}
