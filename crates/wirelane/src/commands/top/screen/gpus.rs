//! The table of GPUs.

use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row, Table};

use super::app::App;
use super::columns::{self, Column};
use super::style::{Level, TerminalStyle};
use crate::commands::top::issue::{self, Issue};
use crate::commands::top::number::{bytes, short};
use crate::commands::top::summary::GpuSummary;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GpuColumn {
    Gpu,
    Name,
    Temperature,
    Utilization,
    Memory,
    Power,
    Clock,
    Throttle,
    PcieReceive,
    PcieTransmit,
    NvlinkReceive,
    NvlinkTransmit,
    Xid,
}

/// Draws the GPUs; `selected` is the selected row, if it is a GPU.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, selected: Option<usize>) {
    let Some(summary) = &app.summary else { return };
    let style = app.style;
    let gpus = app.view.gpus(summary);
    let longest = |text: fn(TerminalStyle, &GpuSummary) -> String, min: usize| {
        gpus.iter().map(|gpu| text(style, gpu).chars().count()).max().unwrap_or(0).max(min)
    };
    let (memory_width, power_width) = (longest(memory, 10), longest(power, 9) as u16);
    let columns = columns::fit(&all_columns(power_width), area.width);
    let title = |column: &Column<GpuColumn>| {
        let side = if is_left(column.kind) { Alignment::Left } else { Alignment::Right };
        Cell::new(Text::from(Line::from(column.title).alignment(side)))
    };
    let titles: Vec<Cell<'_>> = columns.iter().map(|(column, _)| title(column)).collect();
    let rows = gpus.iter().map(|gpu| {
        let cells = columns.iter().map(|(column, width)| {
            cell(style, column.kind, (usize::from(*width), memory_width), gpu)
        });
        Row::new(cells.collect::<Vec<_>>())
    });
    let table = Table::new(rows.collect::<Vec<_>>(), columns::constraints(&columns))
        .header(Row::new(titles).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    app.gpus.select(selected);
    frame.render_stateful_widget(table, area, &mut app.gpus);
}

fn is_left(kind: GpuColumn) -> bool {
    matches!(kind, GpuColumn::Gpu | GpuColumn::Name | GpuColumn::Throttle | GpuColumn::Xid)
}

/// A cell of this width; the second width is that of the longest number of memory.
fn cell(
    style: TerminalStyle,
    kind: GpuColumn,
    (width, memory_width): (usize, usize),
    gpu: &GpuSummary,
) -> Cell<'static> {
    let reading = &gpu.gpu.reading;
    let issues = issue::of_gpu(gpu);
    let level = |of: Issue| match issues.contains(&of) {
        false => Level::Plain,
        true if of.is_bad() => Level::Bad,
        true => Level::Notable,
    };
    let none = || style.none().to_owned();
    let (text, level) = match kind {
        GpuColumn::Gpu => (gpu.gpu.index.to_string(), Level::Plain),
        GpuColumn::Name => (gpu.gpu.name.as_deref().map_or_else(none, name), Level::Plain),
        GpuColumn::Temperature => {
            let degrees = reading.temperature_c.map(|degrees| format!("{degrees}C"));
            (degrees.unwrap_or_else(none), level(Issue::Hot))
        }
        GpuColumn::Utilization => {
            let part = reading.utilization_percent.map(|percent| f64::from(percent) / 100.0);
            let number = reading.utilization_percent.map(|percent| format!("{percent}%"));
            (bar(style, part, &number.unwrap_or_else(none), 4, width), Level::Plain)
        }
        GpuColumn::Memory => {
            let share = memory_share(gpu);
            (bar(style, share, &memory(style, gpu), memory_width, width), Level::Plain)
        }
        GpuColumn::Power => (power(style, gpu), Level::Plain),
        GpuColumn::Clock => {
            let clock = reading.clocks_mhz.get("sm").or(reading.clocks_mhz.get("graphics"));
            (clock.map_or_else(none, u32::to_string), Level::Plain)
        }
        GpuColumn::Throttle => {
            let reasons = gpu.throttled();
            let text =
                if reasons.is_empty() { none() } else { doctor::one_line(&reasons.join(",")) };
            (text, level(Issue::Throttled))
        }
        GpuColumn::PcieReceive => (
            bits(style, reading.pcie_receive_bytes_per_second.map(|bytes| bytes as f64)),
            Level::Plain,
        ),
        GpuColumn::PcieTransmit => (
            bits(style, reading.pcie_transmit_bytes_per_second.map(|bytes| bytes as f64)),
            Level::Plain,
        ),
        GpuColumn::NvlinkReceive => {
            (bits(style, gpu.nvlink_receive_bytes_per_second), Level::Plain)
        }
        GpuColumn::NvlinkTransmit => {
            (bits(style, gpu.nvlink_transmit_bytes_per_second), Level::Plain)
        }
        GpuColumn::Xid => {
            let numbers: Vec<String> = reading.xids.keys().map(u64::to_string).collect();
            let text = if numbers.is_empty() { none() } else { numbers.join(",") };
            (text, level(Issue::Xid))
        }
    };
    let text = style.truncate(&text, width);
    let side = if is_left(kind) { Alignment::Left } else { Alignment::Right };
    Cell::new(Text::from(Line::from(style.span(text, level)).alignment(side)))
}

