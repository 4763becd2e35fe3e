//! Parses the JSON of `-J` (since 2.17.6; version 3). Booleans and some numbers are strings there, also `nan`.

use serde::Deserialize;
use serde_json::Value;

use super::table::{count, is_sound};
use super::text::nccl_version;
use super::{Gpu, Run, environment};
use crate::{Collective, CollectiveResult, CollectiveRow};

/// Whether the text is such a document.
pub(super) fn is(text: &str) -> bool {
    let text = text.trim_start();
    let first = text.lines().next().unwrap_or_default().trim_end();
    // Each line of the PyTorch script is a complete object.
    text.starts_with('{') && (first == "{" || !first.ends_with('}'))
}

pub(super) fn read(text: &str) -> Result<Run, String> {
    let json: JsonRun = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => {
            "the JSON is cut off: the run did not end, or the file is incomplete; pass the log instead".to_owned()
        }
        _ => format!("not JSON of nccl-tests: {error}"),
    })?;
    let run = json.run();
    match run.collective.rows.is_empty() && run.errors.is_empty() {
        true => Err("the file has no results".to_owned()),
        false => Ok(run),
    }
}

#[derive(Deserialize)]
struct JsonRun {
    version: u32,
    #[serde(default)]
    start_time: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    nccl_version: Option<u32>,
    #[serde(default)]
    config: Config,
    results: Vec<Row>,
    #[serde(default)]
    out_of_bounds: Option<Bounds>,
    #[serde(default)]
    average_bus_bandwidth: Option<Average>,
    #[serde(default)]
    errors: Vec<Option<String>>,
    #[serde(default)]
    end_time: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    nthreads: u32,
    ngpus: u32,
    validation: u32,
    devices: Vec<Rank>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Rank {
    rank: u32,
    group: u32,
    hostname: String,
    device: u32,
    device_hex: Option<String>,
    device_info: String,
}

#[derive(Deserialize)]
struct Row {
    size: u64,
    #[serde(default)]
    count: Option<u64>,
    #[serde(default, rename = "type")]
    datatype: Option<String>,
    #[serde(default)]
    redop: Option<String>,
    #[serde(default)]
    root: Value,
    #[serde(default)]
    out_of_place: Option<Measurements>,
    #[serde(default)]
    in_place: Option<Measurements>,
}

#[derive(Deserialize)]
struct Measurements {
    #[serde(alias = "cpu_time")]
    time: Value,
    alg_bw: Value,
    bus_bw: Value,
    #[serde(default)]
    nwrong: Value,
}

#[derive(Deserialize)]
struct Bounds {
    count: u64,
}

#[derive(Deserialize)]
struct Average {
    bandwidth: Value,
    #[serde(default)]
    okay: Value,
}

impl JsonRun {
    fn run(self) -> Run {
        let program = self.args.first().and_then(|path| path.rsplit('/').next());
        let operation = program.and_then(|name| name.parse::<super::Operation>().ok());
        let processes = u32::try_from(self.config.devices.len()).unwrap_or(0);
        // Only the first GPU of each process is listed.
        let each = self.config.nthreads.max(1).saturating_mul(self.config.ngpus.max(1));
        let nccl = self.nccl_version.map(|code| format!(", NCCL {}", nccl_version(code)));
        let average = self.average_bus_bandwidth.as_ref();
        let mut run = Run {
            collective: Collective {
                tool: format!("nccl-tests{}", nccl.unwrap_or_default()),
                operation: operation.map(|operation| operation.name().to_owned()),
                ranks: (processes > 0).then(|| processes.saturating_mul(each)),
                rows: self.results.iter().map(Row::read).collect(),
                average_bus_gb_per_second: average.and_then(|average| number(&average.bandwidth)),
                wrong: self.out_of_bounds.filter(|_| self.config.validation > 0).map(|of| of.count),
                ..Collective::default()
            },
            gpus: self.config.devices.into_iter().flat_map(|rank| rank.gpus(each)).collect(),
            errors: self.errors.into_iter().flatten().filter(|error| !error.is_empty()).collect(),
            is_complete: self.end_time.is_some() && average.is_some(),
            started: self.start_time,
            environment: environment::redact(self.env.iter().map(String::as_str)),
            ..Run::default()
        };
        run.has_stopped = !run.errors.is_empty();
        if average.is_some_and(|average| average.okay == "false") {
            run.errors.push("the average is below what NCCL_TESTS_MIN_BW asks".to_owned());
        }
        if self.version > SUPPORTED_VERSION {
            run.warnings.push(format!(
                "its format is version {}; this program supports {SUPPORTED_VERSION}",
                self.version
            ));
        }
        if !run.is_complete {
            run.warnings.push("the file is truncated: it has no average".to_owned());
        }
        run.derive_fields();
        run
    }
}

impl Rank {
    /// The process's GPUs; the file lists only the first.
    fn gpus(self, each: u32) -> impl Iterator<Item = Gpu> {
        let first = Gpu {
            rank: self.rank,
            group: self.group,
            host: self.hostname,
            device: self.device,
            pci: self.device_hex,
            name: self.device_info,
        };
        (0..each.min(MAX_PROCESS_GPUS)).map(move |place| Gpu {
            rank: first.rank.saturating_add(place),
            device: first.device.saturating_add(place),
            pci: first.pci.clone().filter(|_| place == 0),
            ..first.clone()
        })
    }
}

impl Row {
    fn read(&self) -> CollectiveRow {
        let root = match &self.root {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_i64(),
        };
        CollectiveRow {
            size_bytes: self.size,
            count: self.count,
            datatype: self.datatype.clone(),
            reduction: self.redop.clone().filter(|name| !name.is_empty()),
            root: root.and_then(|root: i64| u32::try_from(root).ok()),
            out_of_place: self.out_of_place.as_ref().and_then(Measurements::read),
            in_place: self.in_place.as_ref().and_then(Measurements::read),
        }
    }
}

impl Measurements {
    fn read(&self) -> Option<CollectiveResult> {
        let half = CollectiveResult {
            time_us: number(&self.time)?,
            algorithm_gb_per_second: number(&self.alg_bw)?,
            bus_gb_per_second: number(&self.bus_bw)?,
            wrong: number(&self.nwrong).and_then(|wrong| count(&wrong.to_string())),
        };
        Some(half).filter(is_sound)
    }
}

/// A number, or one that is written as a string.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|number| number.is_finite())
}

/// The version of these fields.
const SUPPORTED_VERSION: u32 = 3;
/// Maximum number of GPUs of a process.
const MAX_PROCESS_GPUS: u32 = 1024;
