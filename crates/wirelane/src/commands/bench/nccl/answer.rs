//! The verdict on a run that was measured here or read from a log.

use std::io::Read;
use std::path::Path;

use access::files::InputFile;
use clap::Args;
use doctor::CheckInput;
use doctor::evaluation::nccl::{Transferred, evaluate, took_part};
use node::Node;
use report::nccl::{self, Run};
use report::{Document, Test};

use super::running::ProgramEnd;
use super::table;
use crate::arguments::host::HostArgs;
use crate::commands::bench::expect::Expect;
use crate::commands::bench::report::KeepArgs;
use crate::commands::env::JobArgs;
use crate::output;
use crate::output::{Exit, Failure};

/// The expected result and the output format.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(in crate::commands::bench) struct AnswerArgs {
    #[command(flatten)]
    pub(in crate::commands::bench) host: HostArgs,

    /// Exit with 1 unless the result reaches this: a share of the ports' expected bandwidth (80%), 40Gb/s, 5GB/s
    #[arg(long, value_name = "RESULT")]
    expect: Option<Expect>,

    /// Print one JSON document (schema: docs/bench.schema.json)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    keep: KeepArgs,
}

impl AnswerArgs {
    /// Checks the arguments before anything runs.
    pub(in crate::commands::bench) fn check(&self) -> Result<(), Failure> {
        self.keep.check()?;
        self.expect.as_ref().map_or(Ok(()), |expect| expect.check(Test::Bandwidth))
    }

    /// Evaluates the log in a file, or stdin for `-`.
    pub(in crate::commands::bench) fn read(
        &self,
        document: Document,
        file: &Path,
    ) -> Result<Exit, Failure> {
        let is_stdin = file == Path::new("-");
        let name = if is_stdin { "stdin".into() } else { file.to_string_lossy() };
        let wrong = |why: String| Failure::failed(format!("--read {name}: {why}"));
        let text = match is_stdin {
            true => load(output::stdin()?.lock()),
            false => InputFile::open(file).and_then(load),
        };
        let text = text.map_err(|error| wrong(error.to_string()))?;
        let run = nccl::read(&text).map_err(wrong)?;
        self.finish(document, run, None, None)
    }

    /// Evaluates a run on this machine, or the one of `--root`, and prints the result.
    pub(in crate::commands::bench) fn finish(
        &self,
        mut document: Document,
        mut run: Run,
        transferred: Option<&Transferred>,
        ended: Option<&ProgramEnd>,
    ) -> Result<Exit, Failure> {
        let tree = self.host.tree()?;
        let node = Node::read(&tree);
        let input = CheckInput::new(&node, &tree);
        // The ports of this machine do not matter for a log from another one.
        let name = node.host.name.value().map_or("", String::as_str);
        let is_known = !self.host.is_this_machine() || ended.is_some() || took_part(&run, name);
        let job_ports = JobArgs::ports(self.host.root.clone())?;
        let known = is_known.then_some(&input);
        let mut verdict = evaluate(&mut run, known, job_ports.as_deref(), transferred);
        if let Some(expect) = &self.expect {
            verdict.expectation = Some(expect.evaluate(&[], &verdict)?);
        }
        let is_met = verdict.expectation.as_ref().is_none_or(|expectation| expectation.met);
        let failed = run.has_failed();
        let text = table::show(&run, &verdict);
        document.verdict = Some(verdict);
        document.collective = Some(run.collective);
        match self.json {
            true => output::json(&document)?,
            false => output::answer(&text)?,
        }
        match ended {
            // A log was measured elsewhere or earlier: do not save it.
            None => self.keep.page(&document)?,
            Some(_) if failed => {}
            Some(_) => self.keep.keep(&document)?,
        }
        match ended {
            Some(ended) => ended.conclude(failed)?,
            None if failed => return Ok(Exit::No),
            None => {}
        }
        Ok(if is_met { Exit::Done } else { Exit::No })
    }
}

impl ProgramEnd {
    /// Prints the path of the log; a failed run is an error.
    fn conclude(&self, failed: bool) -> Result<(), Failure> {
        let log = self.log.display();
        match &self.failure {
            Some(why) => Err(Failure::failed(format!("{why}; its output is in {log}"))),
            None if failed => {
                Err(Failure::failed(format!("the run failed; its output is in {log}")))
            }
            None => {
                output::note(&format!("output: {log}"));
                Ok(())
            }
        }
    }
}

/// Reads the text, up to one byte more than the limit of `nccl::read`, which then reports it.
fn load(input: impl Read) -> std::io::Result<String> {
    let limit = nccl::MAX_LOG_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    input.take(limit).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
