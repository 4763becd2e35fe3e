//! The rows, their order, and the selected one.

use std::cmp::Ordering;

use crate::commands::top::findings::DoctorQuery;
use crate::commands::top::issue;
use crate::commands::top::summary::{GpuSummary, IntervalSummary, PortSummary};

/// The column that ports are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    #[default]
    Name,
    Rate,
    Receive,
    Transmit,
    Errors,
    Congestion,
    Retries,
}

/// Order, filter and selection of rows.
#[derive(Debug, Default)]
pub(super) struct RowView {
    pub(super) sort: Sort,
    pub(super) descending: bool,
    pub(super) filter: String,
    /// The selected row; it stays selected when the order changes.
    selected: Option<RowId>,
    /// Its last position, used if the row disappears.
    position: usize,
}

/// The identity of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RowId {
    Port(String),
    Gpu(u32),
}

impl RowView {
    /// The displayed ports, in order.
    pub(super) fn ports<'m>(&self, summary: &'m IntervalSummary) -> Vec<&'m PortSummary> {
        let mut ports: Vec<&PortSummary> =
            summary.ports.iter().filter(|port| self.matches(port)).collect();
        // The sort is stable: equal ports stay in the machine's order.
        ports.sort_by(|one, other| self.order(one, other));
        ports
    }

    /// The displayed GPUs.
    pub(super) fn gpus<'m>(&self, summary: &'m IntervalSummary) -> Vec<&'m GpuSummary> {
        let matches = |gpu: &&GpuSummary| {
            let name = gpu.gpu.name.as_deref().unwrap_or_default();
            self.matches_text(&format!("gpu{} {name}", gpu.gpu.index))
        };
        summary.gpus.iter().filter(matches).collect()
    }

    /// The index of the selected row among all: ports, then GPUs.
    pub(super) fn selected(&self, summary: &IntervalSummary) -> usize {
        let rows = self.rows(summary);
        let position = rows.iter().position(|row| Some(row) == self.selected.as_ref());
        position.unwrap_or(self.position).min(rows.len().saturating_sub(1))
    }

    /// Moves the selection.
    pub(super) fn move_by(&mut self, summary: &IntervalSummary, by: isize) {
        let rows = self.rows(summary);
        let last = rows.len().saturating_sub(1);
        self.position = self.selected(summary).saturating_add_signed(by).min(last);
        self.selected = rows.get(self.position).cloned();
    }

    /// Sorts by the next column; numbers in descending order.
    pub(super) fn sort_by_next(&mut self) {
        self.sort = match self.sort {
            Sort::Name => Sort::Rate,
            Sort::Rate => Sort::Receive,
            Sort::Receive => Sort::Transmit,
            Sort::Transmit => Sort::Errors,
            Sort::Errors => Sort::Congestion,
            Sort::Congestion => Sort::Retries,
            Sort::Retries => Sort::Name,
        };
        self.descending = self.sort != Sort::Name;
    }

    /// The query to the doctor about the selected row.
    pub(super) fn query(&self, summary: &IntervalSummary) -> Option<DoctorQuery> {
        let (ports, gpus) = (self.ports(summary), self.gpus(summary));
        let at = self.selected(summary);
        if let Some(port) = ports.get(at) {
            return Some(DoctorQuery {
                title: doctor::one_line(&port.name()),
                subjects: vec![format!("{} port {}", port.device, port.port), port.device.clone()],
                issues: issue::of_port(port),
                default_checks: issue::PORT_CHECKS,
                xids: Vec::new(),
            });
        }
        let gpu = gpus.get(at - ports.len())?;
        Some(DoctorQuery {
            title: format!("GPU {}", gpu.gpu.index),
            subjects: gpu.gpu.pci.clone().into_iter().collect(),
            issues: issue::of_gpu(gpu),
            default_checks: issue::GPU_CHECKS,
            xids: gpu.gpu.reading.xids.keys().copied().collect(),
        })
    }

    fn rows(&self, summary: &IntervalSummary) -> Vec<RowId> {
        let ports = self.ports(summary).into_iter().map(|port| RowId::Port(port.name()));
        let gpus = self.gpus(summary).into_iter().map(|gpu| RowId::Gpu(gpu.gpu.index));
        ports.chain(gpus).collect()
    }

    fn matches(&self, port: &PortSummary) -> bool {
        let netdev = port.netdev.as_deref().unwrap_or_default();
        self.matches_text(&format!("{} {netdev}", port.name()))
    }

    fn matches_text(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    fn order(&self, one: &PortSummary, other: &PortSummary) -> Ordering {
        if self.sort == Sort::Name {
            return if self.descending {
                compare_names(one, other).reverse()
            } else {
                compare_names(one, other)
            };
        }
        let measurements = (self.measurement(one), self.measurement(other));
        match measurements {
            // Unknown values are last in both orders.
            (None, None) => Ordering::Equal,
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
            (Some(one), Some(other)) if self.descending => other.total_cmp(&one),
            (Some(one), Some(other)) => one.total_cmp(&other),
        }
    }

    fn measurement(&self, port: &PortSummary) -> Option<f64> {
        let rates = &port.rates;
        match self.sort {
            Sort::Name => None,
            Sort::Rate => port.rate_mbps.map(|mbps| mbps as f64),
            Sort::Receive => rates.receive.bytes_per_second,
            Sort::Transmit => rates.transmit.bytes_per_second,
            Sort::Errors => rates.errors_per_second,
            Sort::Congestion => port.congestion(),
            Sort::Retries => rates.retries_per_second,
        }
    }
}

/// Compares by name, with the trailing digits as a number.
fn compare_names(one: &PortSummary, other: &PortSummary) -> Ordering {
    let digits = |letter: char| letter.is_ascii_digit();
    let parts = |port: &PortSummary| {
        let word = port.device.trim_end_matches(digits).to_owned();
        let number = port.device[word.len()..].parse::<u64>().unwrap_or(0);
        (word, number, port.port)
    };
    parts(one).cmp(&parts(other))
}
