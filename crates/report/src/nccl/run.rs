//! A parsed run, and its results.

use std::collections::{BTreeMap, BTreeSet};

use super::{Gpu, NcclLog, Operation};
use crate::{Collective, CollectiveResult, CollectiveRow};

/// A parsed run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// The results.
    pub collective: Collective,
    /// The GPUs that took part.
    pub gpus: Vec<Gpu>,
    /// Facts from NCCL's own lines, if they were enabled (NCCL_DEBUG=INFO).
    pub nccl_log: NcclLog,
    /// Lines that report a failure, and NCCL's warnings, which may.
    pub errors: Vec<String>,
    /// Whether one of these lines reports the end of the program: a warning alone does not.
    pub has_stopped: bool,
    /// What could not be read reliably.
    pub warnings: Vec<String>,
    /// Whether the program ran to its end.
    pub is_complete: bool,
    /// Start time, if the output has it.
    pub started: Option<String>,
    /// Variables of NCCL and UCX; with values only where they contain no secret.
    pub environment: BTreeMap<String, Option<String>>,
    /// Number of earlier runs in the same log.
    pub earlier: usize,
}

impl Run {
    /// The operation, if known.
    pub fn operation(&self) -> Option<Operation> {
        self.collective.operation.as_deref()?.parse().ok()
    }

    /// The row with the highest bus bandwidth, and its value in GB/s.
    pub fn peak(&self) -> Option<(&CollectiveRow, f64)> {
        let rows = self.collective.rows.iter();
        let best = rows.filter_map(|row| Some((row, row.bus_gb_per_second()?)));
        best.max_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// The average bus bandwidth: as printed by the program, or computed in the same way.
    pub fn average(&self) -> Option<f64> {
        self.collective.average_bus_gb_per_second.or_else(|| {
            let halves: Vec<f64> = self.halves().map(|half| half.bus_gb_per_second).collect();
            (!halves.is_empty()).then(|| halves.iter().sum::<f64>() / halves.len() as f64)
        })
    }

    /// Whether it did not run to its end, or had wrong values. A log without the end of a run that only has warnings is
    /// truncated.
    pub fn has_failed(&self) -> bool {
        let has_rows = !self.collective.rows.is_empty();
        let stopped = self.has_stopped || (!has_rows && !self.errors.is_empty());
        (!self.is_complete && stopped) || self.collective.wrong.is_some_and(|wrong| wrong > 0)
    }

    /// The number of ranks on the host with the most.
    pub fn ranks_on_a_host(&self) -> u32 {
        let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
        for gpu in &self.gpus {
            *hosts.entry(&gpu.host).or_default() += 1;
        }
        hosts.into_values().max().unwrap_or(1)
    }

    /// Takes the rows of the same run's JSON, which has more digits.
    pub fn with_rows_of(mut self, json: Run) -> Run {
        if json.is_complete && json.collective.rows.len() >= self.collective.rows.len() {
            self.collective.rows = json.collective.rows;
            self.is_complete = true;
        }
        self.environment = json.environment;
        self
    }

    fn halves(&self) -> impl Iterator<Item = &CollectiveResult> {
        let rows = self.collective.rows.iter();
        rows.flat_map(|row| row.out_of_place.iter().chain(&row.in_place))
    }

    /// Fills in fields that follow from the others.
    pub(super) fn derive_fields(&mut self) {
        let hosts: BTreeSet<&str> = self.gpus.iter().map(|gpu| gpu.host.as_str()).collect();
        self.collective.hosts = hosts.into_iter().map(str::to_owned).collect();
        if self.collective.ranks.is_none() {
            let group = |of: u32| self.gpus.iter().filter(|gpu| gpu.group == of).count();
            let largest = self.gpus.iter().map(|gpu| group(gpu.group)).max();
            self.collective.ranks = largest.and_then(|ranks| ranks.try_into().ok());
        }
        if self.collective.operation.is_none() {
            let guess = self.looks_like_all_reduce();
            self.collective.operation = guess.then(|| Operation::AllReduce.name().to_owned());
        }
    }

    /// Older versions do not print the operation. A reduction without a root whose bus bandwidth is 2(n−1)/n of the
    /// algorithm bandwidth is an all-reduce.
    fn looks_like_all_reduce(&self) -> bool {
        let Some(ranks) = self.collective.ranks.filter(|ranks| *ranks > 1).map(f64::from) else {
            return false;
        };
        let factor = 2.0 * (ranks - 1.0) / ranks;
        let reduces = |row: &CollectiveRow| {
            row.root.is_none() && row.reduction.as_deref().is_some_and(|word| word != "none")
        };
        let has_factor = |half: &CollectiveResult| {
            let ratio = half.bus_gb_per_second / half.algorithm_gb_per_second;
            (ratio / factor - 1.0).abs() < 0.02
        };
        let largest = self.collective.rows.last();
        largest.is_some_and(|row| {
            reduces(row)
                && row.out_of_place.as_ref().or(row.in_place.as_ref()).is_some_and(has_factor)
        })
    }
}

impl CollectiveRow {
    /// The better of the two bus bandwidths.
    pub fn bus_gb_per_second(&self) -> Option<f64> {
        let halves = self.out_of_place.iter().chain(&self.in_place);
        halves.map(|half| half.bus_gb_per_second).max_by(f64::total_cmp)
    }
}
