//! The environment that a job on this host needs, and the devices that it may use.
//!
//! The platform reports the assigned devices in the environment ([`assigned`](self)); the host's files show which
//! devices exist and work (`usable`); if they contradict each other the plan is refused with the reason. The
//! environment is passed in as a map, nothing is changed, and the user's variables are kept.
//!
//! Start at [`plan()`].

mod affinity;
mod assigned;
mod fabric;
mod format;
mod gid;
mod library;
mod network;
mod plan;
mod resolve;
mod route;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod test_machine;
mod usable;
mod usable_port;
mod variable;
mod version;

pub use format::{Format, shell_word};
pub use library::Library;
pub(crate) use network::Network;
pub use plan::{EnvironmentPlan, Mode, Refusal, Request, plan};
pub use usable_port::{DeviceVerdict, Verdict};
pub use variable::Variable;
pub use version::Version;
