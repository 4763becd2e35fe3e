//! A job on several hosts: what runs here, what runs there, and why so.
//!
//! Everything is worked out beforehand and nothing is started: [`plan()`] takes what is wanted ([`Job`]) and what each
//! host is like ([`Site`]), and gives a [`Launch`] that can be printed or run as it stands, or a [`Refusal`]
//! that names the host and the reason.
//!
//! Each host has a folder for the job and in it a script, `rank`: it sets the host's own variables and becomes the
//! command. So every host has its own devices, and the program that starts the ranks (mpirun, horovodrun or ours) need not know.
//!
//! Start at [`plan()`]; what a host has is found by [`Tools`].

mod arguments;
mod horovod;
mod job;
mod job_transport;
mod mistakes;
mod openmpi;
mod planned_launch;
mod ranks;
mod site;
mod tag;
mod tensorflow;
mod tools;
mod torch;

pub use job::{Framework, Job};
pub use planned_launch::{Head, Launch, OnHost, Reason, Refusal};
pub use site::Site;
pub use tag::{Tag, Tagged};
pub use tools::{Mpi, Tools, Torch};
pub(crate) use torch::torchrun;

/// Works out what runs where. `here` is what the machine has that `mpirun` or `horovodrun` would run on.
pub fn plan(job: &Job, here: &Tools, sites: &[Site]) -> Result<Launch, Refusal> {
    ranks::check(job, sites)?;
    let settled = job_transport::settle(job, sites)?;
    match job.framework {
        Framework::Mpi => openmpi::plan(job, here, sites, settled),
        Framework::Torch => torch::plan(job, sites, &settled),
        Framework::Tensorflow { ps, chief } => tensorflow::plan(job, sites, &settled, ps, chief),
        Framework::Horovod => horovod::plan(job, here, sites, &settled),
    }
}

/// What guides say, what is wrong with it, and what is done instead by the version that is here.
pub fn explain(framework: Framework, here: &Tools) -> Vec<Reason> {
    mistakes::of(framework, here.mpi.as_ref().and_then(openmpi::series))
}
