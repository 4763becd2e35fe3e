//! The verdict and the main results.

use super::markup::Markup;
use crate::number;
use crate::{Bottleneck, Bound, Document, Point, RunKind, Test, Verdict};

/// A title: what was measured.
pub(super) fn title(document: &Document) -> String {
    let operations: Vec<&str> =
        document.points.iter().map(|point| point.operation.name()).collect();
    let operation = match operations.first() {
        Some(first) if operations.iter().all(|other| other == first) => format!(" of {first}s"),
        _ => String::new(),
    };
    let hosts = document.matrix.as_ref().map_or(0, |matrix| matrix.hosts.len());
    let collective = document.collective.as_ref().and_then(|run| run.operation.clone());
    match document.kind {
        RunKind::Bw => format!("Bandwidth{operation}"),
        RunKind::Lat => format!("Latency{operation}"),
        RunKind::Rate => format!("Rate{operation}"),
        RunKind::Compare => "TCP compared with RDMA".to_owned(),
        RunKind::Mesh => format!("Every pair of {hosts} hosts"),
        RunKind::Nccl => format!("NCCL {}", collective.unwrap_or_default()),
        RunKind::Torch => format!("PyTorch {}", collective.unwrap_or_default()),
    }
}

/// Hosts, time and program version.
pub(super) fn subtitle(document: &Document) -> String {
    let peer = document.peer.as_ref().map_or(String::new(), |peer| format!(" → {peer}"));
    let when = document.when.replacen('T', " ", 1).replace('Z', " UTC");
    format!("{}{peer} · {when} · wirelane {}", document.host, document.program)
}

/// The verdict, tiles with the main results, and limits.
pub(super) fn render(document: &Document) -> Markup {
    let mut summary = Markup::default();
    if let Some(verdict) = &document.verdict {
        summary.append(verdict_card(document, verdict));
    }
    let tiles = tiles(document);
    if !tiles.is_empty() {
        summary.raw("<dl class=\"tiles\">");
        for (name, value, more) in tiles.into_iter().take(MAX_TILES) {
            summary.raw("<div>").element("dt", &[], name).element("dd", &[], value);
            summary.element("dd", &[("class", &"more")], more).raw("</div>");
        }
        summary.raw("</dl>\n");
    }
    if let Some(verdict) = &document.verdict {
        summary.append(limits(verdict));
    }
    summary
}

fn verdict_card(document: &Document, verdict: &Verdict) -> Markup {
    let (class, word) = tone(document, verdict);
    let mut card = Markup::default();
    card.open("div", &[("class", &format!("verdict {class}"))]);
    card.element("p", &[("class", &"word")], word);
    card.element("p", &[("class", &"says")], &verdict.summary);
    if let Some(ratio) = verdict.ratio.filter(|ratio| ratio.is_finite() && *ratio >= 0.0) {
        meter(&mut card, verdict, ratio);
    }
    if let Some(expectation) = &verdict.expectation {
        let met = if expectation.met { "met" } else { "not met" };
        card.element(
            "p",
            &[],
            format!("Expected {}: {met} ({}).", expectation.expected, expectation.reached),
        );
    }
    card.close("div");
    card
}

/// The colour of the verdict, and its words.
fn tone(document: &Document, verdict: &Verdict) -> (&'static str, &'static str) {
    let uneven = document.matrix.as_ref().is_some_and(|matrix| {
        !(matrix.slow_pairs.is_empty() && matrix.slow_hosts.is_empty() && matrix.failed.is_empty())
    });
    match (&verdict.expectation, verdict.ratio) {
        (Some(expectation), _) if !expectation.met => ("bad", "Below the expected value"),
        _ if uneven => ("fair", "Some pairs are slow or failed"),
        (_, Some(ratio)) if ratio >= GOOD => ("good", "Good"),
        (_, Some(ratio)) if ratio >= FAIR => ("fair", "Below the expected bandwidth"),
        (_, Some(_)) => ("bad", "Far below the expected bandwidth"),
        (Some(_), None) => ("good", "As expected"),
        (None, None) if !verdict.bottlenecks.is_empty() => ("fair", "Limited"),
        (None, None) => ("plain", "Measured"),
    }
}

