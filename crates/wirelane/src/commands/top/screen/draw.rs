//! The screen from top to bottom: a header, the machine, ports, GPUs, the store, and a line of keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::app::App;
use super::style::{Level, Look};
use super::{gpus, ports, window};
use crate::commands::top::number::{bytes, short, time};
use crate::commands::top::summary::{Moment, StoreMoment, UsageMoment};

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
        let text =
            format!("too small: {}x{}, needs {MIN_WIDTH}x{MIN_HEIGHT}", area.width, area.height);
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    }
    let look = app.look;
    let (above, below) = match &app.moment {
        Some(moment) => (about_machine(look, moment, area.width), about_store(look, moment)),
        None => (vec![Line::from("looking")], Vec::new()),
    };
    let [head, machine, tables, store, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(above.len() as u16),
        Constraint::Min(2),
        Constraint::Length(below.len() as u16),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(header(app, head.width), head);
    frame.render_widget(Paragraph::new(above), machine);
    draw_tables(frame, tables, app);
    frame.render_widget(Paragraph::new(below), store);
    frame.render_widget(footer(app), foot);
    if let Some(window) = &app.window {
        window::draw(frame, area, look, window);
    }
}

/// Ports above, GPUs below them; those that do not fit are scrolled to.
fn draw_tables(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let Some(moment) = &app.moment else { return };
    let (port_count, gpu_count) = (app.view.ports(moment).len(), app.view.gpus(moment).len());
    let at = app.view.at(moment);
    if moment.ports.is_empty() && moment.gpus.is_empty() {
        if !moment.faults.is_empty() {
            return;
        }
        let text = "There is no RDMA port and no GPU reported by NVML on this machine.";
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    }
    let ports_need = if moment.ports.is_empty() { 0 } else { port_count as u16 + 1 };
    let gpus_need = if moment.gpus.is_empty() { 0 } else { gpu_count as u16 + 1 };
    let gpus_get = gpus_need.min((area.height / 2).max(area.height.saturating_sub(ports_need)));
    let [upper, lower] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(gpus_get)]).areas(area);
    let upper = Rect { height: upper.height.min(ports_need), ..upper };
    let lower = Rect { y: upper.bottom(), ..lower };
    app.page = usize::from(upper.height.saturating_sub(1)).max(1);
    ports::draw(frame, upper, app, (at < port_count).then_some(at));
    if gpus_need > 0 {
        gpus::draw(frame, lower, app, at.checked_sub(port_count));
    }
}

fn header(app: &App, width: u16) -> Line<'static> {
    let look = app.look;
    let moment = app.moment.as_ref();
    let host = moment.and_then(|moment| moment.host.as_deref()).unwrap_or_default();
    let time = moment.map(|moment| moment.time.clone()).unwrap_or_default();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut spans = vec![Span::styled("wirelane top  ", bold)];
    let host = doctor::one_line(host);
    spans.push(Span::raw(look.cut(&host, usize::from(width / 3))));
    spans.push(Span::raw(format!("  {time}")));
    match app.place {
        Some((at, of)) => spans.push(Span::raw(format!("  replay {at}/{of}"))),
        None => spans.push(Span::raw(format!("  every {}", every(app.every)))),
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

fn every(every: std::time::Duration) -> String {
    match every.as_millis() {
        millis if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
        millis => format!("{millis}ms"),
    }
}

/// CPUs and memory; the peer; what is gone or could not be told.
fn about_machine(look: Look, moment: &Moment, width: u16) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(usage(look, &moment.usage, width))];
    if let Some(probe) = &moment.probe {
        let took =
            |ns: Option<u64>| ns.map_or(look.none().to_owned(), |ns| time(ns as f64, look.unicode));
        let told = match &probe.why {
            Some(why) => look.told(why.clone(), Level::Bad),
            None => {
                let lane = probe.lane.as_deref().unwrap_or("connecting");
                let (half, tail) = (took(probe.median_ns), took(probe.p99_ns));
                let jitter = took(probe.jitter_ns);
                let text = format!("{lane}  p50 {half}  p99 {tail}  jitter {jitter}  lost ");
                let lost = format!("{text}{} of {}", probe.lost, probe.sent);
                look.told(lost, if probe.lost > 0 { Level::Bad } else { Level::Plain })
            }
        };
        lines.push(Line::from(vec![Span::raw(format!("peer {}  ", probe.peer)), told]));
    }
    if !moment.gone.is_empty() {
        let names = doctor::one_line(&moment.gone.join(", "));
        lines.push(Line::from(look.told(format!("gone: {names}"), Level::Bad)));
    }
    for run in moment.faults.iter().take(MAX_FAULTS) {
        let why = run.why.as_deref().unwrap_or("incomplete data");
        let text = doctor::one_line(&format!("{}: {why}", run.collector));
        lines.push(Line::from(look.told(text, Level::Notable)));
    }
    lines
}

