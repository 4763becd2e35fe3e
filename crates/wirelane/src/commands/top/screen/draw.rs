//! The screen from top to bottom: a header, the machine, ports, GPUs, the store, and a line of keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::app::App;
use super::style::{Level, TerminalStyle};
use super::{gpus, ports, window};
use crate::commands::top::number::{bytes, short, time};
use crate::commands::top::summary::{IntervalSummary, StoreSummary, UsageSummary};

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
        let text =
            format!("too small: {}x{}, needs {MIN_WIDTH}x{MIN_HEIGHT}", area.width, area.height);
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    }
    let style = app.style;
    let (machine_lines, store_lines) = match &app.summary {
        Some(summary) => (machine_lines(style, summary, area.width), store_lines(style, summary)),
        None => (vec![Line::from("reading counters…")], Vec::new()),
    };
    let [head, machine, tables, store, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(machine_lines.len() as u16),
        Constraint::Min(2),
        Constraint::Length(store_lines.len() as u16),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(header(app, head.width), head);
    frame.render_widget(Paragraph::new(machine_lines), machine);
    draw_tables(frame, tables, app);
    frame.render_widget(Paragraph::new(store_lines), store);
    frame.render_widget(footer(app), foot);
    if let Some(window) = &app.window {
        window::draw(frame, area, style, window);
    }
}

/// Ports above GPUs; tables scroll to the selected row.
fn draw_tables(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let Some(summary) = &app.summary else { return };
    let (port_count, gpu_count) = (app.view.ports(summary).len(), app.view.gpus(summary).len());
    let at = app.view.selected(summary);
    if summary.ports.is_empty() && summary.gpus.is_empty() {
        if !summary.failed_collectors.is_empty() {
            return;
        }
        let text = "This machine has no RDMA port, and no GPU reported by NVML.";
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    }
    let ports_height = if summary.ports.is_empty() { 0 } else { port_count as u16 + 1 };
    let gpus_wanted_height = if summary.gpus.is_empty() { 0 } else { gpu_count as u16 + 1 };
    let gpus_height =
        gpus_wanted_height.min((area.height / 2).max(area.height.saturating_sub(ports_height)));
    let [upper, lower] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(gpus_height)]).areas(area);
    let upper = Rect { height: upper.height.min(ports_height), ..upper };
    let lower = Rect { y: upper.bottom(), ..lower };
    app.page_rows = usize::from(upper.height.saturating_sub(1)).max(1);
    ports::draw(frame, upper, app, (at < port_count).then_some(at));
    if gpus_wanted_height > 0 {
        gpus::draw(frame, lower, app, at.checked_sub(port_count));
    }
}

fn header(app: &App, width: u16) -> Line<'static> {
    let style = app.style;
    let summary = app.summary.as_ref();
    let host = summary.and_then(|summary| summary.host.as_deref()).unwrap_or_default();
    let time = summary.map(|summary| summary.time.clone()).unwrap_or_default();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut spans = vec![Span::styled("wirelane top  ", bold)];
    let host = doctor::one_line(host);
    spans.push(Span::raw(style.truncate(&host, usize::from(width / 3))));
    spans.push(Span::raw(format!("  {time}")));
    match app.position {
        Some((at, of)) => spans.push(Span::raw(format!("  replay {at}/{of}"))),
        None => spans.push(Span::raw(format!("  every {}", interval(app.interval)))),
    }
    if app.paused {
        spans.push(Span::styled("  PAUSED", bold));
    }
    if let Some((path, length)) = &app.recording {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = doctor::one_line(&name);
        spans.push(Span::styled(format!("  REC {} {name}", bytes(*length as f64)), bold));
    }
    Line::from(spans)
}

fn interval(interval: std::time::Duration) -> String {
    match interval.as_millis() {
        millis if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
        millis => format!("{millis}ms"),
    }
}

/// CPUs and memory; the peer; missing devices and failed collectors.
fn machine_lines(
    style: TerminalStyle,
    summary: &IntervalSummary,
    width: u16,
) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(usage(style, &summary.usage, width))];
    if let Some(probe) = &summary.probe {
        let duration = |ns: Option<u64>| {
            ns.map_or(style.none().to_owned(), |ns| time(ns as f64, style.unicode))
        };
        let result = match &probe.why {
            Some(why) => style.span(why.clone(), Level::Bad),
            None => {
                let transport = probe.transport.as_deref().unwrap_or("connecting");
                let (p50, p99) = (duration(probe.p50_ns), duration(probe.p99_ns));
                let jitter = duration(probe.jitter_ns);
                let text = format!("{transport}  p50 {p50}  p99 {p99}  jitter {jitter}  lost ");
                let lost = format!("{text}{} of {}", probe.lost, probe.sent);
                style.span(lost, if probe.lost > 0 { Level::Bad } else { Level::Plain })
            }
        };
        lines.push(Line::from(vec![Span::raw(format!("peer {}  ", probe.peer)), result]));
    }
    if !summary.gone.is_empty() {
        let names = doctor::one_line(&summary.gone.join(", "));
        lines.push(Line::from(style.span(format!("gone: {names}"), Level::Bad)));
    }
    for run in summary.failed_collectors.iter().take(MAX_FAULTS) {
        let why = run.why.as_deref().unwrap_or("incomplete data");
        let text = doctor::one_line(&format!("{}: {why}", run.collector));
        lines.push(Line::from(style.span(text, Level::Notable)));
    }
    lines
}

