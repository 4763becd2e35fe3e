//! A job as it was asked for.

use crate::job::{Mode, Version};

/// A job to be planned.
#[derive(Debug)]
pub struct Job<'j> {
    /// What tells it from others: letters and digits alone. Names folders, and is `WIRELANE_JOB` in the environment
    /// of every process of the job. Nobody should be able to guess it.
    pub id: &'j str,
    /// Who makes one job of its ranks.
    pub framework: Framework,
    /// With RDMA or without.
    pub mode: Mode,
    /// What runs: a program and its arguments.
    pub command: &'j [String],
    /// The folder that it runs in, on every host; where a host has no such folder, the user's home there.
    pub directory: &'j str,
    /// Folders with programs (`PATH` as it is here), looked into before the host's own.
    pub path: &'j str,
    /// How another host is reached from here, for launchers that do it themselves: ssh by its whole path, and options; or what
    /// stands in for it.
    pub ssh: &'j [String],
    /// Variables that the user hands on to every rank.
    pub environment: &'j [(String, String)],
    /// Where ranks find each other, on the first host; `None`: a port made of the id.
    pub port: Option<u16>,
    /// The job's NCCL, if the user knows better than what is found.
    pub nccl: Option<Version>,
}

/// Who makes one job of its ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    /// Open MPI, by mpirun.
    Mpi,
    /// PyTorch, by torchrun on every host.
    Torch,
    /// TensorFlow, by `TF_CONFIG` on every host.
    Tensorflow {
        /// How many hosts, the last ones, are parameter servers.
        ps: u32,
        /// Whether the first host coordinates and does nothing else.
        chief: bool,
    },
    /// Horovod, by horovodrun.
    Horovod,
}

impl Framework {
    /// As users type it.
    pub fn name(self) -> &'static str {
        match self {
            Framework::Mpi => "mpi",
            Framework::Torch => "torch",
            Framework::Tensorflow { .. } => "tensorflow",
            Framework::Horovod => "horovod",
        }
    }
}
