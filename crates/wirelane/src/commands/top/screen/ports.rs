//! The table of ports.

use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row, Table};

use super::app::App;
use super::columns::{self, Column};
use super::rows::Sort;
use super::style::{Level, TerminalStyle};
use crate::commands::top::history::PortHistory;
use crate::commands::top::issue::{self, Issue};
use crate::commands::top::number::{gbps, short};
use crate::commands::top::rates::Direction;
use crate::commands::top::summary::PortSummary;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortColumn {
    Port,
    Netdev,
    State,
    Rate,
    Receive,
    Transmit,
    ReceivePackets,
    TransmitPackets,
    Errors,
    Congestion,
    Retries,
    Traffic,
    ErrorHistory,
    CongestionHistory,
}

/// Draws the ports; `selected` is the selected row, if it is a port.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, selected: Option<usize>) {
    let Some(summary) = &app.summary else { return };
    let style = app.style;
    let ports = app.view.ports(summary);
    let columns = columns::fit(&all_columns(&ports, area.width), area.width);
    let sorted = app.sort();
    let titles = columns.iter().map(|(column, _)| title(style, *column, sorted));
    let rows = ports.iter().map(|port| {
        let history = app.history.of(&port.name());
        let issues = issue::of_port(port);
        let cells = columns.iter().map(|(column, width)| {
            cell(style, column.kind, usize::from(*width), port, history, &issues)
        });
        Row::new(cells.collect::<Vec<_>>())
    });
    let table = Table::new(rows.collect::<Vec<_>>(), columns::constraints(&columns))
        .header(
            Row::new(titles.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::BOLD)),
        )
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    app.ports.select(selected);
    frame.render_stateful_widget(table, area, &mut app.ports);
}

fn all_columns(ports: &[&PortSummary], width: u16) -> Vec<Column<PortColumn>> {
    let longest = |text: &dyn Fn(&PortSummary) -> usize, max: usize| {
        ports.iter().map(|port| text(port)).max().unwrap_or(0).clamp(6, max) as u16
    };
    let name = longest(&|port| port.name().chars().count(), 20);
    let netdev = longest(&|port| port.netdev.as_ref().map_or(0, |name| name.chars().count()), 15);
    // Too narrow for bars: only numbers.
    let direction = if width < 64 { 6 } else { 12 };
    let column = |kind, title, min_width, max_width, rank| Column {
        kind,
        title,
        min_width,
        max_width,
        rank,
    };
    vec![
        column(PortColumn::Port, "port", name, name, 0),
        column(PortColumn::Netdev, "netdev", netdev, netdev, 9),
        column(PortColumn::State, "state", 7, 7, 4),
        column(PortColumn::Rate, "Gb/s", 8, 9, 3),
        column(PortColumn::Receive, "rx b/s", direction, 22, 1),
        column(PortColumn::Transmit, "tx b/s", direction, 22, 1),
        column(PortColumn::ReceivePackets, "rx p/s", 6, 6, 10),
        column(PortColumn::TransmitPackets, "tx p/s", 6, 6, 11),
        column(PortColumn::Errors, "err/s", 7, 7, 5),
        column(PortColumn::Congestion, "cong/s", 7, 7, 6),
        column(PortColumn::Retries, "retr/s", 7, 7, 7),
        column(PortColumn::Traffic, "traffic", 10, 60, 8),
        column(PortColumn::ErrorHistory, "errors", 10, 20, 12),
        column(PortColumn::CongestionHistory, "congestion", 10, 20, 13),
    ]
}

fn title(
    style: TerminalStyle,
    column: Column<PortColumn>,
    (sort, descending): (Sort, bool),
) -> Cell<'static> {
    let is_sorted = match column.kind {
        PortColumn::Port => sort == Sort::Name,
        PortColumn::Rate => sort == Sort::Rate,
        PortColumn::Receive => sort == Sort::Receive,
        PortColumn::Transmit => sort == Sort::Transmit,
        PortColumn::Errors => sort == Sort::Errors,
        PortColumn::Congestion => sort == Sort::Congestion,
        PortColumn::Retries => sort == Sort::Retries,
        _ => false,
    };
    let arrow = if is_sorted { style.arrow(descending) } else { "" };
    let left = matches!(
        column.kind,
        PortColumn::Port
            | PortColumn::Netdev
            | PortColumn::State
            | PortColumn::Traffic
            | PortColumn::ErrorHistory
            | PortColumn::CongestionHistory
    );
    let line = Line::from(format!("{}{arrow}", column.title));
    Cell::new(Text::from(line.alignment(if left { Alignment::Left } else { Alignment::Right })))
}

