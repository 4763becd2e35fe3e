//! `--hosts` of the commands that run themselves on several hosts, and how the whole ends.

use jobs::inventory::{Host, Inventory};

use crate::output::{Exit, Failure};
use remote::HostAnswer;

/// The hosts that `--hosts` names, for a command.
pub(crate) fn parse(command: &str, list: &str) -> Result<Vec<Host>, Failure> {
    let inventory = Inventory::from_list(list);
    let wrong = |wrong| Failure::usage(format!("{command}: --hosts {wrong}"));
    inventory.map(|inventory| inventory.hosts).map_err(wrong)
}

/// How the command ends: with the worst of the hosts' exit codes. `what` could not be done on them.
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