fn usage(look: Look, usage: &UsageMoment, width: u16) -> String {
    let bar = usize::from(width / 8).min(20);
    let busy =
        usage.cpu_busy.map_or(look.none().to_owned(), |busy| format!("{:.0}%", busy * 100.0));
    let load = usage.load1.map_or(String::new(), |load| format!("  load {load:.1}"));
    let cpus = usage.cpus.map_or(String::new(), |cpus| format!(" of {cpus}"));
    let memory = usage.memory_total_bytes.zip(usage.memory_available_bytes);
    let memory = memory.map(|(all, free)| (all as f64, all.saturating_sub(free) as f64));
    let shown = memory
        .map_or(look.none().to_owned(), |(all, used)| format!("{} of {}", bytes(used), bytes(all)));
    let share = memory.filter(|(all, _)| *all > 0.0).map(|(all, used)| used / all);
    let bar = |share: Option<f64>| {
        share.map_or(String::new(), |share| format!("{} ", look.bar(Some(share), bar)))
    };
    format!("cpu {}{busy}{load}{cpus}  memory {}{shown}", bar(usage.cpu_busy), bar(share))
}

/// Two lines on the store, if there is one.
fn about_store(look: Look, moment: &Moment) -> Vec<Line<'static>> {
    let Some(store) = &moment.store else { return Vec::new() };
    let StoreMoment { pool_bytes, pool_used_bytes, p99_ns, links, .. } = store;
    let measurement = |number: Option<f64>| number.map_or(look.none().to_owned(), short);
    let pool = pool_bytes.zip(*pool_used_bytes).filter(|(all, _)| *all > 0.0);
    let used = pool
        .map_or(look.none().to_owned(), |(all, used)| format!("{} of {}", bytes(used), bytes(all)));
    let lanes: Vec<String> = links
        .iter()
        .filter(|(_, count)| **count > 0.0)
        .map(|(lane, count)| format!("{lane} {count}"))
        .collect();
    let lanes = if lanes.is_empty() { "none".to_owned() } else { lanes.join(" ") };
    let tail = p99_ns.map_or(look.none().to_owned(), |ns| time(ns, look.unicode));
    let share = pool.map(|(all, used)| used / all);
    // The evictions begin.
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
            look.told(format!("{} {used}", look.bar(share, 10)), level),
            Span::raw(format!("  links {lanes}  rdma p99 {tail}")),
        ]),
    ]
}

/// What is being typed, what is to be said, or which keys there are.
fn footer(app: &App) -> Line<'static> {
    if app.typing {
        return Line::from(format!("/{}_", doctor::one_line(&app.view.filter)));
    }
    if let Some(note) = &app.note {
        return Line::from(app.look.told(doctor::one_line(note), Level::Notable));
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

/// Smaller, nothing of use can be shown.
const MIN_WIDTH: u16 = 40;
const MIN_HEIGHT: u16 = 10;
const MAX_FAULTS: usize = 3;
