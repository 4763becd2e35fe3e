//! Runs commands on other hosts, by the user's own ssh: keys and configuration as they are, and never a password. Inside a
//! Slurm allocation it is srun.
//!
//! Start at [`Shell`], which is where commands run. [`ask()`] runs one there and brings back its answer, [`wirelane()`] runs this program
//! there and sends it along where there is none, [`snapshot()`] reads what the host is like, [`all_at_once()`] is for many
//! hosts and [`HostAnswer`] what this program answered on each, a [`Supervisor`] keeps a job running on one of them.
//! Whatever goes into a script is quoted by [`jobs::job::shell_word`]. Every wait has a limit.
//!
//! It prints nothing and knows no exit codes: callers pass a function for progress, and get an [`Error`].

mod all_at_once;
mod answers;
mod ask;
mod error;
mod program;
mod shell;
mod snapshot;
mod supervisor;

pub use all_at_once::all_at_once;
pub use answers::{HostAnswer, Place, places};
pub use ask::{Answer, Limits, ask};
pub use error::Error;
pub use program::{Progress, own_program, sent_along, wirelane};
pub use shell::Shell;
pub use snapshot::{is_file, snapshot};
pub use supervisor::{Stream, Supervisor, SupervisorEvent};
