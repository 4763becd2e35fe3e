//! A job on several hosts: what runs on this machine and on each host, with reasons.
//!
//! Nothing is started here: [`plan()`] takes the requested [`Job`] and the facts of each
//! host ([`JobHost`]), and returns a [`Launch`] that can be printed or run, or a [`Refusal`]
//! that names the host and the reason.
//!
//! Each host has a folder for the job with a script, `rank`: it sets the host's variables and executes the
//! command. So every host uses its own devices, and the program that starts the ranks (mpirun, horovodrun or ours) need
//! not know them.
//!
//! Start at [`plan()`]; the programs of a host are found with [`Tools`].

mod arguments;
mod horovod;
mod job;
mod job_host;
mod job_transport;
mod mistakes;
mod openmpi;
mod planned_launch;
mod ranks;
mod tag;
mod tensorflow;
mod tools;
mod torch;

pub use job::{Framework, Job};
pub use job_host::JobHost;
pub use planned_launch::{HostLaunch, Launch, LocalLauncher, Reason, Refusal};
pub use tag::{Tag, TaggedLine};
pub use tools::{Mpi, Tools, Torch};
pub(crate) use torch::torchrun;

/// Plans what runs where. `here` are the programs of this machine, where `mpirun` or `horovodrun` would run.
pub fn plan(job: &Job, here: &Tools, job_hosts: &[JobHost]) -> Result<Launch, Refusal> {
    ranks::check(job, job_hosts)?;
    let job_hosts = &ranks::limit(job, job_hosts)?[..];
    let transport = job_transport::choose(job, job_hosts)?;
    match job.framework {
        Framework::Mpi => openmpi::plan(job, here, job_hosts, transport),
        Framework::Torch => torch::plan(job, job_hosts, &transport),
        Framework::Tensorflow { ps, chief, shared } => {
            let servers = tensorflow::Servers { ps, chief, shared };
            tensorflow::plan(job, job_hosts, &transport, servers)
        }
        Framework::Horovod => horovod::plan(job, here, job_hosts, &transport),
    }
}

/// Wrong advice of guides, and what to use instead with the installed version.
pub fn explain(framework: Framework, here: &Tools) -> Vec<Reason> {
    mistakes::of(framework, here.mpi.as_ref().and_then(openmpi::series))
}