/// The reached share of the expected bandwidth, as a bar and in numbers.
fn meter(card: &mut Markup, verdict: &Verdict, ratio: f64) {
    let width = format!("width:{:.1}%", ratio.min(1.0) * 100.0);
    card.raw("<div class=\"meter\" aria-hidden=\"true\">");
    card.open("span", &[("style", &width)]).close("span").raw("</div>");
    if let (Some(reached), Some(should)) = (verdict.reached_gbps, verdict.expected_gbps) {
        let (reached, should) = (number::rate(reached), number::rate(should));
        let text = format!("{reached} of {should}: {}", number::percent(ratio));
        card.element("p", &[("class", &"numbers")], text);
    }
}

/// Likely bottlenecks, bounds, and notes.
fn limits(verdict: &Verdict) -> Markup {
    let mut limits = Markup::default();
    let bottlenecks = verdict.bottlenecks.iter().take(MAX_LINES).map(bottleneck);
    limits.append(list("Likely bottlenecks", bottlenecks));
    let bounds = verdict.bounds.iter().take(MAX_LINES).map(bound);
    limits.append(list("Expected bandwidth", bounds));
    let notes = verdict.notes.iter().take(MAX_LINES).map(|note| {
        let mut line = Markup::default();
        line.text(note);
        line
    });
    limits.append(list("Notes", notes));
    if limits.is_empty() {
        return limits;
    }
    let mut around = Markup::default();
    around.raw("<div class=\"limits\">").append(limits).raw("</div>\n");
    around
}

fn list(heading: &'static str, lines: impl Iterator<Item = Markup>) -> Markup {
    let mut list = Markup::default();
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return list;
    }
    list.raw("<div>").element("h3", &[], heading).raw("<ul>");
    for line in lines {
        list.raw("<li>").append(line).raw("</li>");
    }
    list.raw("</ul></div>");
    list
}

fn bottleneck(bottleneck: &Bottleneck) -> Markup {
    let mut line = Markup::default();
    line.element("b", &[], &bottleneck.what).raw(": ").text(&bottleneck.evidence);
    if let Some(fix) = &bottleneck.fix {
        line.raw("<br>").element("span", &[("class", &"fix")], format!("Fix: {fix}"));
    }
    line
}

fn bound(bound: &Bound) -> Markup {
    let mut line = Markup::default();
    line.element("b", &[], format!("{}, {}", bound.what, number::rate(bound.gbps)));
    line.raw(": ").text(&bound.evidence);
    line
}

