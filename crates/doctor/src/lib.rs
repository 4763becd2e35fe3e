//! What is wrong with a machine's fabric: checks, each with a verdict, the evidence it read, why it matters, and
//! the exact fix.
//!
//! One check, one file in `checks/`, one line in [`CHECKS`]. A check looks at a [`Case`] and gives findings;
//! it is silent where it does not apply. It has no list of boards: what a link should be follows from its other
//! end, its cable and its neighbours, or is unknown. What is usual on a healthy machine is at most a note.
//!
//! It only reads: nothing is changed, sent or loaded here. What settings should be stands in [`limits`], which `change`
//! and `jobs` use too.
//!
//! Start at [`examine`]. Two machines are compared by [`peer`], two times of one by [`since`], and
//! [`checklist`] asks whether a machine is ready for production.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make the files that they read")
)]

pub mod capture;
mod case;
pub mod checklist;
mod checks;
pub mod explain;
mod finding;
pub mod libfabric;
pub mod limits;
pub mod peer;
mod rates;
mod report;
pub mod since;
pub mod topo;
pub mod verdict;
pub mod watch;

pub use case::{Case, Settings, gbps, is_roce};
pub use checks::CHECKS;
pub use finding::plain as one_line;
pub use finding::{Evidence, Finding, Verdict};
pub use libfabric::Libfabric;
pub use report::{Counts, Report};

/// One thing that is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// What it is asked for by: `memlock`.
    pub name: &'static str,
    /// What it looks at, in a line.
    pub title: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// The looking.
    pub(crate) run: fn(&Case<'_>) -> Vec<Finding>,
}

/// The check of a name.
pub fn check(name: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.name == name)
}

/// Looks at a machine, with these checks or, if none is named, with all that apply.
pub fn examine(case: &Case<'_>, only: &[&Check]) -> Report {
    let chosen: Vec<&Check> = match only {
        [] if case.node.devices.is_empty() => {
            CHECKS.iter().filter(|check| WITHOUT_DEVICES.contains(&check.name)).collect()
        }
        [] => CHECKS.iter().collect(),
        named => named.to_vec(),
    };
    let findings = chosen.into_iter().flat_map(|check| check.look(case)).collect();
    Report::new(case, findings)
}

/// What tells why there is no device where there should be one.
const WITHOUT_DEVICES: [&str; 2] = ["modules", "libfabric"];

impl Check {
    /// Its findings; those that differ only in their subject are one.
    pub fn look(&self, case: &Case<'_>) -> Vec<Finding> {
        let mut told: Vec<Finding> = Vec::new();
        for mut finding in (self.run)(case) {
            finding.check = self.name;
            finding.why = self.why;
            match told.iter_mut().find(|earlier| earlier.tells_the_same(&finding)) {
                Some(earlier) => earlier.join(finding),
                None => told.push(finding),
            }
        }
        told
    }
}