fn usage(style: TerminalStyle, usage: &UsageSummary, width: u16) -> String {
    let bar = usize::from(width / 8).min(20);
    let busy =
        usage.cpu_busy.map_or(style.none().to_owned(), |busy| format!("{:.0}%", busy * 100.0));
    let load = usage.load1.map_or(String::new(), |load| format!("  load {load:.1}"));
    let cpus = usage.cpus.map_or(String::new(), |cpus| format!(" of {cpus}"));
    let memory = usage.memory_total_bytes.zip(usage.memory_available_bytes);
    let memory = memory.map(|(all, free)| (all as f64, all.saturating_sub(free) as f64));
    let memory_text = memory.map_or(style.none().to_owned(), |(all, used)| {
        format!("{} of {}", bytes(used), bytes(all))
    });
    let share = memory.filter(|(all, _)| *all > 0.0).map(|(all, used)| used / all);
    let bar = |share: Option<f64>| {
        share.map_or(String::new(), |share| format!("{} ", style.bar(Some(share), bar)))
    };
    format!("cpu {}{busy}{load}{cpus}  memory {}{memory_text}", bar(usage.cpu_busy), bar(share))
}

/// Two lines about the store, if there is one.
fn store_lines(style: TerminalStyle, summary: &IntervalSummary) -> Vec<Line<'static>> {
    let Some(store) = &summary.store else { return Vec::new() };
    let StoreSummary { pool_bytes, pool_used_bytes, p99_ns, links, .. } = store;
    let measurement = |number: Option<f64>| number.map_or(style.none().to_owned(), short);
    let pool = pool_bytes.zip(*pool_used_bytes).filter(|(all, _)| *all > 0.0);
    let used = pool.map_or(style.none().to_owned(), |(all, used)| {
        format!("{} of {}", bytes(used), bytes(all))
    });
    let transports: Vec<String> = links
        .iter()
        .filter(|(_, count)| **count > 0.0)
        .map(|(transport, count)| format!("{transport} {count}"))
        .collect();
    let transports = if transports.is_empty() { "none".to_owned() } else { transports.join(" ") };
    let p99 = p99_ns.map_or(style.none().to_owned(), |ns| time(ns, style.unicode));
    let share = pool.map(|(all, used)| used / all);
    // Evictions start soon.
    let level = if share.is_some_and(|share| share > 0.95) { Level::Notable } else { Level::Plain };
    vec![
        Line::from(format!(
            "store {}  keys {}  hits/s {}  misses/s {}  puts/s {}",
            doctor::one_line(&store.address),
            measurement(store.keys),
            measurement(store.hits_per_second),
            measurement(store.misses_per_second),
            measurement(store.puts_per_second)
        )),
        Line::from(vec![
            Span::raw("  pool "),
            style.span(format!("{} {used}", style.bar(share, 10)), level),
            Span::raw(format!("  links {transports}  rdma p99 {p99}")),
        ]),
    ]
}

/// The filter being typed, a message, or the keys.
fn footer(app: &App) -> Line<'static> {
    if app.typing {
        return Line::from(format!("/{}_", doctor::one_line(&app.view.filter)));
    }
    if let Some(message) = &app.message {
        return Line::from(app.style.span(doctor::one_line(message), Level::Notable));
    }
    let filter = match app.view.filter.as_str() {
        "" => String::new(),
        filter => format!("  filter: {}", doctor::one_line(filter)),
    };
    let keys = match app.is_replay {
        true => "q quit  p play  left/right step  s sort  / filter  Enter doctor  h help",
        false => "q quit  p pause  s sort  / filter  Enter doctor  r record  h help",
    };
    Line::from(format!("{keys}{filter}"))
}

/// The minimum size of the terminal.
const MIN_WIDTH: u16 = 40;
const MIN_HEIGHT: u16 = 10;
const MAX_FAULTS: usize = 3;