/// Name, value, and a detail.
type Tile = (&'static str, String, String);

fn tiles(document: &Document) -> Vec<Tile> {
    let points = &document.points;
    let best = |measurement: fn(&Point) -> Option<f64>| {
        let known = points.iter().filter_map(|point| Some((point, measurement(point)?)));
        known.max_by(|one, other| one.1.total_cmp(&other.1))
    };
    let of = |point: &Point| {
        format!("{}, {}", number::size(point.size_bytes), super::group::transport(point.transport))
    };
    let mut tiles = Vec::new();
    if let Some((point, gbps)) = best(|point| point.gbps.filter(|_| point.test == Test::Bandwidth))
    {
        tiles.push(("Bandwidth", number::rate(gbps), of(point)));
        let both = [point.cpu_seconds_per_gb, point.peer_cpu_seconds_per_gb];
        if let [Some(local), Some(peer)] =
            both.map(|seconds| seconds.map(|seconds| number::time(seconds * 1e9)))
        {
            tiles.push(("CPU time per GB", local, format!("and {peer} at the peer")));
        }
    }
    if let Some((point, rate)) =
        best(|point| point.messages_per_second.filter(|_| point.test == Test::Rate))
    {
        tiles.push(("Messages per second", number::count(rate), of(point)));
    }
    tiles.extend(latency(points, of));
    tiles.extend(health(points));
    tiles.extend(other(document));
    tiles
}

fn latency(points: &[Point], of: impl Fn(&Point) -> String) -> Vec<Tile> {
    let timed = points.iter().filter(|point| point.test == Test::Latency);
    let timed = timed.filter_map(|point| Some((point, point.latency.as_ref()?)));
    let Some((point, latency)) = timed.min_by_key(|(_, latency)| latency.p50_ns) else {
        return Vec::new();
    };
    let time = |nanoseconds: u64| number::time(nanoseconds as f64);
    vec![
        ("Latency, median", time(latency.p50_ns), of(point)),
        ("p99", time(latency.p99_ns), format!("p99.9 {}", time(latency.p99_9_ns))),
        (
            "Jitter",
            time(latency.jitter_ns),
            format!("p99 − p50; deviation {}", number::time(latency.stdev_ns)),
        ),
    ]
}

/// Values that should be zero: losses, retransmissions, wrong data.
fn health(points: &[Point]) -> Vec<Tile> {
    let sum = |measurement: fn(&Point) -> Option<u64>| {
        points
            .iter()
            .filter_map(measurement)
            .fold(None, |sum: Option<u64>, one| Some(sum.unwrap_or(0).saturating_add(one)))
    };
    let mut tiles = Vec::new();
    if let Some(lost) = sum(|point| point.lost) {
        tiles.push(("Datagrams lost", number::count(lost as f64), "of those sent".to_owned()));
    }
    if let Some(retransmissions) = sum(|point| point.retransmissions) {
        tiles.push((
            "Retransmissions",
            number::count(retransmissions as f64),
            "from the ports' counters".to_owned(),
        ));
    }
    if points.iter().any(|point| point.verified.is_some()) {
        let wrong = points.iter().filter(|point| point.verified == Some(false)).count();
        let word = if wrong == 0 { "correct" } else { "WRONG" };
        tiles.push(("Received data", word.to_owned(), "compared with sent data".to_owned()));
    }
    tiles
}

fn other(document: &Document) -> Vec<Tile> {
    let mut tiles = Vec::new();
    if let Some(matrix) = &document.matrix {
        if let Some(median) = matrix.median_gbps {
            let pairs = matrix.gbps.iter().flatten().flatten().count();
            tiles.push((
                "Median of all pairs",
                number::rate(median),
                format!("{pairs} measurements"),
            ));
        }
        if let Some(slow) = matrix.slow_hosts.first() {
            tiles.push((
                "Slowest host",
                slow.host.clone(),
                format!("{} of the median", number::percent(slow.ratio_to_median)),
            ));
        }
        if let Some(slow) = matrix.slow_pairs.first() {
            let ratio = number::percent(slow.ratio_to_median);
            tiles.push((
                "Slowest pair",
                format!("{} → {}", slow.from, slow.to),
                format!("{}, {ratio} of the median", number::rate(slow.gbps)),
            ));
        }
    }
    if let Some(run) = &document.collective {
        let gigabytes = |value: f64| format!("{} GB/s", number::significant(value));
        if let Some(average) = run.average_bus_gb_per_second {
            tiles.push(("Bus bandwidth, average", gigabytes(average), run.tool.clone()));
        }
        if let Some(efficiency) = run.efficiency {
            let link =
                run.link_gbps.map_or(String::new(), |gbps| format!("of {}", number::rate(gbps)));
            tiles.push(("Share of the link rate", number::percent(efficiency), link));
        }
        if let Some(ranks) = run.ranks {
            tiles.push(("Ranks", ranks.to_string(), format!("on {} hosts", run.hosts.len())));
        }
    }
    tiles
}

const GOOD: f64 = 0.9;
const FAIR: f64 = 0.7;
const MAX_TILES: usize = 8;
const MAX_LINES: usize = 20;
