//! What this program said on each of several hosts.

use jobs::inventory::{Host, Inventory};
use serde::Serialize;
use serde_json::Value;

use super::all_at_once::all_at_once;
use super::ask::{Answer, Limits};
use super::program::wirelane;
use super::shell::Shell;
use crate::output::{Exit, Failure};

/// A host, and where commands run there.
pub(crate) type Place = (Host, Shell);

/// Where these hosts' commands run.
pub(crate) fn places(hosts: Vec<Host>) -> Result<Vec<Place>, Failure> {
    let place = |host: Host| Shell::on(host.destination()).map(|shell| (host, shell));
    hosts.into_iter().map(place).collect()
}

/// The hosts that `--hosts` names, for a command.
pub(crate) fn hosts(command: &str, list: &str) -> Result<Vec<Host>, Failure> {
    let inventory = Inventory::from_list(list);
    let wrong = |wrong| Failure::usage(format!("{command}: --hosts {wrong}"));
    inventory.map(|inventory| inventory.hosts).map_err(wrong)
}

/// One host's answer.
#[derive(Debug, Serialize)]
pub(crate) struct HostAnswer {
    pub(crate) host: String,
    /// The exit code of the program there; none if it was not reached.
    pub(crate) code: Option<i32>,
    /// What it said, as `--json` gives it.
    pub(crate) answer: Option<Value>,
    /// Why it ended with another code than 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl HostAnswer {
    /// Runs this program on all of them, with words for each.
    pub(crate) fn by_all(
        places: &[Place],
        limits: Limits,
        words: impl Fn(&str) -> Vec<String> + Sync,
    ) -> Vec<HostAnswer> {
        all_at_once(places, |(host, shell)| {
            let words = words(&host.name);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match wirelane(shell, &words, limits) {
                Ok(answer) => HostAnswer::of(&host.name, answer),
                Err(failure) => HostAnswer::error(&host.name, None, failure.to_string()),
            }
        })
    }

    fn of(host: &str, answer: Answer) -> HostAnswer {
        let code = answer.code;
        // The program's own reason is enough where it gave one.
        let own = answer.said();
        let error = answer.failure("wirelane").map(|failure| match code {
            Some(1..=3) if !own.is_empty() => own,
            _ => failure.to_string(),
        });
        match (answer.json().map(|json| serde_json::from_slice(&json)), error) {
            (Ok(Ok(answer)), error) => {
                HostAnswer { host: host.to_owned(), code, answer: Some(answer), error }
            }
            (_, Some(error)) => HostAnswer::error(host, code, error),
            (Ok(Err(error)), None) => {
                HostAnswer::error(host, None, format!("what it said is no answer: {error}"))
            }
            (Err(failure), None) => HostAnswer::error(host, None, failure.to_string()),
        }
    }

    fn error(host: &str, code: Option<i32>, error: String) -> HostAnswer {
        HostAnswer { host: host.to_owned(), code, answer: None, error: Some(error) }
    }

    /// How the whole ends: a no or a wrong use on a host is one here, and anything else could not be done. `what` it is that
    /// the hosts were not.
    pub(crate) fn exit(all: &[HostAnswer], what: &str) -> Result<Exit, Failure> {
        let failed: Vec<&HostAnswer> = all.iter().filter(|one| one.code != Some(0)).collect();
        let text = format!("{what} on {} of {} hosts", failed.len(), all.len());
        match failed.iter().map(|one| one.code.unwrap_or(3)).max() {
            None => Ok(Exit::Done),
            Some(1) => Err(Failure::no(text)),
            Some(2) => Err(Failure::usage(text)),
            Some(_) => Err(Failure::failed(text)),
        }
    }
}
