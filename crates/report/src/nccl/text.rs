//! Parses a log, line by line.

use std::collections::BTreeSet;

use super::footer::Footer;
use super::line;
use super::operation::ALL;
use super::script;
use super::table::Columns;
use super::{Gpu, Run};

/// The last run in a log.
pub(super) fn read(text: &str) -> Result<Run, String> {
    let mut reader = Reader::default();
    let mut lines = text.split('\n').peekable();
    while let Some(raw) = lines.next() {
        // A line without a newline may be cut within a number.
        reader.is_cut = lines.peek().is_none();
        reader.add(&line::plain(raw));
    }
    reader.end()
}

#[derive(Default)]
struct Reader {
    run: Run,
    columns: Option<Columns>,
    /// Rows with other output in between.
    broken: usize,
    /// Rows over the limit.
    beyond: usize,
    /// Rows without results.
    empty: usize,
    /// The largest size, from the header.
    max_bytes: Option<u64>,
    /// Number of earlier runs.
    earlier: usize,
    /// The header of a run has been read.
    has_header: bool,
    /// This is the last line, without a newline.
    is_cut: bool,
    /// The ranks in the list of GPUs.
    ranks: BTreeSet<u32>,
    /// Why this must be the output of several programs that ran at the same time.
    mixed: Option<String>,
}

impl Reader {
    fn add(&mut self, line: &str) {
        if self.starts_another_run(line) {
            self.earlier += 1;
            let (earlier, is_cut) = (self.earlier, self.is_cut);
            *self = Reader { earlier, is_cut, ..Reader::default() };
        }
        self.has_header |= line.starts_with(DEVICES) || script::is_start(line);
        if let Some(script_line) = script::ScriptLine::parse(line) {
            script_line.apply(&mut self.run);
        } else if let Some(columns) = Columns::parse(line) {
            if self.columns.replace(columns).is_some() {
                self.mixed.get_or_insert_with(|| "the table's header is repeated".to_owned());
            }
        } else if let Some(gpu) = Gpu::parse(line) {
            self.add_gpu(gpu);
        } else if let Some(footer) = Footer::parse(line) {
            self.add_footer(footer);
        } else if !self.add_row(line) {
            self.add_head(line);
            self.run.nccl_log.add(line);
            self.add_error_line(line);
        }
    }

    /// Whether a header follows an earlier one, or a list of GPUs or a table follows a complete run.
    fn starts_another_run(&self, line: &str) -> bool {
        let heads = ["# nccl-tests version", "# nThread ", "# NCCL Tests compiled", DEVICES];
        let is_start = heads.iter().any(|head| line.starts_with(head)) || script::is_start(line);
        let is_list = || Gpu::parse(line).is_some() || Columns::parse(line).is_some();
        (is_start && self.has_header) || (self.run.is_complete && is_list())
    }

    fn add_gpu(&mut self, gpu: Gpu) {
        if !self.ranks.insert(gpu.rank) {
            self.mixed.get_or_insert_with(|| format!("rank {} is listed twice", gpu.rank));
        }
        if self.run.gpus.len() < MAX_GPUS {
            self.run.gpus.push(gpu);
        }
    }

    fn add_footer(&mut self, footer: Footer) {
        match footer {
            _ if self.is_cut => {}
            Footer::Wrong(_) if !self.is_checked() => {}
            Footer::Wrong(count) => self.run.collective.wrong = Some(count),
            Footer::Average(..) if self.run.is_complete => {
                self.mixed.get_or_insert_with(|| "it has two averages".to_owned());
            }
            Footer::Average(average, enough) => {
                self.run.collective.average_bus_gb_per_second = Some(average);
                self.run.is_complete = true;
                if enough == Some(false) {
                    self.add_error("the average is below NCCL_TESTS_MIN_BW (FAILED)");
                }
            }
        }
    }

    /// Whether values were checked: the footer has `0 OK` also without checks.
    fn is_checked(&self) -> bool {
        let rows = &self.run.collective.rows;
        let halves = || rows.iter().flat_map(|row| row.out_of_place.iter().chain(&row.in_place));
        // Older tables have the largest deviation instead of a count.
        halves().any(|half| half.wrong.is_some())
            || self.columns.as_ref().is_some_and(Columns::has_deviations)
    }

    /// Adds a row. Returns whether the line is one, valid or not.
    fn add_row(&mut self, line: &str) -> bool {
        let Some(columns) = &self.columns else { return false };
        let first = line.split_whitespace().next().unwrap_or_default();
        if first.is_empty() || !first.bytes().all(|byte| byte.is_ascii_digit()) {
            return false;
        }
        let row = columns.row(line).filter(|_| !self.is_cut);
        if self.run.is_complete {
            if row.is_some() {
                self.mixed.get_or_insert_with(|| "rows follow the average".to_owned());
            }
            return false;
        }
        match row {
            None => self.broken += 1,
            Some(_) if self.run.collective.rows.len() == MAX_ROWS => self.beyond += 1,
            Some(row) => {
                let is_empty = row.in_place.is_none() && row.out_of_place.is_none();
                self.empty += usize::from(is_empty);
                self.run.collective.rows.push(row);
            }
        }
        // NCCL's lines within a row are parsed too.
        self.run.nccl_log.add(line);
        true
    }

