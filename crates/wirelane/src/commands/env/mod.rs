//! `wirelane env`: the environment variables for a job on this host, for a shell, NCCL, Open MPI or a program.

mod job;

use clap::{Args, ValueEnum};
use jobs::environment::Format;

use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

pub(crate) use job::{Confinement, JobArgs, ModeArg};

#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    #[command(flatten)]
    job: JobArgs,

    /// Output format: shell (`eval "$(wirelane env)"`), JSON, /etc/nccl.conf, Open MPI parameter file
    #[arg(long, value_name = "FORMAT", default_value = "sh")]
    format: FormatArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    Sh,
    Json,
    #[value(name = "nccl.conf")]
    NcclConf,
    Mca,
}

pub(crate) fn run(_global: &Global, args: &EnvArgs) -> Result<Exit, Failure> {
    let plan = args.job.plan()?.plan;
    args.job.report(&plan.devices, &plan.notes);
    match args.format {
        FormatArg::Json => output::json(&plan)?,
        FormatArg::Sh => output::answer(&plan.text(Format::Sh))?,
        FormatArg::NcclConf => output::answer(&plan.text(Format::NcclConf))?,
        FormatArg::Mca => output::answer(&plan.text(Format::Mca))?,
    }
    Ok(Exit::Done)
}