/// The name without `NVIDIA`.
fn name(name: &str) -> String {
    doctor::one_line(name.strip_prefix("NVIDIA ").unwrap_or(name))
}

/// Used and total memory: `66.4G/79.6G`.
fn memory(style: TerminalStyle, gpu: &GpuSummary) -> String {
    match memory_bytes(gpu) {
        Some((used, total)) => format!("{}/{}", bytes(used), bytes(total)),
        None => style.none().to_owned(),
    }
}

fn memory_share(gpu: &GpuSummary) -> Option<f64> {
    memory_bytes(gpu).filter(|(_, total)| *total > 0.0).map(|(used, total)| used / total)
}

fn memory_bytes(gpu: &GpuSummary) -> Option<(f64, f64)> {
    let reading = &gpu.gpu.reading;
    let total = reading.memory_total_bytes.or(gpu.gpu.memory_bytes);
    reading.memory_used_bytes.zip(total).map(|(used, total)| (used as f64, total as f64))
}

/// Power and its limit: `612/700W`.
fn power(style: TerminalStyle, gpu: &GpuSummary) -> String {
    let reading = &gpu.gpu.reading;
    let watts =
        |mw: Option<u64>| mw.map_or_else(|| style.none().to_owned(), |mw| (mw / 1000).to_string());
    format!("{}/{}W", watts(reading.power_mw), watts(reading.power_limit_mw))
}

/// A bar and a number of this width.
fn bar(
    style: TerminalStyle,
    share: Option<f64>,
    number: &str,
    number_width: usize,
    width: usize,
) -> String {
    match width.checked_sub(number_width + 1) {
        Some(bar) if bar > 0 => format!("{} {number:>number_width$}", style.bar(share, bar)),
        _ => number.to_owned(),
    }
}

/// Bits per second, as for ports.
fn bits(style: TerminalStyle, bytes: Option<f64>) -> String {
    bytes.map_or(style.none().to_owned(), |bytes| short(bytes * 8.0))
}

fn all_columns(power_width: u16) -> Vec<Column<GpuColumn>> {
    let mut columns = COLUMNS.to_vec();
    for column in columns.iter_mut().filter(|column| column.kind == GpuColumn::Power) {
        (column.min_width, column.max_width) = (power_width, power_width);
    }
    columns
}

const fn column(
    kind: GpuColumn,
    title: &'static str,
    min_width: u16,
    max_width: u16,
    rank: u8,
) -> Column<GpuColumn> {
    Column { kind, title, min_width, max_width, rank }
}

const COLUMNS: &[Column<GpuColumn>] = &[
    column(GpuColumn::Gpu, "gpu", 3, 3, 0),
    column(GpuColumn::Name, "name", 10, 24, 8),
    column(GpuColumn::Temperature, "temp", 4, 4, 2),
    column(GpuColumn::Utilization, "busy", 10, 20, 1),
    column(GpuColumn::Memory, "memory", 16, 26, 1),
    column(GpuColumn::Power, "power", 9, 9, 4),
    column(GpuColumn::Clock, "MHz", 5, 5, 7),
    column(GpuColumn::Throttle, "throttled by", 12, 30, 6),
    column(GpuColumn::PcieReceive, "pci rx", 6, 6, 9),
    column(GpuColumn::PcieTransmit, "pci tx", 6, 6, 10),
    column(GpuColumn::NvlinkReceive, "nvl rx", 6, 6, 11),
    column(GpuColumn::NvlinkTransmit, "nvl tx", 6, 6, 12),
    column(GpuColumn::Xid, "xid", 6, 16, 5),
];
