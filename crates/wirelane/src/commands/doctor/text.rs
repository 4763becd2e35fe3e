//! The text output of the doctor, worst findings first.

use doctor::checklist::{Item, ItemState};
use doctor::since::{Change, Comparison, CounterChange};
use doctor::{Evidence, Finding, Severity};

use super::colours::Colours;
use super::document::Document;
use crate::output;
use crate::output::wrap::{line, paragraph};

pub(super) fn render(document: &Document<'_>, all: bool, colours: Colours) -> String {
    let report = document.report;
    let mut text = String::new();
    if let Some(items) = &document.checklist {
        return list(items, colours);
    }
    if let Some(since) = &document.since {
        text.push_str(&changes(since, colours));
    }
    if report.devices.is_empty() {
        text.push_str(&paragraph("", NO_RDMA));
    }
    for finding in report.findings.iter().filter(|finding| all || is_listed(finding)) {
        text.push_str(&finding_text(finding, colours));
    }
    if !all {
        text.push_str(&unknown(&report.findings, colours));
    }
    if let Some(peer) = &document.peer {
        text.push_str(&line("", &format!("{}: {}", peer.name, peer.summary)));
    }
    if !report.devices.is_empty() {
        text.push_str(&line("", &report.line()));
    }
    text
}

fn is_listed(finding: &Finding) -> bool {
    matches!(finding.severity, Severity::Problem | Severity::Warning | Severity::Note)
}

/// A finding in full; without reason and fix if it is OK.
pub(super) fn finding_text(finding: &Finding, colours: Colours) -> String {
    let subject = colours.strong(&finding.subject());
    let head = format!("{}  ", colours.mark(finding.severity));
    let mut text = line(&head, &format!("{subject}: {}  [{}]", finding.summary, finding.check));
    text.push_str(&evidence(&finding.evidence, "          "));
    if finding.severity == Severity::Ok {
        return text;
    }
    text.push_str(&paragraph("    why:  ", finding.why));
    for (number, line) in finding.fix.iter().enumerate() {
        text.push_str(&paragraph(if number == 0 { "    fix:  " } else { "          " }, line));
    }
    text.push('\n');
    text
}

/// The evidence: `    read: file: value`, one line each.
pub(crate) fn evidence(evidence: &[Evidence], indent: &str) -> String {
    let mut text = String::new();
    for (number, Evidence { source, value }) in evidence.iter().take(MAX_EVIDENCE_LINES).enumerate()
    {
        let head = if number == 0 { "read: " } else { "      " };
        let head = format!("{}{head}", &indent[6..]);
        text.push_str(&line(&head, &format!("{source}: {value}")));
    }
    if evidence.len() > MAX_EVIDENCE_LINES {
        text.push_str(&format!(
            "{indent}and {} more (--json shows all)\n",
            evidence.len() - MAX_EVIDENCE_LINES
        ));
    }
    text
}

/// Findings of severity `Unknown`, one line each.
fn unknown(findings: &[Finding], colours: Colours) -> String {
    let unknown: Vec<&Finding> =
        findings.iter().filter(|finding| finding.severity == Severity::Unknown).collect();
    let mut text = String::new();
    for finding in &unknown {
        let words = format!("{}: {}  [{}]", finding.subject(), finding.summary, finding.check);
        let head = format!("{}  ", colours.mark(Severity::Unknown));
        text.push_str(&line(&head, &colours.faint(&words)));
    }
    text
}

fn changes(since: &Comparison, colours: Colours) -> String {
    let Comparison { changes, counters, new, resolved } = since;
    if changes.is_empty() && counters.is_empty() && new.is_empty() && resolved.is_empty() {
        return "Nothing has changed since then.\n\n".to_owned();
    }
    let mut text = "Since then:\n".to_owned();
    for Change { subject, fact, before, after } in changes {
        let words = match (before, after) {
            (None, Some(_)) if *fact == "device" => format!("{subject} is new"),
            (Some(_), None) if *fact == "device" => format!("{subject} is gone"),
            _ => {
                let word =
                    |value: &Option<String>| value.clone().unwrap_or_else(|| "missing".to_owned());
                format!("{subject}: {fact} was {}, is {}", word(before), word(after))
            }
        };
        text.push_str(&line("  ", &words));
    }
    let rows: Vec<[String; 3]> = counters.iter().map(counter).collect();
    for row in output::columns(&rows).lines() {
        text.push_str(&line("  ", row));
    }
    let new = new.iter().map(|finding| (colours.bad("new:"), finding));
    let resolved = resolved.iter().map(|finding| (colours.good("resolved:"), finding));
    for (mark, finding) in new.chain(resolved) {
        let words = format!("{}: {}", finding.subject(), finding.summary);
        text.push_str(&line(&format!("  {mark} "), &words));
    }
    text.push('\n');
    text
}

fn counter(change: &CounterChange) -> [String; 3] {
    let CounterChange { subject, counter, before, after } = change;
    let difference = match after.checked_sub(*before) {
        Some(more) => format!("+{more}"),
        None => format!("{before} then, {after} now: it was reset"),
    };
    [subject.clone(), counter.clone(), difference]
}

fn list(items: &[Item], colours: Colours) -> String {
    let mut text = String::new();
    for item in items {
        let name = item.state.name();
        let mark = match item.state {
            ItemState::Done => colours.good(name),
            ItemState::NotDone => colours.bad(name),
            ItemState::Unknown | ItemState::DoesNotApply => colours.faint(name),
        };
        let head = format!("{mark}{}  ", " ".repeat(14 - name.len()));
        text.push_str(&line(&head, item.title));
        if let (ItemState::NotDone | ItemState::Unknown, Some(why)) = (item.state, &item.why) {
            text.push_str(&paragraph("                ", why));
        }
    }
    let count = |state| items.iter().filter(|item| item.state == state).count();
    let (done, undone, unknown) =
        (count(ItemState::Done), count(ItemState::NotDone), count(ItemState::Unknown));
    text.push_str(&line(
        "",
        &format!(
            "{done} done, {undone} not done, {unknown} unknown; `wirelane doctor` prints fixes"
        ),
    ));
    text
}

const NO_RDMA: &str = "\
No RDMA device on this machine: /sys/class/infiniband is empty or missing. This is not an error: Wirelane \
and most other programs work without one, over shared memory and TCP. If there should be one, check that the NIC \
is listed (`lspci -d 15b3:`) and that its driver is loaded (`modprobe mlx5_ib`, bnxt_re, irdma, efa, …); in a \
container, that the device is passed to it. Soft-RoCE on any Ethernet port: `rdma link add rxe0 type rxe netdev \
NETDEV`.";

/// Of a finding; more are only counted.
const MAX_EVIDENCE_LINES: usize = 6;
