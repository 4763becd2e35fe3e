//! A log, line by line.

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
        // What is not ended by a newline may be cut within a number.
        reader.is_cut = lines.peek().is_none();
        reader.add(&line::plain(raw));
    }
    reader.end()
}

#[derive(Default)]
struct Reader {
    run: Run,
    columns: Option<Columns>,
    /// Rows that other output broke.
    broken: usize,
    /// Rows beyond what is kept.
    beyond: usize,
    /// Halves without results.
    empty: usize,
    /// What the head says will be measured at most.
    max_bytes: Option<u64>,
    /// Runs before this one.
    earlier: usize,
    /// The head of a run has been seen.
    is_begun: bool,
    /// The line is the last, and not ended.
    is_cut: bool,
}

impl Reader {
    fn add(&mut self, line: &str) {
        if self.begins_another(line) {
            self.earlier += 1;
            let (earlier, is_cut) = (self.earlier, self.is_cut);
            *self = Reader { earlier, is_cut, ..Reader::default() };
        }
        self.is_begun |= line.starts_with(DEVICES) || script::begins(line);
        if let Some(said) = script::Said::parse(line) {
            said.tell(&mut self.run);
        } else if let Some(columns) = Columns::parse(line) {
            self.columns = Some(columns);
        } else if let Some(gpu) = Gpu::parse(line) {
            self.add_gpu(gpu);
        } else if let Some(footer) = Footer::parse(line) {
            self.add_footer(footer);
        } else if !self.add_row(line) {
            self.add_head(line);
            self.run.heard.add(line);
            self.add_complaint(line);
        }
    }

    /// A head when there was one before.
    fn begins_another(&self, line: &str) -> bool {
        let heads = ["# nccl-tests version", "# nThread ", "# NCCL Tests compiled", DEVICES];
        let begins = heads.iter().any(|head| line.starts_with(head)) || script::begins(line);
        begins && self.is_begun
    }

    fn add_gpu(&mut self, gpu: Gpu) {
        if self.run.gpus.len() < MAX_GPUS {
            self.run.gpus.push(gpu);
        }
    }

    fn add_footer(&mut self, footer: Footer) {
        match footer {
            _ if self.is_cut => {}
            Footer::Wrong(_) if !self.is_checked() => {}
            Footer::Wrong(count) => self.run.collective.wrong = Some(count),
            Footer::Average(average, enough) => {
                self.run.collective.average_bus_gb_per_second = Some(average);
                self.run.is_whole = true;
                if enough == Some(false) {
                    self.complain("the average is below what NCCL_TESTS_MIN_BW asks (FAILED)");
                }
            }
        }
    }

    /// The footer says `0 OK` also where nothing was checked.
    fn is_checked(&self) -> bool {
        let rows = &self.run.collective.rows;
        let halves = || rows.iter().flat_map(|row| row.out_of_place.iter().chain(&row.in_place));
        // Older tables have the largest deviation instead of a count.
        halves().any(|half| half.wrong.is_some())
            || self.columns.as_ref().is_some_and(Columns::has_deviations)
    }

    /// Whether it is a row, sound or not.
    fn add_row(&mut self, line: &str) -> bool {
        let Some(columns) = &self.columns else { return false };
        let first = line.split_whitespace().next().unwrap_or_default();
        if self.run.is_whole || first.is_empty() || !first.bytes().all(|byte| byte.is_ascii_digit())
        {
            return false;
        }
        match columns.row(line).filter(|_| !self.is_cut) {
            None => self.broken += 1,
            Some(_) if self.run.collective.rows.len() == MAX_ROWS => self.beyond += 1,
            Some(row) => {
                let is_empty = row.in_place.is_none() && row.out_of_place.is_none();
                self.empty += usize::from(is_empty);
                self.run.collective.rows.push(row);
            }
        }
        // What NCCL said in the middle of a row is still said.
        self.run.heard.add(line);
        true
    }

