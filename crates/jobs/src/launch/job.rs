//! A requested job.

use crate::environment::{Mode, Version};

/// A job to be planned.
#[derive(Debug)]
pub struct Job<'j> {
    /// Its ID: only letters and digits. It is part of folder names, and `WIRELANE_JOB` in the environment
    /// of every process of the job. It should not be guessable.
    pub id: &'j str,
    /// The framework that connects its ranks.
    pub framework: Framework,
    /// With RDMA or without.
    pub mode: Mode,
    /// A program and its arguments.
    pub command: &'j [String],
    /// The working folder on every host; the user's home where it does not exist.
    pub directory: &'j str,
    /// Folders with programs (`PATH` of this machine), searched before the host's own.
    pub path: &'j str,
    /// The command that connects to another host, for launchers that do it themselves: the full path of ssh, and options; or
    /// a replacement.
    pub ssh: &'j [String],
    /// The user's variables for every rank.
    pub environment: &'j [(String, String)],
    /// Number of ranks, if less than the hosts have slots: they fill the hosts in their order.
    pub ranks: Option<u32>,
    /// The rendezvous port on the first host; `None`: derived from the ID.
    pub port: Option<u16>,
    /// The job's NCCL, if the user gives it.
    pub nccl: Option<Version>,
}

/// The framework that connects the ranks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    /// Open MPI, with mpirun.
    Mpi,
    /// PyTorch, with torchrun on every host.
    Torch,
    /// TensorFlow, with `TF_CONFIG` on every host.
    Tensorflow {
        /// Number of parameter servers, the last hosts.
        ps: u32,
        /// Whether the first host is only the chief, and no worker.
        chief: bool,
        /// Whether hosts of parameter servers are workers too.
        shared: bool,
    },
    /// Horovod, with horovodrun.
    Horovod,
}

impl Framework {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Framework::Mpi => "mpi",
            Framework::Torch => "torch",
            Framework::Tensorflow { .. } => "tensorflow",
            Framework::Horovod => "horovod",
        }
    }
}
