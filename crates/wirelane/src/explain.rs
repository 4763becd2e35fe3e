//! `wirelane explain`: what an error line means, and what of its causes is seen here.

use std::io::{IsTerminal, Read};

use clap::Args;
use node::Node;
use ops::doctor::{Case, Settings};
use ops::explain::{self, Explained, State, Suspect};
use serde::Serialize;

use crate::cli::Global;
use crate::doctor::evidence;
use crate::doctor::paint::{Paint, paragraph};
use crate::exit::{Exit, Failure};
use crate::host::HostArgs;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Without LINE, lines are read from stdin: `wirelane explain < job.log`. Causes are looked for on this machine, or on
the one of `--root`; run it at both ends of a connection.
Exit codes: 0 something was explained, 1 nothing in the text is known.")]
pub(crate) struct ExplainArgs {
    /// The line, as NCCL, UCX, libfabric, perftest, the kernel or Wirelane printed it
    #[arg(value_name = "LINE")]
    line: Vec<String>,

    #[command(flatten)]
    host: HostArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(_global: &Global, args: &ExplainArgs) -> Result<Exit, Failure> {
    let text = if args.line.is_empty() { from_stdin()? } else { args.line.join(" ") };
    let tree = args.host.tree()?;
    let node = Node::read(&tree);
    let case = Case { node: &node, tree: &tree, settings: Settings::default() };
    let explained = explain::explain(&text, &case);
    if args.json {
        output::json(&Document { format: "wirelane explain 1", explained: &explained })?;
    } else if explained.is_empty() {
        output::note(UNKNOWN);
    } else {
        let paint = Paint::of_stdout();
        let rdma = !node.devices.is_empty();
        let texts: Vec<String> = explained.iter().map(|one| render(one, rdma, paint)).collect();
        output::answer(&texts.join("\n"))?;
        if !rdma {
            output::note(
                "This machine has no RDMA device: run this on the node of the error, or with \
                 --root SNAPSHOT.",
            );
        }
    }
    Ok(if explained.is_empty() { Exit::No } else { Exit::Done })
}

/// A MiB of a log is enough to find its errors.
fn from_stdin() -> Result<String, Failure> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        output::note("Paste the lines, then press Ctrl-D.");
    }
    let mut bytes = Vec::new();
    let read = stdin.lock().take(LONGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::failed(format!("read stdin: {error}")))?;
    if bytes.len() as u64 > LONGEST {
        output::warning(&"only the first MiB of the text was looked at");
        bytes.truncate(LONGEST as usize);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Serialize)]
struct Document<'d> {
    format: &'static str,
    explained: &'d [Explained],
}

fn render(explained: &Explained, rdma: bool, paint: Paint) -> String {
    let reading = &explained.reading;
    let times =
        if reading.times > 1 { format!("  ({} lines)", reading.times) } else { String::new() };
    let mut text = format!("{}: {}{times}\n", reading.source.name(), paint.strong(&reading.title));
    for sentence in &reading.meaning {
        text.push_str(&paragraph("  ", sentence));
    }
    if !explained.causes.is_empty() {
        text.push_str("  Causes, the likeliest first:\n");
    }
    for (number, suspect) in explained.causes.iter().enumerate() {
        text.push_str(&cause(number + 1, suspect, rdma, paint));
    }
    text
}

fn cause(number: usize, suspect: &Suspect, rdma: bool, paint: Paint) -> String {
    let state = match (suspect.state, suspect.check) {
        (State::Seen, _) => paint.bad("  SEEN HERE"),
        (State::NotHere, _) => paint.good("  not here"),
        (State::CannotTell, Some(_)) if rdma => paint.faint("  cannot be told from here"),
        (State::CannotTell, _) => String::new(),
    };
    let mut text = format!("  {number}. {}{state}\n", suspect.cause);
    // The worst that the check found is its answer; the others are the doctor's matter.
    if let Some(finding) = suspect.findings.first() {
        text.push_str(&paragraph(
            "       ",
            &format!("{}: {}", finding.subject(), finding.summary),
        ));
        let shown = finding.evidence.len().min(MOST_SHOWN);
        text.push_str(&evidence(&finding.evidence[..shown], "             "));
    }
    if suspect.state != State::NotHere {
        text.push_str(&paragraph("       fix:  ", suspect.remedy));
    }
    text
}

const UNKNOWN: &str = "\
Nothing in this text is an error line that Wirelane knows. It knows completions (status and vendor error) of NCCL, UCX
and perftest, messages of libfabric's EFA provider, and the kernel's lines on mlx5, PCIe, the IOMMU and GPUs. Try the
first error of the log, whole; and `wirelane doctor`, which needs no line.";

const LONGEST: u64 = 1 << 20;
/// Lines of evidence for a cause.
const MOST_SHOWN: usize = 3;
