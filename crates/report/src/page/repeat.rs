//! The command that repeats a measurement.

use super::markup::Markup;
use crate::number;
use crate::{Document, Point, RunKind, Test, Tool};

/// The command, as far as the document has its arguments.
pub(super) fn render(document: &Document) -> Markup {
    let mut repeat = Markup::default();
    repeat.raw("<h3>How to repeat it</h3>\n").raw("<pre><code>");
    repeat.command(command(document)).raw("</code></pre>\n");
    repeat
}

fn command(document: &Document) -> String {
    let mut words = vec!["wirelane bench".to_owned(), document.kind.name().to_owned()];
    match (document.kind, &document.matrix, &document.peer) {
        (RunKind::Mesh, Some(matrix), _) => {
            words.push(format!("--hosts {}", quoted(&matrix.hosts.join(","))))
        }
        (RunKind::Nccl | RunKind::Torch, _, _) => words.extend(collective(document)),
        (_, _, Some(peer)) if *peer != document.host => words.push(quoted(peer)),
        _ => words.push("--local".to_owned()),
    }
    if let Some(first) = document.points.first() {
        words.extend(arguments(document, first));
    }
    words.join(" ")
}

/// The collective operation, and the hosts with their number of processes.
fn collective(document: &Document) -> Vec<String> {
    let Some(run) = &document.collective else { return Vec::new() };
    let operation = run.operation.iter().map(|name| format!("--op {}", quoted(name)));
    let mut words: Vec<String> = operation.collect();
    let count = run.hosts.len() as u32;
    if count > 1 {
        let each = run.ranks.filter(|ranks| ranks.is_multiple_of(count)).map(|ranks| ranks / count);
        let slots = each.map_or(String::new(), |each| format!(":{each}"));
        let hosts: Vec<String> = run.hosts.iter().map(|host| format!("{host}{slots}")).collect();
        words.push(format!("--hosts {}", quoted(&hosts.join(","))));
    }
    words
}

/// Arguments of the first measurement that differ from the defaults.
fn arguments(document: &Document, first: &Point) -> Vec<String> {
    if !matches!(document.kind, RunKind::Bw | RunKind::Lat | RunKind::Rate) {
        return Vec::new();
    }
    let default_depth = if first.test == Test::Latency { 1 } else { 64 };
    let rails = first.rails.len();
    let marks = [
        (first.depth != default_depth, format!("--depth {}", first.depth)),
        (first.lanes > 1, format!("--qps {}", first.lanes)),
        (rails > 1, format!("--rails {rails}")),
        (first.both_ways, "--both-ways".to_owned()),
        (first.datagrams, "--ud".to_owned()),
        (first.verified.is_some(), "--verify".to_owned()),
        (first.tool == Tool::Perftest, "--tool perftest".to_owned()),
    ];
    let (operation, transport) = (first.operation.name(), first.transport.name());
    let mut words = vec![format!("--op {operation} --transport {transport}"), sizes(document)];
    words.extend(marks.into_iter().filter(|(is, _)| *is).map(|(_, word)| word));
    words
}

fn sizes(document: &Document) -> String {
    let mut sizes: Vec<u64> = document.points.iter().map(|point| point.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let typed = |size: &u64| number::size(*size).replace(" B", "").replace(' ', "");
    let typed: Vec<String> = sizes.iter().take(MAX_SIZES).map(typed).collect();
    match &typed[..] {
        [size] => format!("--size {size}"),
        sizes => format!("--sizes {}", sizes.join(",")),
    }
}

/// A name, quoted for a shell if necessary.
fn quoted(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:,[]@/".contains(letter);
    match name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

const MAX_SIZES: usize = 40;
