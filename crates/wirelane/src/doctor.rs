//! `wirelane doctor`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

pub(crate) fn run(_global: &Global, _args: &DoctorArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("doctor: not there yet"))
}
