//! `wirelane explain`: the meaning of an error line, and which of its causes apply to this machine.

use std::io::{BufRead, IsTerminal, Read};

use clap::Args;
use doctor::CheckInput;
use doctor::explain::{
    self, CauseState, ErrorLine, Explanation, LineEvidence, LogParser, PossibleCause,
};
use node::Node;
use serde::Serialize;

use crate::arguments::host::HostArgs;
use crate::commands::doctor::colours::Colours;
use crate::commands::doctor::evidence;
use crate::output;
use crate::output::wrap::{line, paragraph};
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
#[command(after_help = "\
Without LINE, lines are read from stdin. The causes are checked on this machine, or on
that of `--root`; run it at both ends of a connection.
Exit codes: 0 an error was explained, 1 the text has no known error.")]
pub(crate) struct ExplainArgs {
    /// The error line, as printed by NCCL, UCX, libfabric, perftest, the kernel or Wirelane
    #[arg(value_name = "LINE")]
    line: Vec<String>,

    #[command(flatten)]
    host: HostArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(_global: &Global, args: &ExplainArgs) -> Result<Exit, Failure> {
    let errors =
        if args.line.is_empty() { from_stdin()? } else { explain::parse(&args.line.join(" ")) };
    let tree = args.host.tree()?;
    let node = Node::read(&tree);
    let input = CheckInput::new(&node, &tree);
    let explained = explain::explain(errors, &input);
    if args.json {
        output::json(&Document { format: "wirelane explain 1", explained: &explained })?;
    } else if explained.is_empty() {
        output::note(&paragraph("", UNKNOWN));
    } else {
        let colours = Colours::for_stdout();
        let rdma = !node.devices.is_empty();
        let texts: Vec<String> = explained.iter().map(|one| render(one, rdma, colours)).collect();
        output::coloured(&texts.join("\n"))?;
        if !rdma {
            output::note(
                "This machine has no RDMA device: run this on the node with the error, or with \
                 --root SNAPSHOT.",
            );
        }
    }
    Ok(if explained.is_empty() { Exit::No } else { Exit::Done })
}

/// Reads all of stdin, line by line: the relevant error may be at the end of a long log.
fn from_stdin() -> Result<Vec<ErrorLine>, Failure> {
    let stdin = output::stdin()?;
    if stdin.is_terminal() {
        output::note("Paste the lines, then press Ctrl-D.");
    }
    let mut input = stdin.lock().take(MAX_LOG_BYTES);
    let errors =
        read_log(&mut input).map_err(|error| Failure::failed(format!("read stdin: {error}")))?;
    if input.limit() == 0 {
        output::warning(&"only the first 64 GiB of the input were read");
    }
    Ok(errors)
}

fn read_log(input: &mut impl BufRead) -> std::io::Result<Vec<ErrorLine>> {
    let mut log = LogParser::default();
    let mut line = Vec::new();
    while input.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? > 0 {
        log.add(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']));
        if line.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
        }
        line.clear();
    }
    Ok(log.into_errors())
}

#[derive(Serialize)]
struct Document<'d> {
    format: &'static str,
    explained: &'d [Explanation],
}

fn render(explained: &Explanation, rdma: bool, colours: Colours) -> String {
    let error = &explained.error;
    let times = if error.times > 1 { format!("  ({} lines)", error.times) } else { String::new() };
    let title = format!("{}: {}{times}", error.source.name(), colours.strong(&error.title));
    let mut text = line("", &title);
    for sentence in &error.meaning {
        text.push_str(&paragraph("  ", sentence));
    }
    if !explained.causes.is_empty() {
        text.push_str("  Causes, most likely first:\n");
    }
    for (number, possible) in explained.causes.iter().enumerate() {
        text.push_str(&cause(number + 1, possible, error, rdma, colours));
    }
    text
}

fn cause(
    number: usize,
    possible: &PossibleCause,
    error: &ErrorLine,
    rdma: bool,
    colours: Colours,
) -> String {
    let mut labels = Vec::new();
    match (possible.evidence, error.errno) {
        (LineEvidence::Proves, _) => labels.push(colours.bad("SHOWN BY THE LINE")),
        (LineEvidence::Unlikely, Some(errno)) => {
            labels.push(colours.faint(&format!("unlikely with {}", errno.name)));
        }
        _ => {}
    }
    match (possible.state, possible.check) {
        (CauseState::Found, _) => labels.push(colours.bad("FOUND HERE")),
        (CauseState::NotFound, _) => labels.push(colours.good("not here")),
        (CauseState::Unknown, Some(_)) if rdma => {
            labels.push(colours.faint("cannot be checked from here"))
        }
        (CauseState::Unknown, _) => {}
    }
    let label = if labels.is_empty() { String::new() } else { format!("  {}", labels.join(", ")) };
    let mut text = line(&format!("  {number}. "), &format!("{}{label}", possible.cause));
    if possible.evidence == LineEvidence::Unlikely && !possible.is_likely() {
        return text;
    }
    // Only the worst finding; `doctor` has the others.
    if let Some(finding) = possible.findings.first() {
        text.push_str(&paragraph(
            "       ",
            &format!("{}: {}", finding.subject(), finding.summary),
        ));
        let count = finding.evidence.len().min(MAX_EVIDENCE_LINES);
        text.push_str(&evidence(&finding.evidence[..count], "             "));
    }
    if possible.is_likely() {
        text.push_str(&paragraph("       fix:  ", possible.fix));
    }
    text
}

const UNKNOWN: &str = "\
No known error line found. Known are completions (status and vendor error) of any program, other errors of NCCL, PyTorch, \
UCX, libfabric, MPI, perftest, rdma-core, transfer engines and device plugins, and kernel messages on NICs, PCIe, the \
IOMMU and GPUs. Try the complete first error line of the log, and `wirelane doctor`.";

/// The rest of a longer line is ignored.
const MAX_LINE_BYTES: u64 = 16 << 10;
/// Limit for endless input.
const MAX_LOG_BYTES: u64 = 64 << 30;
/// Of a cause.
const MAX_EVIDENCE_LINES: usize = 3;
