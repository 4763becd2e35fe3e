//! The environment that a job on this host needs, and the devices it may use.
//!
//! The environment says what the platform gave ([`claim`](self)); the host's own files say what is there and
//! works (`usable`); where they disagree nothing is made up: the plan is refused with the reason. The
//! environment is handed in as a map, nothing is changed, and what the user set stays.
//!
//! Start at [`plan()`].

mod affinity;
mod claim;
mod fabric;
mod format;
mod gid;
mod library;
mod network;
mod plan;
mod rail;
mod resolve;
mod route;
#[cfg(test)]
mod scenarios;
mod setting;
#[cfg(test)]
mod test_machine;
mod usable;
mod version;

pub use format::{Format, shell_word};
pub use library::Library;
pub(crate) use network::Network;
pub use plan::{Mode, Plan, Refusal, Request, plan};
pub use rail::{Judged, Verdict};
pub use setting::Setting;
pub use version::Version;
