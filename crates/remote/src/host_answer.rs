//! The answers of this program on several hosts.

use jobs::inventory::Host;
use serde::Serialize;
use serde_json::Value;

use super::command::{Answer, Limits};
use super::error::Error;
use super::parallel::in_parallel;
use super::program::{Progress, wirelane};
use super::shell::Shell;

/// A host, and the shell for commands there.
pub type Target = (Host, Shell);

/// Shells for these hosts.
pub fn targets(hosts: Vec<Host>) -> Result<Vec<Target>, Error> {
    let place = |host: Host| Shell::on(host.destination()).map(|shell| (host, shell));
    hosts.into_iter().map(place).collect()
}

/// One host's answer.
#[derive(Debug, Serialize)]
pub struct HostAnswer {
    /// The host's name, as the user gave it.
    pub host: String,
    /// The exit code of the program there; `None` if the host was not reached.
    pub code: Option<i32>,
    /// The output of `--json`.
    pub answer: Option<Value>,
    /// The reason of an exit code other than 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl HostAnswer {
    /// Runs this program on all hosts, with arguments for each.
    pub fn from_all(
        targets: &[Target],
        limits: Limits,
        progress: Progress<'_>,
        arguments: impl Fn(&str) -> Vec<String> + Sync,
    ) -> Vec<HostAnswer> {
        in_parallel(targets, |(host, shell)| {
            let arguments = arguments(&host.name);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            match wirelane(shell, &arguments, limits, progress) {
                Ok(answer) => HostAnswer::of(&host.name, answer),
                Err(error) => HostAnswer::error(&host.name, None, error.to_string()),
            }
        })
    }

    fn of(host: &str, answer: Answer) -> HostAnswer {
        let code = answer.code;
        // If the program printed a reason, that is enough.
        let own = answer.reason();
        let error = answer.failure("wirelane").map(|error| match code {
            Some(1..=3) if !own.is_empty() => own,
            _ => error.to_string(),
        });
        match (answer.json().map(|json| serde_json::from_slice(&json)), error) {
            (Ok(Ok(answer)), error) => {
                HostAnswer { host: host.to_owned(), code, answer: Some(answer), error }
            }
            (_, Some(error)) => HostAnswer::error(host, code, error),
            (Ok(Err(error)), None) => {
                HostAnswer::error(host, None, format!("the answer is not JSON: {error}"))
            }
            (Err(error), None) => HostAnswer::error(host, None, error.to_string()),
        }
    }

    fn error(host: &str, code: Option<i32>, error: String) -> HostAnswer {
        HostAnswer { host: host.to_owned(), code, answer: None, error: Some(error) }
    }
}
