//! What is said of a run, measured here or read from a log.

use std::io::Read;
use std::path::Path;

use clap::Args;
use doctor::Case;
use doctor::verdict::nccl::{Transferred, evaluate, took_part};
use node::Node;
use report::nccl::{self, Run};
use report::{Document, Test};

use super::running::Ended;
use super::table;
use crate::arguments::host::HostArgs;
use crate::commands::bench::expect::Expect;
use crate::commands::bench::report::KeepArgs;
use crate::output;
use crate::output::{Exit, Failure};

/// How it is answered.
#[derive(Debug, Args)]
#[command(next_help_heading = "The answer")]
pub(in crate::commands::bench) struct AnswerArgs {
    #[command(flatten)]
    pub(in crate::commands::bench) host: HostArgs,

    /// End with 1 unless it is as good: a part of what the ports should give (80%), 40Gb/s, 5GB/s
    #[arg(long, value_name = "RESULT")]
    expect: Option<Expect>,

    /// Print one JSON document, as docs/bench.schema.json describes it
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    keep: KeepArgs,
}

impl AnswerArgs {
    /// What cannot be expected is said before anything runs.
    pub(in crate::commands::bench) fn check(&self) -> Result<(), Failure> {
        self.keep.check()?;
        self.expect.as_ref().map_or(Ok(()), |expect| expect.check(Test::Bandwidth))
    }

    /// Of a file, or `-`.
    pub(in crate::commands::bench) fn read(
        &self,
        document: Document,
        file: &Path,
    ) -> Result<Exit, Failure> {
        let name = if file == Path::new("-") { "stdin".into() } else { file.to_string_lossy() };
        let wrong = |why: String| Failure::failed(format!("--read {name}: {why}"));
        let text = load(file).map_err(|error| wrong(error.to_string()))?;
        let run = nccl::read(&text).map_err(wrong)?;
        self.give(document, run, None, None)
    }

    /// Judges a run by this machine, or the one of `--root`, and answers.
    pub(in crate::commands::bench) fn give(
        &self,
        mut document: Document,
        mut run: Run,
        transferred: Option<&Transferred>,
        ended: Option<&Ended>,
    ) -> Result<Exit, Failure> {
        let tree = self.host.tree()?;
        let node = Node::read(&tree);
        let case = Case::new(&node, &tree);
        // A log from elsewhere says nothing of this machine's ports.
        let is_named = self.host.root != Path::new("/");
        let name = node.host.name.value().map_or("", String::as_str);
        let is_known = is_named || ended.is_some() || took_part(&run, name);
        let mut verdict = evaluate(&mut run, is_known.then_some(&case), transferred);
        if let Some(expect) = &self.expect {
            verdict.expectation = Some(expect.judge(&[], &verdict)?);
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
            // What was read was measured elsewhere, or long ago.
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

impl Ended {
    /// Says where the log is; what failed could not be measured.
    fn conclude(&self, failed: bool) -> Result<(), Failure> {
        let log = self.log.display();
        match &self.failure {
            Some(why) => Err(Failure::failed(format!("{why}; all that it printed is in {log}"))),
            None if failed => {
                Err(Failure::failed(format!("it failed; all that it printed is in {log}")))
            }
            None => {
                output::note(&format!("all that it printed is in {log}"));
                Ok(())
            }
        }
    }
}

/// What may be text; not more than a run's output can be, and a byte to tell that.
fn load(file: &Path) -> std::io::Result<String> {
    let most = nccl::LONGEST as u64 + 1;
    let mut bytes = Vec::new();
    match file == Path::new("-") {
        true => std::io::stdin().lock().take(most).read_to_end(&mut bytes)?,
        false => std::fs::File::open(file)?.take(most).read_to_end(&mut bytes)?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
