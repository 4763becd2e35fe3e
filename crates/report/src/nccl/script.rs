//! Lines of the PyTorch script: one JSON object each, among whatever PyTorch says.

use serde::Deserialize;

use super::table::is_sound;
use super::{Gpu, Run};
use crate::{CollectiveRow, Half};

/// What a line of the script says.
#[derive(Debug, Deserialize)]
#[serde(tag = "wirelane_torch", rename_all = "snake_case")]
pub(super) enum Said {
    /// First: who measures what.
    Start(Start),
    /// A size.
    Row(Row),
    /// All is done.
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

/// Whether the line is a script's first.
pub(super) fn begins(line: &str) -> bool {
    matches!(Said::parse(line), Some(Said::Start(_)))
}

impl Said {
    /// Of a line, if it is the script's.
    pub(super) fn parse(line: &str) -> Option<Said> {
        let line = line.trim();
        line.starts_with("{\"wirelane_torch\"").then(|| serde_json::from_str(line).ok())?
    }

    pub(super) fn tell(self, run: &mut Run) {
        match self {
            Said::Start(start) => start.tell(run),
            Said::Row(row) => {
                let rows = &mut run.collective.rows;
                if rows.len() < MAX_ROWS {
                    rows.push(row.read());
                }
            }
            Said::End { average_bus_gb_per_second: average } => {
                run.collective.average_bus_gb_per_second = Some(average);
                run.is_whole = true;
                let wrong = |half: Option<Half>| half.and_then(|half| half.wrong);
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
    fn tell(self, run: &mut Run) {
        let nccl =
            self.nccl.filter(|_| self.backend == "nccl").map(|version| format!(", NCCL {version}"));
        let by = if nccl.is_some() { nccl } else { Some(format!(", {}", self.backend)) };
        run.collective.tool = format!("PyTorch {}{}", self.torch, by.unwrap_or_default());
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
        // gloo moves bytes by TCP and never leaves the host's memory.
        if self.backend == "gloo" {
            run.heard.network = Some("Socket".to_owned());
        }
    }
}

impl Row {
    fn read(self) -> CollectiveRow {
        let half = Half {
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
