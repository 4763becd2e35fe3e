//! Checks of a machine's fabric. Each finding has a severity, the evidence that was read, the reason why it matters, and
//! the exact fix.
//!
//! Each check is one file in `checks/` and two lines in its `mod.rs`, one of them in [`CHECKS`]. A check reads a [`CheckInput`] and returns findings;
//! none if it does not apply. There is no table of NIC models: the expected rate of a link follows from the link partner,
//! the cable and other ports of the same model, or is unknown. What is common on healthy machines is at most a note.
//!
//! This crate only reads: it changes, sends and loads nothing. The expected values of settings are in [`expected`], which
//! `change` and `jobs` use too.
//!
//! Start at [`run_checks`]. [`peer`] compares two machines, [`since`] compares a machine with an earlier snapshot, and
//! [`checklist`] tests whether a machine is ready for production.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests create the files that they read")
)]

pub mod capture;
pub mod checklist;
mod checks;
pub mod evaluation;
pub mod expected;
pub mod explain;
mod finding;
mod findings_report;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod input;
pub mod libfabric;
pub mod monitoring;
pub mod peer;
mod rates;
pub mod since;
mod store_disk;
pub mod topo;

pub use checks::CHECKS;
pub use finding::{Evidence, Finding, Severity, changes_direction, one_line};
pub use findings_report::{FindingsReport, SeverityCounts};
pub use input::{CheckInput, Expectations, gbps, is_roce};
pub use libfabric::Libfabric;
pub use store_disk::StoreDisk;

/// A check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name on the command line: `memlock`.
    pub name: &'static str,
    /// What should be true, in one line.
    pub title: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// The function that makes the findings.
    pub(crate) run: fn(&CheckInput<'_>) -> Vec<Finding>,
}

/// The check with this name.
pub fn check(name: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.name == name)
}

/// Runs these checks on a machine; if none is named, all that apply.
pub fn run_checks(input: &CheckInput<'_>, only: &[&Check]) -> FindingsReport {
    let chosen: Vec<&Check> = match only {
        [] if input.node.devices.is_empty() => {
            CHECKS.iter().filter(|check| WITHOUT_DEVICES.contains(&check.name)).collect()
        }
        [] => CHECKS.iter().collect(),
        named => named.to_vec(),
    };
    let findings = chosen.into_iter().flat_map(|check| check.findings(input)).collect();
    FindingsReport::new(input, findings)
}

/// Checks that find the reason for a missing device, and those of what works without one.
const WITHOUT_DEVICES: [&str; 3] = ["modules", "libfabric", "store-disk"];

impl Check {
    /// Runs the check. Findings that differ only in their subject are merged.
    pub fn findings(&self, input: &CheckInput<'_>) -> Vec<Finding> {
        let mut findings: Vec<Finding> = Vec::new();
        for mut finding in (self.run)(input) {
            finding.check = self.name;
            finding.why = self.why;
            match findings.iter_mut().find(|earlier| earlier.has_same_message(&finding)) {
                Some(earlier) => earlier.merge(finding),
                None => findings.push(finding),
            }
        }
        findings
    }
}
