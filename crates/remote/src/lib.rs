//! Runs commands on other hosts, by the user's own ssh with its keys and configuration, never with a password. Inside a
//! Slurm allocation srun is used instead.
//!
//! Start at [`Shell`], which runs commands on a host. [`run_script()`] runs a script and returns its answer, [`wirelane()`] runs this program
//! and copies it to hosts that do not have it, [`snapshot()`] takes a snapshot of a host, [`in_parallel()`] works on many
//! hosts, [`HostAnswer`] is the answer of this program on each, a [`Supervisor`] keeps a job running on one host.
//! Arguments in scripts are quoted by [`jobs::environment::shell_word`]. Every wait has a limit.
//!
//! It prints nothing and knows no exit codes: callers pass a function for progress, and get an [`Error`].

mod command;
mod error;
mod host_answer;
mod parallel;
mod program;
mod shell;
mod snapshot;
mod supervisor;

pub use command::{Answer, Limits, run_script};
pub use error::Error;
pub use host_answer::{HostAnswer, Target, targets};
pub use parallel::in_parallel;
pub use program::{Progress, own_program, upload_script, wirelane};
pub use shell::Shell;
pub use snapshot::{is_file, snapshot};
pub use supervisor::{Stream, Supervisor, SupervisorEvent};
