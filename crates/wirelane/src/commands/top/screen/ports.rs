//! The table of ports.

use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row, Table};

use super::app::App;
use super::columns::{self, Column};
use super::rows::Sort;
use super::style::{Level, Look};
use crate::commands::top::history::Past;
use crate::commands::top::issue::{self, Trouble};
use crate::commands::top::number::{gbps, short};
use crate::commands::top::rates::Direction;
use crate::commands::top::summary::PortMoment;

/// What a column shows.
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
    PastErrors,
    PastCongestion,
}

/// Draws the ports; `chosen` is the row that is chosen, if it is one of theirs.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, chosen: Option<usize>) {
    let Some(moment) = &app.moment else { return };
    let look = app.look;
    let ports = app.view.ports(moment);
    let columns = columns::fit(&offered(&ports, area.width), area.width);
    let sorted = app.sort();
    let titles = columns.iter().map(|(column, _)| title(look, *column, sorted));
    let rows = ports.iter().map(|port| {
        let past = app.history.of(&port.name());
        let troubles = issue::of_port(port);
        let cells = columns.iter().map(|(column, width)| {
            cell(look, column.kind, usize::from(*width), port, past, &troubles)
        });
        Row::new(cells.collect::<Vec<_>>())
    });
    let table = Table::new(rows.collect::<Vec<_>>(), columns::constraints(&columns))
        .header(
            Row::new(titles.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::BOLD)),
        )
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    app.ports.select(chosen);
    frame.render_stateful_widget(table, area, &mut app.ports);
}

fn offered(ports: &[&PortMoment], width: u16) -> Vec<Column<PortColumn>> {
    let longest = |text: &dyn Fn(&PortMoment) -> usize, most: usize| {
        ports.iter().map(|port| text(port)).max().unwrap_or(0).clamp(6, most) as u16
    };
    let name = longest(&|port| port.name().chars().count(), 20);
    let netdev = longest(&|port| port.netdev.as_ref().map_or(0, |name| name.chars().count()), 15);
    // Without room for bars the numbers stand alone.
    let way = if width < 64 { 6 } else { 12 };
    let column = |kind, title, least, most, rank| Column { kind, title, least, most, rank };
    vec![
        column(PortColumn::Port, "port", name, name, 0),
        column(PortColumn::Netdev, "netdev", netdev, netdev, 9),
        column(PortColumn::State, "state", 7, 7, 4),
        column(PortColumn::Rate, "Gb/s", 8, 9, 3),
        column(PortColumn::Receive, "rx b/s", way, 22, 1),
        column(PortColumn::Transmit, "tx b/s", way, 22, 1),
        column(PortColumn::ReceivePackets, "rx p/s", 6, 6, 10),
        column(PortColumn::TransmitPackets, "tx p/s", 6, 6, 11),
        column(PortColumn::Errors, "err/s", 7, 7, 5),
        column(PortColumn::Congestion, "cong/s", 7, 7, 6),
        column(PortColumn::Retries, "retr/s", 7, 7, 7),
        column(PortColumn::Traffic, "traffic", 10, 60, 8),
        column(PortColumn::PastErrors, "errors", 10, 20, 12),
        column(PortColumn::PastCongestion, "congestion", 10, 20, 13),
    ]
}

fn title(
    look: Look,
    column: Column<PortColumn>,
    (sort, descending): (Sort, bool),
) -> Cell<'static> {
    let sorts = match column.kind {
        PortColumn::Port => sort == Sort::Name,
        PortColumn::Rate => sort == Sort::Rate,
        PortColumn::Receive => sort == Sort::Receive,
        PortColumn::Transmit => sort == Sort::Transmit,
        PortColumn::Errors => sort == Sort::Errors,
        PortColumn::Congestion => sort == Sort::Congestion,
        PortColumn::Retries => sort == Sort::Retries,
        _ => false,
    };
    let arrow = if sorts { look.arrow(descending) } else { "" };
    let left = matches!(
        column.kind,
        PortColumn::Port
            | PortColumn::Netdev
            | PortColumn::State
            | PortColumn::Traffic
            | PortColumn::PastErrors
            | PortColumn::PastCongestion
    );
    let line = Line::from(format!("{}{arrow}", column.title));
    Cell::new(Text::from(line.alignment(if left { Alignment::Left } else { Alignment::Right })))
}

