//! `--hosts` of commands that run on several hosts, and their exit code.

use jobs::inventory::{Host, Inventory};

use crate::output::{Exit, Failure};
use remote::HostAnswer;

/// Parses `--hosts` of a command.
pub(crate) fn parse(command: &str, list: &str) -> Result<Vec<Host>, Failure> {
    let inventory = Inventory::from_list(list);
    let invalid = |error| Failure::usage(format!("{command}: --hosts {error}"));
    inventory.map(|inventory| inventory.hosts).map_err(invalid)
}

/// The worst of the hosts' exit codes. `what` describes the failure.
pub(crate) fn exit_code(answers: &[HostAnswer], what: &str) -> Result<Exit, Failure> {
    let failed: Vec<&HostAnswer> = answers.iter().filter(|one| one.code != Some(0)).collect();
    let text = format!("{what} on {} of {} hosts", failed.len(), answers.len());
    match failed.iter().map(|one| one.code.unwrap_or(3)).max() {
        None => Ok(Exit::Done),
        Some(1) => Err(Failure::no(text)),
        Some(2) => Err(Failure::usage(text)),
        Some(_) => Err(Failure::failed(text)),
    }
}
