//! Arguments of `wirelane launch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jobs::environment::Version;
use jobs::launch::Framework;

use crate::commands::env::ModeArg;
use crate::commands::hosts::HostListArgs;
use crate::output::Failure;

#[derive(Debug, Args)]
#[command(after_help = "\
Processes are started over ssh with your keys and configuration, never with a password; in a Slurm allocation with srun;
on this machine directly.
Each rank gets the environment of `wirelane env` on its host. Output is printed with the
host name before each line, and written to log files. Ctrl-C ends the job on all hosts. At the end
the counters of ports and net devices show whether RDMA transferred the data.
The exit code is that of the first failed rank, 130 after Ctrl-C, or one of those in `wirelane --help`.")]
pub(crate) struct LaunchArgs {
    /// The framework that starts the ranks
    #[arg(value_name = "FRAMEWORK")]
    framework: FrameworkArg,

    #[command(flatten)]
    pub(super) hosts: HostListArgs,

    /// Require RDMA, disable it, or use it if every host can
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(super) mode: ModeArg,

    /// Print what would run on each host, and start nothing; hosts that cannot be read are assumed to be like this machine
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Explain the command lines, and what is wrong with common ones from guides; start nothing
    #[arg(long)]
    pub(super) explain: bool,

    /// Directory for logs, with a subdirectory per job (default: the user's state directory)
    #[arg(long, value_name = "DIR")]
    pub(super) log_dir: Option<PathBuf>,

    /// Environment variable for every rank; without a value, that of this process
    #[arg(short = 'x', long = "env", value_name = "NAME[=VALUE]")]
    variables: Vec<String>,

    /// Number of ranks, if less than the hosts have slots; they fill the hosts in the order of the list
    #[arg(long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,

    /// Rendezvous port on the first host (default: derived from the job's id)
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: Option<u16>,

    /// Version of the NCCL that the job loads (default: that of the library found)
    #[arg(long, value_name = "VERSION")]
    pub(super) nccl: Option<Version>,

    /// tensorflow: number of hosts, the last ones, that are parameter servers
    #[arg(long, value_name = "N")]
    ps: Option<u32>,

    /// tensorflow: hosts of parameter servers are workers too
    #[arg(long, requires = "ps")]
    ps_with_workers: bool,

    /// tensorflow: the first host is the chief only, not a worker
    #[arg(long)]
    chief: bool,

    /// Print the result as JSON on stdout; the output of the job goes to stderr
    #[arg(long)]
    pub(super) json: bool,

    /// The command that every rank runs, and its arguments
    #[arg(last = true, value_name = "CMD", help_heading = "Arguments")]
    pub(super) command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FrameworkArg {
    /// Open MPI 4 or 5, with mpirun
    Mpi,
    /// PyTorch, with torchrun on every host
    Torch,
    /// TensorFlow, with TF_CONFIG on every host
    Tensorflow,
    /// Horovod, with horovodrun
    Horovod,
}

impl LaunchArgs {
    /// The framework, if its options are valid.
    pub(super) fn framework(&self) -> Result<Framework, Failure> {
        let is_tensorflow = self.framework == FrameworkArg::Tensorflow;
        if !is_tensorflow && (self.ps.is_some() || self.chief) {
            return Err(Failure::usage("launch: --ps and --chief are only for tensorflow"));
        }
        if is_tensorflow && self.ranks.is_some() {
            return Err(Failure::usage(
                "launch: --np is not for tensorflow, which has one process per host: pass fewer hosts",
            ));
        }
        Ok(match self.framework {
            FrameworkArg::Mpi => Framework::Mpi,
            FrameworkArg::Torch => Framework::Torch,
            FrameworkArg::Tensorflow => {
                let (ps, chief, shared) = (self.ps.unwrap_or(0), self.chief, self.ps_with_workers);
                Framework::Tensorflow { ps, chief, shared }
            }
            FrameworkArg::Horovod => Framework::Horovod,
        })
    }

    /// Of the parts of a launch the number of those, the first ones, whose processes end by themselves; the others are
    /// servers. With a chief and parameter servers, workers are servers too.
    pub(super) fn awaited(&self, parts: usize) -> usize {
        match self.ps.and_then(|ps| usize::try_from(ps).ok()).unwrap_or(0) {
            0 => parts,
            _ if self.chief => 1,
            servers => parts.saturating_sub(servers),
        }
    }

    /// The number of ranks of --np.
    pub(super) fn ranks(&self) -> Option<u32> {
        self.ranks
    }

    /// The environment variables of --env.
    pub(super) fn variables(&self) -> Result<Vec<(String, String)>, Failure> {
        let variable = |word: &String| {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => {
                    let unset = || Failure::usage(format!("-x {word}: the variable is not set"));
                    (word.as_str(), std::env::var(word).map_err(|_| unset())?)
                }
            };
            match is_name(name) {
                true if name == "WIRELANE_JOB" => Err(Failure::usage(format!(
                    "-x {word}: this variable is reserved, to find the processes of the job"
                ))),
                true => Ok((name.to_owned(), value)),
                false => Err(Failure::usage(format!("-x {word}: not a valid name of a variable"))),
            }
        };
        self.variables.iter().map(variable).collect()
    }
}

/// Whether it is a valid name of a shell variable.
fn is_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(plain)
}
