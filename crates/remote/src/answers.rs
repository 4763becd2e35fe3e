//! What this program answered on each of several hosts.

use jobs::inventory::Host;
use serde::Serialize;
use serde_json::Value;

use super::all_at_once::all_at_once;
use super::ask::{Answer, Limits};
use super::error::Error;
use super::program::{Progress, wirelane};
use super::shell::Shell;

/// A host, and where commands run there.
pub type Place = (Host, Shell);

/// Where these hosts' commands run.
pub fn places(hosts: Vec<Host>) -> Result<Vec<Place>, Error> {
    let place = |host: Host| Shell::on(host.destination()).map(|shell| (host, shell));
    hosts.into_iter().map(place).collect()
}

/// One host's answer.
#[derive(Debug, Serialize)]
pub struct HostAnswer {
    /// Its name, as the user gave it.
    pub host: String,
    /// The exit code of the program there; none if it was not reached.
    pub code: Option<i32>,
    /// What it printed, as `--json` gives it.
    pub answer: Option<Value>,
    /// Why it ended with another code than 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl HostAnswer {
    /// Runs this program on all of them, with words for each.
    pub fn by_all(
        places: &[Place],
        limits: Limits,
        progress: Progress<'_>,
        words: impl Fn(&str) -> Vec<String> + Sync,
    ) -> Vec<HostAnswer> {
        all_at_once(places, |(host, shell)| {
            let words = words(&host.name);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match wirelane(shell, &words, limits, progress) {
                Ok(answer) => HostAnswer::of(&host.name, answer),
                Err(error) => HostAnswer::error(&host.name, None, error.to_string()),
            }
        })
    }

    fn of(host: &str, answer: Answer) -> HostAnswer {
        let code = answer.code;
        // The program's own reason is enough where it gave one.
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
                HostAnswer::error(host, None, format!("its answer is not JSON: {error}"))
            }
            (Err(error), None) => HostAnswer::error(host, None, error.to_string()),
        }
    }

    fn error(host: &str, code: Option<i32>, error: String) -> HostAnswer {
        HostAnswer { host: host.to_owned(), code, answer: None, error: Some(error) }
    }
}