    /// The program, operation and largest size.
    fn add_head(&mut self, line: &str) {
        let collective = &mut self.run.collective;
        if let Some(version) = line.strip_prefix("# nccl-tests version ") {
            collective.tool = tool(version);
        }
        if let Some(head) = line.strip_prefix("# nThread ") {
            let mut words = head.split_whitespace();
            let max = words.find(|word| *word == "maxBytes").and_then(|_| words.next());
            self.max_bytes = max.and_then(|bytes| bytes.parse().ok());
        }
        if let Some(bytes) = line.strip_prefix("# Reducing maxBytes to ") {
            self.max_bytes = bytes.split_whitespace().next().and_then(|bytes| bytes.parse().ok());
        }
        if collective.operation.is_none() {
            // It is in the header of newer versions, and in the command line if a script echoes it.
            let operation = line.split_whitespace().find_map(|word| {
                let program = word.rsplit('/').next().unwrap_or_default();
                ALL.iter().find(|operation| operation.program() == program)
            });
            collective.operation = operation.map(|operation| operation.name().to_owned());
        }
    }

    fn add_error_line(&mut self, line: &str) {
        let contains = |patterns: &[&str]| patterns.iter().any(|words| line.contains(words));
        if contains(FAILURES) {
            self.run.has_stopped = true;
        } else if !line.contains(WARNING) || contains(HARMLESS) {
            return;
        }
        self.add_error(line.trim());
    }

    fn add_error(&mut self, line: &str) {
        let line: String = line.chars().take(MAX_ERROR_CHARS).collect();
        let errors = &mut self.run.errors;
        if errors.len() < MAX_ERRORS && !errors.contains(&line) {
            errors.push(line);
        }
    }

    fn end(mut self) -> Result<Run, String> {
        if let Some(evidence) = self.mixed {
            return Err(format!("{evidence}: {MIXED}"));
        }
        let nothing = self.run.collective.rows.is_empty();
        if nothing && self.run.errors.is_empty() {
            return Err(
                match self.columns.is_some()
                    || !self.run.gpus.is_empty()
                    || self.run.collective.ranks.is_some()
                {
                    true => "the log ends before the first row of the table".to_owned(),
                    false => NO_TABLE.to_owned(),
                },
            );
        }
        self.add_warnings();
        let mut run = self.run;
        run.earlier = self.earlier;
        if run.collective.tool.is_empty() {
            run.collective.tool = "nccl-tests".to_owned();
        }
        if let Some(version) = &run.nccl_log.version
            && !run.collective.tool.contains("NCCL ")
        {
            run.collective.tool = format!("{}, NCCL {version}", run.collective.tool);
        }
        run.derive_fields();
        Ok(run)
    }

    /// Lists what could not be read reliably.
    fn add_warnings(&mut self) {
        let rows = &self.run.collective.rows;
        let warnings = &mut self.run.warnings;
        if self.broken > 0 {
            warnings.push(format!(
                "{} of the table could not be read: mixed with other output, or truncated",
                lines(self.broken)
            ));
        }
        if self.beyond > 0 {
            warnings.push(format!(
                "only the first {MAX_ROWS} of {} rows are used",
                MAX_ROWS + self.beyond
            ));
        }
        if self.empty > 0 {
            warnings.push(format!("{} of the table have no results (nan)", lines(self.empty)));
        }
        if !self.run.is_complete && !rows.is_empty() {
            let largest = rows.iter().map(|row| row.size_bytes).max().unwrap_or_default();
            let of = match self.max_bytes {
                Some(max) if max > largest => format!(" of {max}"),
                _ => String::new(),
            };
            warnings.push(format!(
                "the log is truncated: it has sizes up to {largest}{of} bytes, and no average"
            ));
        }
    }
}

fn lines(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}

/// `2.19.6 nccl-headers=22803 nccl-library=22803` as a name.
fn tool(version: &str) -> String {
    let mut words = version.split_whitespace();
    let tests = words.next().unwrap_or_default();
    let library = words.find_map(|word| word.strip_prefix("nccl-library=")?.parse().ok());
    match library {
        Some(code) => format!("nccl-tests {tests}, NCCL {}", nccl_version(code)),
        None => format!("nccl-tests {tests}"),
    }
}

/// NCCL_VERSION_CODE: 22803 is 2.28.3; before 2.9 it had one digit less.
pub(super) fn nccl_version(code: u32) -> String {
    let step = if code < 10_000 { 1_000 } else { 10_000 };
    format!("{}.{}.{}", code / step, code % step / 100, code % 100)
}

/// A line of NCCL that may report a failure, or something that NCCL works around.
const WARNING: &str = "NCCL WARN";

/// Parts of warnings that NCCL works around: a libibverbs without some functions.
const HARMLESS: &[&str] = &["libibverbs: Warning", "dlvsym failed"];

/// Parts of lines that report the end of a program. `wirelane explain` knows more.
const FAILURES: &[&str] = &[
    "Test NCCL failure",
    "Test CUDA failure",
    "Test failure",
    "Test timeout",
    "Invalid number of GPUs",
    "# error:",
    "error while loading shared libraries",
    "command not found",
    "Segmentation fault",
    "mpirun noticed",
    "MPI_ABORT",
    "There are not enough slots",
    "RuntimeError",
    "DistBackendError",
    "ModuleNotFoundError",
    "Error: mkl-service",
    "ncclSystemError",
    "ncclRemoteError",
    "ncclInternalError",
    "ncclUnhandledCudaError",
];

/// The start of the list of GPUs in every version.
const DEVICES: &str = "# Using devices";

const NO_TABLE: &str = "no table of nccl-tests, no lines of `wirelane bench torch`, and no failure of either; \
     pass the whole output of all_reduce_perf, or the JSON file of -J";
const MIXED: &str = "the outputs of several programs are mixed in this log. If mpirun or srun started them, nccl-tests was built \
     without MPI=1, and each process measured alone: build it with MPI=1, or write each output to a separate file";
const MAX_GPUS: usize = 65_536;
const MAX_ROWS: usize = 10_000;
const MAX_ERRORS: usize = 64;
const MAX_ERROR_CHARS: usize = 400;
