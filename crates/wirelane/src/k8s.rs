//! `wirelane k8s`.

use clap::Args;

use crate::cli::Global;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct K8sArgs {}

pub(crate) fn run(_global: &Global, _args: &K8sArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("k8s: not there yet"))
}
