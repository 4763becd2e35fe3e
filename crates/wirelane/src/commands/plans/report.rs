//! A plan as text and as JSON: what each step would do, and what was done.

use std::fmt::Write;

use change::{Advice, ApplyOutcome, Plan, Reader, State, Step, StepStatus, Target, diff};
use serde::Serialize;

use super::apply::PlanView;

/// A plan and the state of its steps on the machine.
#[derive(Serialize)]
pub(crate) struct Report<'p> {
    steps: Vec<StepReport<'p>>,
    advice: &'p [Advice],
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<AppliedReport>,
}

#[derive(Serialize)]
struct StepReport<'p> {
    item: &'p str,
    why: &'p str,
    name: String,
    target: &'p Target,
    status: Status,
    /// The current state; `null` if unknown.
    now: Option<State>,
    wanted: &'p State,
    diff: Vec<String>,
    persistent: bool,
    tested_on_hardware: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    ToDo,
    Unchanged,
    NeedsRunningMachine,
    Unreadable,
}

#[derive(Serialize)]
struct AppliedReport {
    changes: Vec<u64>,
    unchanged: usize,
    left_out: Vec<String>,
}

impl PlanView for Report<'_> {
    fn text(&self) -> String {
        let mut text = self.steps();
        text += &self.advice("then");
        if !text.is_empty() {
            text.push('\n');
        }
        format!("{text}{}\n", self.counts().join(", "))
    }

    fn changes(&self) -> usize {
        self.count(Status::ToDo)
    }

    fn set_applied(&mut self, applied: &ApplyOutcome) {
        let ApplyOutcome { changes, unchanged, left_out } = applied.clone();
        self.applied = Some(AppliedReport { changes, unchanged, left_out });
    }
}

impl<'p> Report<'p> {
    pub(crate) fn new(plan: &'p Plan, reader: &Reader<'_>) -> Self {
        let steps = plan.statuses(reader).into_iter();
        Report {
            steps: steps.map(|(step, status)| StepReport::new(step, status)).collect(),
            advice: &plan.advice,
            applied: None,
        }
    }

    /// The steps that are not done already, grouped by item.
    pub(crate) fn steps(&self) -> String {
        let mut text = String::new();
        let mut item = "";
        for step in self.steps.iter().filter(|step| step.status != Status::Unchanged) {
            if step.item != item {
                item = step.item;
                let _ = writeln!(text, "{item}");
            }
            step.write(&mut text);
        }
        text
    }

    /// Instructions for steps that the user has to do.
    pub(crate) fn advice(&self, word: &str) -> String {
        let mut text = String::new();
        for advice in self.advice {
            let _ = writeln!(text, "{word}: {}\n  {}", advice.item, advice.why);
            for command in &advice.commands {
                let _ = writeln!(text, "    {command}");
            }
        }
        text
    }

    /// The number of steps in each state.
    pub(crate) fn counts(&self) -> Vec<String> {
        let mut parts = vec![match self.changes() {
            0 => "nothing to change".to_owned(),
            1 => "1 change".to_owned(),
            many => format!("{many} changes"),
        }];
        let others = [
            (Status::Unchanged, "already done"),
            (Status::NeedsRunningMachine, "only on the running machine"),
            (Status::Unreadable, "not readable"),
        ];
        for (status, label) in others {
            if self.count(status) > 0 {
                parts.push(format!("{} {label}", self.count(status)));
            }
        }
        parts
    }

    fn count(&self, status: Status) -> usize {
        self.steps.iter().filter(|step| step.status == status).count()
    }
}

impl<'p> StepReport<'p> {
    fn new(step: &'p Step, step_status: StepStatus) -> Self {
        let change = &step.change;
        let (status, now, error) = match step_status {
            StepStatus::AlreadySet => (Status::Unchanged, Some(change.wanted.clone()), None),
            StepStatus::ChangeFrom(now) => (Status::ToDo, Some(now), None),
            StepStatus::NeedsRunningMachine => (Status::NeedsRunningMachine, None, None),
            StepStatus::Unreadable(error) => (Status::Unreadable, None, Some(error.to_string())),
        };
        StepReport {
            item: &step.item,
            why: &step.why,
            name: change.target.name(),
            target: &change.target,
            status,
            diff: now.as_ref().map(|now| diff(change, now)).unwrap_or_default(),
            now,
            wanted: &change.wanted,
            persistent: change.target.survives_restart(),
            tested_on_hardware: step.tested_on_hardware,
            error,
        }
    }

    fn write(&self, text: &mut String) {
        let mut marks = Vec::new();
        if !self.persistent {
            marks.push("until a restart");
        }
        if !self.tested_on_hardware {
            marks.push("not tested on hardware");
        }
        if self.status == Status::NeedsRunningMachine {
            marks.push("skipped: only on the running machine");
        }
        if self.now == Some(State::Absent) {
            marks.push("new file");
        }
        let marks =
            if marks.is_empty() { String::new() } else { format!("  ({})", marks.join("; ")) };
        let _ = writeln!(text, "  {}\n  {}{marks}", self.why, self.name);
        write_diff(text, &self.diff);
        if let Some(error) = &self.error {
            let _ = writeln!(text, "    {error}");
        }
    }
}

/// The first lines of a diff.
pub(crate) fn write_diff(text: &mut String, diff: &[String]) {
    let (first, more) = diff.split_at(diff.len().min(MAX_DIFF_LINES));
    for line in first {
        let _ = writeln!(text, "    {line}");
    }
    if !more.is_empty() {
        let _ = writeln!(text, "    … {} more lines (see --json)", more.len());
    }
}

/// One line on what was done.
pub(crate) fn applied(applied: &ApplyOutcome) -> String {
    let skipped = match applied.left_out.len() {
        0 => String::new(),
        many => format!("; {many} skipped, since --root is not the running machine"),
    };
    match (applied.changes.first(), applied.changes.last()) {
        (Some(first), Some(last)) => format!(
            "{} changes applied, numbers {first} to {last}{skipped}; `wirelane revert --last` reverts them",
            applied.changes.len()
        ),
        _ => format!("nothing was changed{skipped}"),
    }
}

/// Enough for a systemd unit; dashboards have thousands of lines.
const MAX_DIFF_LINES: usize = 100;
