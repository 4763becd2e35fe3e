//! `wirelane capture`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {}

pub(crate) fn run(_global: &Global, _args: &CaptureArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("capture: not there yet"))
}
