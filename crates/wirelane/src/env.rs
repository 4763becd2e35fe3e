//! `wirelane env`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct EnvArgs {}

pub(crate) fn run(_global: &Global, _args: &EnvArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("env: not there yet"))
}