    /// Who measures, what, and how far.
    fn add_head(&mut self, line: &str) {
        let collective = &mut self.run.collective;
        if let Some(version) = line.strip_prefix("# nccl-tests version ") {
            collective.tool = tool(version);
        }
        if let Some(head) = line.strip_prefix("# nThread ") {
            let mut words = head.split_whitespace();
            let most = words.find(|word| *word == "maxBytes").and_then(|_| words.next());
            self.max_bytes = most.and_then(|bytes| bytes.parse().ok());
        }
        if let Some(bytes) = line.strip_prefix("# Reducing maxBytes to ") {
            self.max_bytes = bytes.split_whitespace().next().and_then(|bytes| bytes.parse().ok());
        }
        if collective.operation.is_none() {
            // The head of newer versions names it, and so does the command where a script echoes it.
            let operation = line.split_whitespace().find_map(|word| {
                let program = word.rsplit('/').next().unwrap_or_default();
                ALL.iter().find(|operation| operation.program() == program)
            });
            collective.operation = operation.map(|operation| operation.name().to_owned());
        }
    }

    fn add_complaint(&mut self, line: &str) {
        if COMPLAINTS.iter().any(|words| line.contains(words)) {
            self.complain(line.trim());
        }
    }

    fn complain(&mut self, line: &str) {
        let line: String = line.chars().take(LONGEST_COMPLAINT).collect();
        let complaints = &mut self.run.complaints;
        if complaints.len() < MAX_COMPLAINTS && !complaints.contains(&line) {
            complaints.push(line);
        }
    }

    fn end(mut self) -> Result<Run, String> {
        let nothing = self.run.collective.rows.is_empty();
        if nothing && self.run.complaints.is_empty() {
            return Err(
                match self.columns.is_some()
                    || !self.run.gpus.is_empty()
                    || self.run.collective.ranks.is_some()
                {
                    true => "it ends before the first row of the table".to_owned(),
                    false => NO_TABLE.to_owned(),
                },
            );
        }
        self.doubt();
        let mut run = self.run;
        run.earlier = self.earlier;
        if run.collective.tool.is_empty() {
            run.collective.tool = "nccl-tests".to_owned();
        }
        if let Some(version) = &run.heard.version
            && !run.collective.tool.contains("NCCL ")
        {
            run.collective.tool = format!("{}, NCCL {version}", run.collective.tool);
        }
        run.settle();
        Ok(run)
    }

    /// What could not be read for sure.
    fn doubt(&mut self) {
        let rows = &self.run.collective.rows;
        let doubts = &mut self.run.doubts;
        if self.broken > 0 {
            doubts.push(format!("{} of the table could not be read: other output is between their words, or they are cut", lines(self.broken)));
        }
        if self.beyond > 0 {
            doubts.push(format!(
                "only the first {MAX_ROWS} rows are kept of {}",
                MAX_ROWS + self.beyond
            ));
        }
        if self.empty > 0 {
            doubts.push(format!("{} of the table have no results (nan)", lines(self.empty)));
        }
        if !self.run.is_whole && !rows.is_empty() {
            let largest = rows.iter().map(|row| row.size_bytes).max().unwrap_or_default();
            let of = match self.max_bytes {
                Some(most) if most > largest => format!(" of {most}"),
                _ => String::new(),
            };
            doubts.push(format!(
                "the end is missing: sizes up to {largest}{of} bytes are there, and no average"
            ));
        }
    }
}

fn lines(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}

/// `2.19.6 nccl-headers=22803 nccl-library=22803` for people.
fn tool(version: &str) -> String {
    let mut words = version.split_whitespace();
    let tests = words.next().unwrap_or_default();
    let library = words.find_map(|word| word.strip_prefix("nccl-library=")?.parse().ok());
    match library {
        Some(code) => format!("nccl-tests {tests}, NCCL {}", nccl_version(code)),
        None => format!("nccl-tests {tests}"),
    }
}

/// NCCL_VERSION_CODE: 22803 is 2.28.3; before 2.9 it had a digit less.
pub(super) fn nccl_version(code: u32) -> String {
    let step = if code < 10_000 { 1_000 } else { 10_000 };
    format!("{}.{}.{}", code / step, code % step / 100, code % 100)
}

/// Words of lines that tell of a failure. `wirelane explain` knows more of them.
const COMPLAINTS: &[&str] = &[
    "NCCL WARN",
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

/// What every version begins its list of GPUs with.
const DEVICES: &str = "# Using devices";

const NO_TABLE: &str = "there is no table of nccl-tests in it, nor lines of `wirelane bench torch`, nor a failure of either; \
     give the whole output of all_reduce_perf, or what it wrote with -J";
const MAX_GPUS: usize = 65_536;
const MAX_ROWS: usize = 10_000;
const MAX_COMPLAINTS: usize = 64;
const LONGEST_COMPLAINT: usize = 400;
