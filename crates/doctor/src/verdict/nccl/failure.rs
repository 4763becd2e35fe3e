//! A run that failed: what its lines say, explained as `wirelane explain` does.

use report::nccl::Run;
use report::{Likely, Verdict};

use crate::Case;
use crate::explain::{self, Explained, Reading, State};

pub(super) fn judge(run: &Run, node: Option<&Case<'_>>) -> Verdict {
    let readings = explain::read(&run.complaints.join("\n"));
    let mut likely: Vec<Likely> = match node {
        Some(case) => explain::explain(readings, case).iter().map(explained).collect(),
        None => readings.iter().map(read).collect(),
    };
    if let Some(wrong) = run.collective.wrong.filter(|wrong| *wrong > 0) {
        likely.insert(0, Likely {
            what: "what was computed is wrong".to_owned(),
            evidence: format!("{wrong} values are not what they should be"),
            fix: Some("the kernel's log may tell of errors of GPUs (Xid) or of memory: `dmesg | wirelane explain`".to_owned()),
        });
    }
    let first = run.complaints.first().map(String::as_str);
    let summary = match (likely.first(), first) {
        (Some(likely), _) => format!("the run failed: {}", likely.what),
        (None, Some(line)) => format!("the run failed: {line}"),
        (None, None) => "the run failed".to_owned(),
    };
    Verdict { summary, likely, ..Verdict::default() }
}

/// With the likeliest cause: one that is seen on the node before others.
fn explained(explained: &Explained) -> Likely {
    let causes = explained.causes.iter();
    let likeliest = causes
        .filter(|suspect| suspect.state != State::NotHere)
        .min_by_key(|suspect| suspect.state);
    Likely {
        fix: likeliest.map(|suspect| format!("{}: {}", suspect.cause, suspect.fix)),
        ..read(&explained.reading)
    }
}

fn read(reading: &Reading) -> Likely {
    Likely {
        what: reading.title.clone(),
        evidence: reading.line.clone(),
        fix: Some(
            "`wirelane explain` on the node that said it looks for the cause there".to_owned(),
        ),
    }
}
