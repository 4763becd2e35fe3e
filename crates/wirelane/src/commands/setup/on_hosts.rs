//! The same on several hosts: this program does it on each, by ssh, and the answers are told together.

use std::fmt::Write;
use std::time::Duration;

use jobs::inventory::Host;
use serde_json::Value;

use super::args::{Act, Task};
use crate::arguments::hosts;
use crate::commands::plans::agreed;
use crate::output;
use crate::output::{Exit, Failure};
use remote::{self, HostAnswer, Limits};

/// Plans on all hosts; then, if that is asked for and agreed to, makes the changes on all of them.
pub(super) fn run(task: &Task<'_>, hosts: Vec<Host>) -> Result<Exit, Failure> {
    let places = remote::targets(hosts)?;
    let on_all = |act| {
        HostAnswer::from_all(&places, LIMITS, &output::progress, |host| task.words(host, act))
    };
    let Act::Apply { yes } = task.act else { return tell(task, &on_all(Act::Plan)) };
    if !yes {
        let planned = on_all(Act::Plan);
        if !task.options.target.json {
            output::answer(&text(&planned))?;
        }
        let changes = planned.iter().map(to_do).sum();
        if changes > 0 && !agreed("setup apply --hosts", changes)? {
            return Err(Failure::no("nothing was changed"));
        }
    }
    tell(task, &on_all(task.act))
}

fn steps(told: &HostAnswer) -> impl Iterator<Item = &Value> {
    let steps = told.answer.as_ref().and_then(|answer| answer["steps"].as_array());
    steps.into_iter().flatten().filter(|step| step["status"] == "to_do")
}

fn to_do(told: &HostAnswer) -> usize {
    steps(told).count()
}

/// In a line.
fn outcome(told: &HostAnswer) -> String {
    let (Some(answer), None) = (&told.answer, &told.error) else {
        return told.error.clone().unwrap_or_default();
    };
    let length = |list: &Value| list.as_array().map_or(0, Vec::len);
    let changes = match answer["applied"].as_object() {
        Some(applied) => format!("{} changes made", length(&applied["made"])),
        None => format!("{} changes to make", to_do(told)),
    };
    let system = answer["system"].as_str().unwrap_or("a system of no name");
    format!("{system}: {changes}, {} for you to decide", length(&answer["advice"]))
}

fn tell(task: &Task<'_>, told: &[HostAnswer]) -> Result<Exit, Failure> {
    if task.options.target.json {
        output::json(&serde_json::json!({ "hosts": told }))?;
    } else {
        output::answer(&text(told))?;
    }
    hosts::exit_code(told, "setup: not done")
}

/// What each would change, or has changed, then a line for each.
fn text(told: &[HostAnswer]) -> String {
    let mut text = String::new();
    for one in told.iter().filter(|one| to_do(one) > 0) {
        let _ = writeln!(text, "{}", one.host);
        for step in steps(one) {
            let word = |name: &str| step[name].as_str().unwrap_or_default();
            let _ = writeln!(text, "  {:12}{}", word("item"), doctor::one_line(word("name")));
        }
    }
    let width = told.iter().map(|one| one.host.len()).max().unwrap_or_default();
    for one in told {
        let _ = writeln!(text, "{:width$}  {}", one.host, doctor::one_line(&outcome(one)));
    }
    text
}

/// Packages are fetched there.
const LIMITS: Limits = Limits { time: Duration::from_secs(1800), bytes: 16 << 20 };
