//! A run that failed: its error lines, explained as `wirelane explain` does.

use report::nccl::Run;
use report::{Bottleneck, Verdict};

use crate::CheckInput;
use crate::explain::{self, ErrorLine, Explanation};

pub(super) fn evaluate(run: &Run, node: Option<&CheckInput<'_>>) -> Verdict {
    let errors = explain::parse(&run.errors.join("\n"));
    let mut bottlenecks: Vec<Bottleneck> = match node {
        Some(input) => explain::explain(errors, input).iter().map(with_cause).collect(),
        None => errors.iter().map(without_cause).collect(),
    };
    if let Some(wrong) = run.collective.wrong.filter(|wrong| *wrong > 0) {
        bottlenecks.insert(0, Bottleneck {
            what: "the results are wrong".to_owned(),
            evidence: format!("{wrong} values differ from the expected ones"),
            fix: Some("check the kernel log for errors of GPUs (Xid) or memory: `dmesg | wirelane explain`".to_owned()),
        });
    }
    let first = run.errors.first().map(String::as_str);
    let summary = match (bottlenecks.first(), first) {
        (Some(bottleneck), _) => format!("the run failed: {}", bottleneck.what),
        (None, Some(line)) => format!("the run failed: {line}"),
        (None, None) => "the run failed".to_owned(),
    };
    Verdict { summary, bottlenecks, ..Verdict::default() }
}

/// With the likeliest cause.
fn with_cause(explanation: &Explanation) -> Bottleneck {
    let likeliest = explanation.causes.iter().find(|possible| possible.is_likely());
    Bottleneck {
        fix: likeliest.map(|possible| format!("{}: {}", possible.cause, possible.fix)),
        ..without_cause(&explanation.error)
    }
}

fn without_cause(error: &ErrorLine) -> Bottleneck {
    Bottleneck {
        what: error.title.clone(),
        evidence: error.line.clone(),
        fix: Some(
            "run `wirelane explain` on the node that printed it, to find the cause".to_owned(),
        ),
    }
}
