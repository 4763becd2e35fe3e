//! The same on several hosts: this program does it on each, by ssh, and the answers are told together.

use std::fmt::Write;
use std::time::Duration;

use ops::inventory::Host;
use serde::Serialize;
use serde_json::Value;

use super::args::{Act, Task};
use crate::changed::agreed;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::remote::{self, Limits, Shell};

/// Plans on all hosts; then, if that is asked for and agreed to, makes the changes on all of them.
pub(super) fn run(task: &Task<'_>, hosts: &[Host]) -> Result<Exit, Failure> {
    let shells = hosts.iter().map(|host| Ok((host, Shell::on(host.destination())?)));
    let shells: Vec<(&Host, Shell)> = shells.collect::<Result<_, Failure>>()?;
    let Act::Apply { yes } = task.act else { return tell(task, &on_all(task, &shells, Act::Plan)) };
    if !yes {
        let planned = on_all(task, &shells, Act::Plan);
        if !task.what.json {
            output::answer(&text(&planned))?;
        }
        let changes = planned.iter().map(Told::to_do).sum();
        if changes > 0 && !agreed("setup apply --hosts", changes)? {
            return Err(Failure::no("nothing was changed"));
        }
    }
    tell(task, &on_all(task, &shells, task.act))
}

fn on_all(task: &Task<'_>, shells: &[(&Host, Shell)], act: Act) -> Vec<Told> {
    remote::all_at_once(shells, |(host, shell)| {
        let words = task.words(&host.name, act);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Told::of(&host.name, shell, &words)
    })
}

/// What one host said.
#[derive(Debug, Serialize)]
struct Told {
    host: String,
    /// The exit code of the program there; none if it was not reached.
    code: Option<i32>,
    /// Its answer, as `--json` gives it.
    answer: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Told {
    fn of(host: &str, shell: &Shell, words: &[&str]) -> Told {
        let told = |code, answer, error| Told { host: host.to_owned(), code, answer, error };
        let answer = match remote::wirelane(shell, words, LIMITS) {
            Ok(answer) => answer,
            Err(failure) => return told(None, None, Some(failure.to_string())),
        };
        let code = answer.code;
        // The program's own reason is enough where it gave one.
        if matches!(code, Some(1..=3)) && !answer.said().is_empty() {
            return told(code, None, Some(answer.said()));
        }
        let text = answer.done("wirelane setup").and_then(|answer| answer.text());
        match text.map(|text| serde_json::from_str(&text)) {
            Ok(Ok(answer)) => told(code, Some(answer), None),
            Ok(Err(error)) => told(code, None, Some(format!("what it said is no answer: {error}"))),
            Err(failure) => told(code, None, Some(failure.to_string())),
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Value> {
        let steps = self.answer.as_ref().and_then(|answer| answer["steps"].as_array());
        steps.into_iter().flatten().filter(|step| step["status"] == "to_do")
    }

    fn to_do(&self) -> usize {
        self.steps().count()
    }

    /// In a line.
    fn outcome(&self) -> String {
        let Some(answer) = &self.answer else {
            return self.error.clone().unwrap_or_default();
        };
        let length = |list: &Value| list.as_array().map_or(0, Vec::len);
        let changes = match answer["applied"].as_object() {
            Some(applied) => format!("{} changes made", length(&applied["made"])),
            None => format!("{} changes to make", self.to_do()),
        };
        let system = answer["system"].as_str().unwrap_or("a system of no name");
        format!("{system}: {changes}, {} for you to decide", length(&answer["advice"]))
    }
}

fn tell(task: &Task<'_>, told: &[Told]) -> Result<Exit, Failure> {
    if task.what.json {
        output::json(&serde_json::json!({ "hosts": told }))?;
    } else {
        output::answer(&text(told))?;
    }
    let failed: Vec<&Told> = told.iter().filter(|one| one.answer.is_none()).collect();
    if failed.is_empty() {
        return Ok(Exit::Done);
    }
    let text = format!("setup: {} of {} hosts were not set up", failed.len(), told.len());
    // What a host refuses is a no; what is wrong use there is so here; anything else could not be done.
    Err(match failed.iter().map(|one| one.code.unwrap_or(3)).max() {
        Some(1) => Failure::no(text),
        Some(2) => Failure::usage(text),
        _ => Failure::failed(text),
    })
}

/// What each would change, or has changed, then a line for each.
fn text(told: &[Told]) -> String {
    let mut text = String::new();
    for one in told.iter().filter(|one| one.to_do() > 0) {
        let _ = writeln!(text, "{}", one.host);
        for step in one.steps() {
            let word = |name: &str| step[name].as_str().unwrap_or_default();
            let _ = writeln!(text, "  {:12}{}", word("item"), ops::doctor::one_line(word("name")));
        }
    }
    let width = told.iter().map(|one| one.host.len()).max().unwrap_or_default();
    for one in told {
        let _ = writeln!(text, "{:width$}  {}", one.host, ops::doctor::one_line(&one.outcome()));
    }
    text
}

/// Packages are fetched there.
const LIMITS: Limits = Limits { time: Duration::from_secs(1800), bytes: 16 << 20 };
