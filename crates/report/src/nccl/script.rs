//! Lines of the PyTorch script: one JSON object each, mixed with PyTorch's own output.

use serde::Deserialize;

use super::table::is_sound;
use super::{Gpu, Run};
use crate::{CollectiveResult, CollectiveRow};

/// A line of the script.
#[derive(Debug, Deserialize)]
#[serde(tag = "wirelane_torch", rename_all = "snake_case")]
pub(super) enum ScriptLine {
    /// The first line: operation, versions and ranks.
    Start(Start),
    /// The result of one size.
    Row(Row),
    /// The last line.
    End {
        /// GB/s.
        average_bus_gb_per_second: f64,
    },
}

#[derive(Debug, Deserialize)]
pub(super) struct Start {
    torch: String,
    backend: String,
    #[serde(default)]
    nccl: Option<String>,
    operation: String,
    #[serde(default)]
    started: Option<String>,
    ranks: Vec<Rank>,
}

#[derive(Debug, Deserialize)]
struct Rank {
    rank: u32,
    host: String,
    device: u32,
    name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Row {
    size_bytes: u64,
    count: u64,
    datatype: String,
    #[serde(default)]
    reduction: Option<String>,
    in_place: bool,
    time_us: f64,
    algorithm_gb_per_second: f64,
    bus_gb_per_second: f64,
    #[serde(default)]
    wrong: Option<u64>,
}

/// Whether it is the first line of the script.
pub(super) fn is_start(line: &str) -> bool {
    matches!(ScriptLine::parse(line), Some(ScriptLine::Start(_)))
}

impl ScriptLine {
    /// Parses a line; `None` if it is not the script's.
    pub(super) fn parse(line: &str) -> Option<ScriptLine> {
        let line = line.trim();
        line.starts_with("{\"wirelane_torch\"").then(|| serde_json::from_str(line).ok())?
    }

    pub(super) fn apply(self, run: &mut Run) {
        match self {
            ScriptLine::Start(start) => start.apply(run),
            ScriptLine::Row(row) => {
                let rows = &mut run.collective.rows;
                if rows.len() < MAX_ROWS {
                    rows.push(row.read());
                }
            }
            ScriptLine::End { average_bus_gb_per_second: average } => {
                run.collective.average_bus_gb_per_second = Some(average);
                run.is_complete = true;
                let wrong = |half: Option<CollectiveResult>| half.and_then(|half| half.wrong);
                let rows = run.collective.rows.iter();
                let all: Vec<u64> = rows
                    .filter_map(|row| wrong(row.in_place).or(wrong(row.out_of_place)))
                    .collect();
                run.collective.wrong = (!all.is_empty()).then(|| all.iter().sum());
            }
        }
    }
}

impl Start {
    fn apply(self, run: &mut Run) {
        let nccl =
            self.nccl.filter(|_| self.backend == "nccl").map(|version| format!(", NCCL {version}"));
        let backend = if nccl.is_some() { nccl } else { Some(format!(", {}", self.backend)) };
        run.collective.tool = format!("PyTorch {}{}", self.torch, backend.unwrap_or_default());
        run.collective.operation = Some(self.operation);
        run.collective.ranks = self.ranks.len().try_into().ok();
        run.started = self.started;
        let gpus = self.ranks.into_iter().map(|rank| Gpu {
            rank: rank.rank,
            host: rank.host,
            device: rank.device,
            name: rank.name,
            ..Gpu::default()
        });
        run.gpus = gpus.collect();
        // gloo uses TCP and host memory.
        if self.backend == "gloo" {
            run.nccl_log.network = Some("Socket".to_owned());
        }
    }
}

impl Row {
    fn read(self) -> CollectiveRow {
        let half = CollectiveResult {
            time_us: self.time_us,
            algorithm_gb_per_second: self.algorithm_gb_per_second,
            bus_gb_per_second: self.bus_gb_per_second,
            wrong: self.wrong,
        };
        let half = Some(half).filter(is_sound);
        CollectiveRow {
            size_bytes: self.size_bytes,
            count: Some(self.count),
            datatype: Some(self.datatype),
            reduction: self.reduction,
            root: None,
            out_of_place: half.filter(|_| !self.in_place),
            in_place: half.filter(|_| self.in_place),
        }
    }
}

const MAX_ROWS: usize = 10_000;