fn cell(
    style: TerminalStyle,
    kind: PortColumn,
    width: usize,
    port: &PortSummary,
    history: Option<&PortHistory>,
    issues: &[Issue],
) -> Cell<'static> {
    let level = |of: &[Issue]| match issues.iter().find(|issue| of.contains(issue)) {
        None => Level::Plain,
        Some(issue) if issue.is_bad() => Level::Bad,
        Some(_) => Level::Notable,
    };
    let plain =
        |text: &str| style.span(style.truncate(&doctor::one_line(text), width), Level::Plain);
    let right = |text: String, level| {
        Cell::new(Text::from(Line::from(style.span(text, level)).alignment(Alignment::Right)))
    };
    let measurement = |number: Option<f64>| number.map_or(style.none().to_owned(), short);
    let rates = &port.rates;
    match kind {
        PortColumn::Port => Cell::new(plain(&port.name())),
        PortColumn::Netdev => Cell::new(plain(port.netdev.as_deref().unwrap_or(style.none()))),
        PortColumn::State => {
            let state = style.truncate(port.state.unwrap_or(style.none()), width - 1);
            Cell::new(style.span(state, level(&[Issue::State])))
        }
        PortColumn::Rate => right(speed(style, port), level(&[Issue::Rate])),
        PortColumn::Receive => Cell::new(direction(style, &rates.receive, width)),
        PortColumn::Transmit => Cell::new(direction(style, &rates.transmit, width)),
        PortColumn::ReceivePackets => {
            right(measurement(rates.receive.packets_per_second), Level::Plain)
        }
        PortColumn::TransmitPackets => {
            right(measurement(rates.transmit.packets_per_second), Level::Plain)
        }
        PortColumn::Errors => {
            let faulty = [Issue::Saturated, Issue::Unreadable];
            let star = if issues.iter().any(|one| faulty.contains(one)) { "*" } else { "" };
            let text = format!("{}{star}", measurement(rates.errors_per_second));
            right(text, level(&[Issue::Errors, Issue::Saturated, Issue::Unreadable]))
        }
        PortColumn::Congestion => {
            let ticks = rates.congestion_per_second.is_none() && port.congestion().is_some();
            let text =
                format!("{}{}", measurement(port.congestion()), if ticks { "t" } else { "" });
            right(text, level(&[Issue::Ignored, Issue::Congestion]))
        }
        PortColumn::Retries => {
            right(measurement(rates.retries_per_second), level(&[Issue::Retries]))
        }
        PortColumn::Traffic => {
            Cell::new(style.sparkline(history.map(|history| &history.throughput), width))
        }
        PortColumn::ErrorHistory => {
            Cell::new(style.sparkline(history.map(|history| &history.errors), width))
        }
        PortColumn::CongestionHistory => {
            Cell::new(style.sparkline(history.map(|history| &history.congestion), width))
        }
    }
}

/// The rate; if it is lower than expected, also the expected rate.
fn speed(style: TerminalStyle, port: &PortSummary) -> String {
    match (port.rate_mbps, port.expected_mbps) {
        (Some(rate), Some(expected)) if port.is_slow() => {
            format!("{}<{}", gbps(rate), gbps(expected))
        }
        (rate, _) => rate.map_or(style.none().to_owned(), gbps),
    }
}

/// A bar and a number.
fn direction(style: TerminalStyle, direction: &Direction, width: usize) -> String {
    let bits = direction.bytes_per_second.map(|bytes| bytes * 8.0);
    let number = bits.map_or(style.none().to_owned(), short);
    match width.checked_sub(NUMBER_WIDTH + 1) {
        Some(bar) if bar > 0 => {
            format!("{} {number:>NUMBER_WIDTH$}", style.bar(direction.share, bar))
        }
        _ => format!("{number:>width$}"),
    }
}

/// Width of a number.
const NUMBER_WIDTH: usize = 5;
