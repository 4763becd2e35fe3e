//! Runs `setup` on several hosts over ssh, and prints their answers.

use std::fmt::Write;
use std::time::Duration;

use jobs::inventory::Host;
use serde_json::Value;

use super::args::{Action, Task};
use crate::arguments::hosts;
use crate::commands::plans::confirm;
use crate::output;
use crate::output::{Exit, Failure};
use remote::{self, HostAnswer, Limits};

/// Plans on all hosts; for `apply`, then makes the changes on all of them after confirmation.
pub(super) fn run(task: &Task<'_>, hosts: Vec<Host>) -> Result<Exit, Failure> {
    let targets = remote::targets(hosts)?;
    let on_all = |action| {
        HostAnswer::from_all(&targets, LIMITS, &output::progress, |host| {
            task.arguments(host, action)
        })
    };
    let Action::Apply { yes } = task.action else { return report(task, &on_all(Action::Plan)) };
    if !yes {
        let planned = on_all(Action::Plan);
        if !task.options.target.json {
            output::text(&text(&planned))?;
        }
        let changes = planned.iter().map(to_do).sum();
        if changes > 0 && !confirm("setup apply --hosts", changes)? {
            return Err(Failure::no("nothing was changed"));
        }
    }
    report(task, &on_all(task.action))
}

fn steps(answer: &HostAnswer) -> impl Iterator<Item = &Value> {
    let steps = answer.answer.as_ref().and_then(|answer| answer["steps"].as_array());
    steps.into_iter().flatten().filter(|step| step["status"] == "to_do")
}

fn to_do(answer: &HostAnswer) -> usize {
    steps(answer).count()
}

/// The outcome as one line.
fn outcome(answer: &HostAnswer) -> String {
    let (Some(document), None) = (&answer.answer, &answer.error) else {
        return answer.error.clone().unwrap_or_default();
    };
    let length = |list: &Value| list.as_array().map_or(0, Vec::len);
    let changes = match document["applied"].as_object() {
        Some(applied) => format!("{} changes applied", length(&applied["changes"])),
        None => format!("{} changes to apply", to_do(answer)),
    };
    let system = document["system"].as_str().unwrap_or("unknown system");
    format!("{system}: {changes}, {} to do manually", length(&document["advice"]))
}

fn report(task: &Task<'_>, answers: &[HostAnswer]) -> Result<Exit, Failure> {
    if task.options.target.json {
        output::json(&serde_json::json!({ "hosts": answers }))?;
    } else {
        output::text(&text(answers))?;
    }
    hosts::exit_code(answers, "setup: failed")
}

/// The steps of each host, then a line for each.
fn text(answers: &[HostAnswer]) -> String {
    let mut text = String::new();
    for answer in answers.iter().filter(|answer| to_do(answer) > 0) {
        let _ = writeln!(text, "{}", answer.host);
        for step in steps(answer) {
            let word = |name: &str| step[name].as_str().unwrap_or_default();
            let _ = writeln!(text, "  {:14}{}", word("item"), doctor::one_line(word("name")));
        }
    }
    let width = answers.iter().map(|answer| answer.host.len()).max().unwrap_or_default();
    for answer in answers {
        let _ = writeln!(text, "{:width$}  {}", answer.host, doctor::one_line(&outcome(answer)));
    }
    text
}

/// Installing packages takes time.
const LIMITS: Limits = Limits { time: Duration::from_secs(1800), bytes: 16 << 20 };
