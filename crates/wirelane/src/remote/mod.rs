//! What is done on another host, by the user's own ssh: keys and configuration as they are, and never a password. Inside an
//! allocation of Slurm's it is srun.
//!
//! [`Shell`] is where commands run. [`ask()`] runs one there and brings back what it says, `program` runs this program
//! there and sends it along where there is none, [`snapshot()`] tells what the host is like, [`all_at_once()`] is for many
//! hosts and [`HostAnswer`] what this program said on each, a [`Supervisor`] holds a job on one of them. Whatever goes into a script is quoted by [`jobs::job::shell_word`]. Every wait has an end.

mod all_at_once;
mod ask;
mod program;
mod shell;
mod snapshot;
mod supervisor;
mod told;

pub(crate) use all_at_once::all_at_once;
pub(crate) use ask::{Limits, ask};
pub(crate) use program::{own_program, sent_along};
pub(crate) use shell::Shell;
pub(crate) use snapshot::{is_file, snapshot};
pub(crate) use supervisor::{EventKind, Stream, Supervisor, SupervisorEvent};
pub(crate) use told::{HostAnswer, hosts, places};
