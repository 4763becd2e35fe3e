//! Reads what measures collective operations: the tables and JSON of nccl-tests, of every version, and the lines of the
//! program's own PyTorch script.
//!
//! Logs come as people keep them: with prefixes of mpirun, colours, NCCL's own lines between, several runs in one file, cut
//! off at the end. Tables are read by the words of their header, since columns came and went over the years. What cannot be
//! read for sure is left out and said ([`Run::doubts`]); what NCCL complains of is kept ([`Run::complaints`]).
//!
//! It reads what the output has; the verdict on it is `doctor`'s.
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

/// The last run in a log, a JSON file of nccl-tests, or what the PyTorch script printed; or why it is none of these.
pub fn read(text: &str) -> Result<Run, String> {
    if text.len() > LONGEST {
        return Err(format!("it is longer than {} MiB, which no run's output is", LONGEST >> 20));
    }
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    let text = text.trim_start_matches('\u{feff}');
    if json::is(text) { json::read(text) } else { text::read(text) }
}

/// The most that is read of a log.
pub const LONGEST: usize = 64 << 20;

#[cfg(test)]
mod tests;
