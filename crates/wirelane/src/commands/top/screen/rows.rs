//! Which rows there are, in which order, and which one is chosen.

use std::cmp::Ordering;

use crate::commands::top::findings::Question;
use crate::commands::top::summary::{GpuMoment, Moment, PortMoment};
use crate::commands::top::trouble;

/// What ports are sorted by.
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

/// How the rows are looked at.
#[derive(Debug, Default)]
pub(super) struct Viewed {
    pub(super) sort: Sort,
    pub(super) descending: bool,
    pub(super) filter: String,
    /// The row that is chosen, if one was; it stays chosen wherever it moves to.
    chosen: Option<Row>,
    /// Where it was, should it vanish.
    place: usize,
}

/// A row by what stays the same of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Row {
    Port(String),
    Gpu(u32),
}

impl Viewed {
    /// The ports to show, in their order.
    pub(super) fn ports<'m>(&self, moment: &'m Moment) -> Vec<&'m PortMoment> {
        let mut ports: Vec<&PortMoment> =
            moment.ports.iter().filter(|port| self.fits(port)).collect();
        // What is the same stays in the machine's order of names.
        ports.sort_by(|one, other| self.order(one, other));
        ports
    }

    /// The GPUs to show.
    pub(super) fn gpus<'m>(&self, moment: &'m Moment) -> Vec<&'m GpuMoment> {
        let fits = |gpu: &&GpuMoment| {
            let name = gpu.gpu.name.as_deref().unwrap_or_default();
            self.has(&format!("gpu{} {name}", gpu.gpu.index))
        };
        moment.gpus.iter().filter(fits).collect()
    }

    /// The chosen row among all: the ports', then the GPUs'.
    pub(super) fn at(&self, moment: &Moment) -> usize {
        let rows = self.rows(moment);
        let place = rows.iter().position(|row| Some(row) == self.chosen.as_ref());
        place.unwrap_or(self.place).min(rows.len().saturating_sub(1))
    }

    /// Goes to another row.
    pub(super) fn go(&mut self, moment: &Moment, by: isize) {
        let rows = self.rows(moment);
        let last = rows.len().saturating_sub(1);
        self.place = self.at(moment).saturating_add_signed(by).min(last);
        self.chosen = rows.get(self.place).cloned();
    }

    /// Sorts by the next column; numbers from the highest down.
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

    /// What the doctor is asked about the chosen row.
    pub(super) fn question(&self, moment: &Moment) -> Option<Question> {
        let (ports, gpus) = (self.ports(moment), self.gpus(moment));
        let at = self.at(moment);
        if let Some(port) = ports.get(at) {
            return Some(Question {
                title: doctor::one_line(&port.name()),
                subjects: vec![format!("{} port {}", port.device, port.port), port.device.clone()],
                troubles: issue::of_port(port),
                otherwise: issue::CHECKS_OF_PORTS,
                xids: Vec::new(),
            });
        }
        let gpu = gpus.get(at - ports.len())?;
        Some(Question {
            title: format!("GPU {}", gpu.gpu.index),
            subjects: gpu.gpu.pci.clone().into_iter().collect(),
            troubles: issue::of_gpu(gpu),
            otherwise: issue::CHECKS_OF_GPUS,
            xids: gpu.gpu.reading.xids.keys().copied().collect(),
        })
    }

    fn rows(&self, moment: &Moment) -> Vec<Row> {
        let ports = self.ports(moment).into_iter().map(|port| Row::Port(port.name()));
        let gpus = self.gpus(moment).into_iter().map(|gpu| Row::Gpu(gpu.gpu.index));
        ports.chain(gpus).collect()
    }

    fn fits(&self, port: &PortMoment) -> bool {
        let netdev = port.netdev.as_deref().unwrap_or_default();
        self.has(&format!("{} {netdev}", port.name()))
    }

    fn has(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    fn order(&self, one: &PortMoment, other: &PortMoment) -> Ordering {
        if self.sort == Sort::Name {
            // The machine has them in the order of their names already.
            return if self.descending { later(one, other).reverse() } else { later(one, other) };
        }
        let measurements = (self.measurement(one), self.measurement(other));
        match measurements {
            // What is not known is last, whichever way.
            (None, None) => Ordering::Equal,
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
            (Some(one), Some(other)) if self.descending => other.total_cmp(&one),
            (Some(one), Some(other)) => one.total_cmp(&other),
        }
    }

    fn measurement(&self, port: &PortMoment) -> Option<f64> {
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

/// By name, numbers in them as numbers: shorter names are lower ones of the same kind.
fn later(one: &PortMoment, other: &PortMoment) -> Ordering {
    let digits = |letter: char| letter.is_ascii_digit();
    let parts = |port: &PortMoment| {
        let word = port.device.trim_end_matches(digits).to_owned();
        let number = port.device[word.len()..].parse::<u64>().unwrap_or(0);
        (word, number, port.port)
    };
    parts(one).cmp(&parts(other))
}
