//! Parses results of collective operations: the tables and JSON of nccl-tests, of every version, and the lines of
//! wirelane's own PyTorch script.
//!
//! Logs may have prefixes of mpirun, colours, NCCL's own lines, several runs in one file, and a truncated end. Columns
//! are identified by the words of the header, since they differ between versions. What cannot be read reliably is left
//! out and listed in [`Run::warnings`]; errors of NCCL are in [`Run::errors`].
//!
//! It only parses; the verdict is in `doctor`.
//!
//! Start at [`read`].

mod environment;
mod footer;
mod gpu;
mod json;
mod line;
mod nccl_log;
mod operation;
mod run;
mod script;
mod table;
mod text;

pub use gpu::Gpu;
pub use nccl_log::{Channels, NcclLog};
pub use operation::Operation;
pub use run::Run;

/// The last run in a log, a JSON file of nccl-tests, or the output of the PyTorch script.
pub fn read(text: &str) -> Result<Run, String> {
    if text.len() > MAX_LOG_BYTES {
        return Err(format!("larger than {} MiB: not the output of a run", MAX_LOG_BYTES >> 20));
    }
    if text.trim().is_empty() {
        return Err("the file is empty".to_owned());
    }
    let text = text.trim_start_matches('\u{feff}');
    if json::is(text) { json::read(text) } else { text::read(text) }
}

/// The maximum size of a log.
pub const MAX_LOG_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests;
