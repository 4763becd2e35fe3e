//! `wirelane snapshot`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {}

pub(crate) fn run(_global: &Global, _args: &SnapshotArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("snapshot: not there yet"))
}