fn cell(
    look: Look,
    kind: PortColumn,
    width: usize,
    port: &PortMoment,
    past: Option<&Past>,
    troubles: &[Trouble],
) -> Cell<'static> {
    let level = |of: &[Trouble]| match troubles.iter().find(|trouble| of.contains(trouble)) {
        None => Level::Plain,
        Some(trouble) if trouble.is_bad() => Level::Bad,
        Some(_) => Level::Notable,
    };
    let plain = |text: &str| look.told(look.cut(&doctor::one_line(text), width), Level::Plain);
    let right = |text: String, level| {
        Cell::new(Text::from(Line::from(look.told(text, level)).alignment(Alignment::Right)))
    };
    let measurement = |number: Option<f64>| number.map_or(look.none().to_owned(), short);
    let rates = &port.rates;
    match kind {
        PortColumn::Port => Cell::new(plain(&port.name())),
        PortColumn::Netdev => Cell::new(plain(port.netdev.as_deref().unwrap_or(look.none()))),
        PortColumn::State => {
            let state = look.cut(port.state.unwrap_or(look.none()), width - 1);
            Cell::new(look.told(state, level(&[Trouble::State])))
        }
        PortColumn::Rate => right(speed(look, port), level(&[Trouble::Rate])),
        PortColumn::Receive => Cell::new(way(look, &rates.receive, width)),
        PortColumn::Transmit => Cell::new(way(look, &rates.transmit, width)),
        PortColumn::ReceivePackets => {
            right(measurement(rates.receive.packets_per_second), Level::Plain)
        }
        PortColumn::TransmitPackets => {
            right(measurement(rates.transmit.packets_per_second), Level::Plain)
        }
        PortColumn::Errors => {
            let faulty = [Trouble::Saturated, Trouble::Unreadable];
            let star = if troubles.iter().any(|one| faulty.contains(one)) { "*" } else { "" };
            let text = format!("{}{star}", measurement(rates.errors_per_second));
            right(text, level(&[Trouble::Errors, Trouble::Saturated, Trouble::Unreadable]))
        }
        PortColumn::Congestion => {
            let ticks = rates.congestion_per_second.is_none() && port.congestion().is_some();
            let text =
                format!("{}{}", measurement(port.congestion()), if ticks { "t" } else { "" });
            right(text, level(&[Trouble::Ignored, Trouble::Congestion]))
        }
        PortColumn::Retries => {
            right(measurement(rates.retries_per_second), level(&[Trouble::Retries]))
        }
        PortColumn::Traffic => Cell::new(look.spark(past.map(|past| &past.throughput), width)),
        PortColumn::PastErrors => Cell::new(look.spark(past.map(|past| &past.errors), width)),
        PortColumn::PastCongestion => {
            Cell::new(look.spark(past.map(|past| &past.congestion), width))
        }
    }
}

/// What it runs at, and if that is less than it should be, that too.
fn speed(look: Look, port: &PortMoment) -> String {
    match (port.rate_mbps, port.expected_mbps) {
        (Some(rate), Some(expected)) if port.is_slow() => {
            format!("{}<{}", gbps(rate), gbps(expected))
        }
        (rate, _) => rate.map_or(look.none().to_owned(), gbps),
    }
}

/// A bar and a number.
fn way(look: Look, way: &Direction, width: usize) -> String {
    let bits = way.bytes_per_second.map(|bytes| bytes * 8.0);
    let number = bits.map_or(look.none().to_owned(), short);
    match width.checked_sub(NUMBER + 1) {
        Some(bar) if bar > 0 => format!("{} {number:>NUMBER$}", look.bar(way.share, bar)),
        _ => format!("{number:>width$}"),
    }
}

/// The longest number.
const NUMBER: usize = 5;
