//! What can be typed after `launch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jobs::job::Version;
use jobs::launch::Framework;

use crate::commands::env::ModeArg;
use crate::commands::hosts::NamedArgs;
use crate::output::Failure;

#[derive(Debug, Args)]
#[command(after_help = "\
Every host is reached by ssh as you would reach it, by keys alone; this machine itself needs none, and inside an allocation of
Slurm it is srun.
Each rank gets the environment of `wirelane env` on its own host. All output is shown with the
host's name before each line, and kept in logs. Ctrl-C ends everything everywhere. At the end
counters of ports and net devices tell whether RDMA transferred the data.
The exit code is the first failing rank's own, 130 after Ctrl-C, or one of those of `wirelane --help`.")]
pub(crate) struct LaunchArgs {
    /// Who makes one job of its ranks
    #[arg(value_name = "FRAMEWORK")]
    framework: FrameworkArg,

    #[command(flatten)]
    pub(super) named: NamedArgs,

    /// Require RDMA, disable it, or use it where every host can
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(super) mode: ModeArg,

    /// Print exactly what would run where, and start nothing
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Say why the command lines are as they are, and what is wrong with those of guides; start nothing
    #[arg(long)]
    pub(super) explain: bool,

    /// Keep the logs in a folder of the job's own in here (default: the user's state folder)
    #[arg(long, value_name = "DIR")]
    pub(super) log_dir: Option<PathBuf>,

    /// A variable for every rank; without a value, the one it has here
    #[arg(short = 'x', long = "env", value_name = "NAME[=VALUE]")]
    variables: Vec<String>,

    /// The port of the first host where ranks meet (default: one made of the job's id)
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: Option<u16>,

    /// The NCCL that the job loads, if it is not the one that is found
    #[arg(long, value_name = "VERSION")]
    pub(super) nccl: Option<Version>,

    /// tensorflow: so many hosts, the last ones, are parameter servers
    #[arg(long, value_name = "N")]
    ps: Option<u32>,

    /// tensorflow: the first host coordinates, and does nothing else
    #[arg(long)]
    chief: bool,

    /// Answer as JSON on stdout; what the job prints goes to stderr then
    #[arg(long)]
    pub(super) json: bool,

    /// The command that every rank runs, and its arguments
    #[arg(last = true, value_name = "CMD", help_heading = "Arguments")]
    pub(super) command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FrameworkArg {
    /// Open MPI 4 or 5, by mpirun
    Mpi,
    /// PyTorch, by torchrun on every host
    Torch,
    /// TensorFlow, by TF_CONFIG on every host
    Tensorflow,
    /// Horovod, by horovodrun
    Horovod,
}

impl LaunchArgs {
    /// What was named, if its options fit it.
    pub(super) fn framework(&self) -> Result<Framework, Failure> {
        let is_tensorflow = self.framework == FrameworkArg::Tensorflow;
        if !is_tensorflow && (self.ps.is_some() || self.chief) {
            return Err(Failure::usage("launch: --ps and --chief are for tensorflow alone"));
        }
        Ok(match self.framework {
            FrameworkArg::Mpi => Framework::Mpi,
            FrameworkArg::Torch => Framework::Torch,
            FrameworkArg::Tensorflow => {
                Framework::Tensorflow { ps: self.ps.unwrap_or(0), chief: self.chief }
            }
            FrameworkArg::Horovod => Framework::Horovod,
        })
    }

    /// How many hosts, the first ones, end by themselves; the others serve them. Where a chief has parameter servers, its
    /// workers serve too.
    pub(super) fn awaited(&self, hosts: usize) -> usize {
        match self.ps.and_then(|ps| usize::try_from(ps).ok()).unwrap_or(0) {
            0 => hosts,
            _ if self.chief => 1,
            servers => hosts.saturating_sub(servers),
        }
    }

    /// Variables of the user's for every rank.
    pub(super) fn variables(&self) -> Result<Vec<(String, String)>, Failure> {
        let variable = |word: &String| {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => {
                    let unset = || Failure::usage(format!("-x {word}: it has no value here"));
                    (word.as_str(), std::env::var(word).map_err(|_| unset())?)
                }
            };
            match is_name(name) {
                true if name == "WIRELANE_JOB" => Err(Failure::usage(format!(
                    "-x {word}: by this variable the job's processes are found when it ends"
                ))),
                true => Ok((name.to_owned(), value)),
                false => Err(Failure::usage(format!("-x {word}: no variable has such a name"))),
            }
        };
        self.variables.iter().map(variable).collect()
    }
}

/// What a shell can set.
fn is_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(plain)
}
